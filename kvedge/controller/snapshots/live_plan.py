"""What has to be done about the copies of a VM that runs, from the content on until all of them are sealed.

Called by `snapshot_plan`. Pure. The moment is fixed by the launcher; from then on the guest changes its disks without
changing the copies, and they may take as long as they need.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.snapshots.content_plan import claim_names, copy_names
from kvedge.controller.snapshots.live_copies import (
    ask,
    is_asked,
    is_of_content,
    make_copy_claim,
    run_of,
    seal_claim,
)
from kvedge.controller.snapshots.memory.memory_backup import (
    holds_memory,
    indicate_memory,
    is_memory,
    make_memory_claim,
)
from kvedge.controller.snapshots.snapshot_actions import Create, SnapshotAction, SnapshotPlan, Told
from kvedge.controller.snapshots.snapshot_report import GOING, NOT_READY, fail_snapshot, report_snapshot, soonest
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.volume_copies import is_claim_sealed, left_out_volumes, loses_data
from kvedge.resources.types.protection.snapshots import (
    SnapshotVolumes,
    SourceIndication,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotStatus,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import BackupStatus

# The answer comes with the VMI; this is for one that does not.
_LOOK_SECONDS: Final = 30.0
_REFUSED_SECONDS: Final = 5.0
_CRASH_CONSISTENT: Final = "Snapshot is crash-consistent and may not be application-consistent."
# KubeVirt's.
_INDICATIONS: Final = {
    "Online": "Snapshot taken while the VM was running. Consistency depends on guest-agent quiescing.",
    "GuestAgent": "Guest agent was active and attempted to quiesce the filesystem for application consistency.",
    "NoGuestAgent": f"Guest agent was not available. {_CRASH_CONSISTENT}",
    "QuiesceTimeout": "Guest agent quiesced the filesystem, but the freeze window timed out before completion."
    f" {_CRASH_CONSISTENT}",
    "Paused": f"Snapshot taken while the VM was paused. {_CRASH_CONSISTENT}",
    "PartialSnapshot": "Not all snapshotable volumes were included in the snapshot. Check status.snapshotVolumes for"
    " excluded volumes and VM VolumeSnapshotStatus for details.",
}


def indicate(name: str) -> SourceIndication:
    """An indication with KubeVirt's words."""
    return SourceIndication(indication=name, message=_INDICATIONS[name])


def is_moment_fixed(view: SnapshotView) -> bool:
    """Whether the guest can change the copies no more: from then on they may take as long as they need."""
    if view.content is None:
        return False
    told = None if view.vmi is None or not is_asked(view.vmi, view.content) else view.vmi.backup_status
    return told is not None and told.start_timestamp is not None and not told.failed


def plan_live(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine, now: datetime, left: float | None
) -> SnapshotPlan:
    """What to do; not all claims are sealed yet, and the VM is locked."""
    vmi = view.vmi
    if vmi is None or vmi.is_final or vmi.metadata.uid != run_of(content):
        return fail_snapshot(view, now, "the VM ended while its disks were copied")
    if vmi.status.evacuation_node_name:
        # Whoever drains a node waits for its guests, and a copy may take hours.
        return fail_snapshot(view, now, f"the guest is to leave node {vmi.status.evacuation_node_name}")
    names = copy_names(content)
    there = {name: view.claims[name] for name in names if name in view.claims}
    foreign = next((name for name, claim in there.items() if not is_of_content(claim, content)), "")
    if foreign:
        return fail_snapshot(view, now, f"PVC {foreign} exists already, and is none of this snapshot")
    if not is_asked(vmi, content):
        return _plan_claims(view, content, vm, now, left)
    told = vmi.backup_status or BackupStatus()
    if told.failed:
        return fail_snapshot(view, now, "the disks were not copied", told.backup_msg or "")
    gone = next((name for name in names if name not in view.claims or _is_going(view, name)), "")
    if gone:
        return fail_snapshot(view, now, f"PVC {gone}, which a copy goes into, is gone")
    status = _with_moment(
        _status(view, content, vm),
        told,
        is_partial=loses_data(vm, view.claims, content),
        memory=[indicate_memory(told)] if holds_memory(content) else [],
    )
    plan = report_snapshot(
        view,
        now,
        status,
        (NOT_READY, GOING),
        again=soonest(left, _LOOK_SECONDS),
        message=told.backup_msg or _describe(view),
    )
    if not told.completed:
        return plan
    # How they were made is written down before they count as made.
    seals = tuple(seal_claim(view.claims[name]) for name in names if not is_claim_sealed(view.claims[name]))
    return SnapshotPlan((*plan.actions, *seals), again_after=plan.again_after)


def _plan_claims(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine, now: datetime, left: float | None
) -> SnapshotPlan:
    made: list[SnapshotAction] = []
    told: list[Told] = []
    named = claim_names(content)
    for backup in content.spec.volume_backups:
        name = backup.volume_snapshot_name or ""
        if name in view.claims:
            continue
        if is_memory(backup):
            made.append(Create(make_memory_claim(content, backup, vm.metadata.name)))
            continue
        source = view.claims.get(named[backup.volume_name])
        if source is None:
            return fail_snapshot(view, now, f"PVC {named[backup.volume_name]} of volume {backup.volume_name} is gone")
        made.append(Create(make_copy_claim(content, backup, source, vm.metadata.name)))
        told.append(Told("Normal", "SuccessfulVolumeSnapshotCreate", f"Successfully created VolumeSnapshot {name}"))
    assert view.vmi is not None
    if not made:
        made.append(ask(view.vmi, content))
    plan = report_snapshot(view, now, _status(view, content, vm), (NOT_READY, GOING), message=view.refusal)
    return SnapshotPlan(
        (*made, *plan.actions), tuple(told), soonest(left, _REFUSED_SECONDS if view.refusal else _LOOK_SECONDS)
    )


def _status(
    view: SnapshotView, content: VirtualMachineSnapshotContent, vm: VirtualMachine
) -> VirtualMachineSnapshotStatus:
    return msgspec.structs.replace(
        view.snapshot.status,
        virtual_machine_snapshot_content_name=content.metadata.name,
        snapshot_volumes=SnapshotVolumes(
            included_volumes=list(claim_names(content)), excluded_volumes=left_out_volumes(vm, view.claims, content)
        ),
    )


def _with_moment(
    status: VirtualMachineSnapshotStatus, told: BackupStatus, *, is_partial: bool, memory: list[SourceIndication]
) -> VirtualMachineSnapshotStatus:
    """The status with the moment and how the guest was held still then, once it has come."""
    if not told.start_timestamp:
        return status
    quiesced = [told.quiesce_status] if told.quiesce_status in _INDICATIONS else []
    partial = ["PartialSnapshot"] if is_partial else []
    indications = [indicate(name) for name in sorted(("Online", *quiesced, *partial))] + memory
    return msgspec.structs.replace(
        status,
        creation_time=told.start_timestamp,
        indications=[each.indication for each in indications],
        source_indications=indications,
    )


def _describe(view: SnapshotView) -> str:
    waiting = next((claim.metadata.name for claim in view.claims.values() if claim.status.phase == "Lost"), "")
    return f"PVC {waiting} is lost" if waiting else ""


def _is_going(view: SnapshotView, name: str) -> bool:
    return view.claims[name].metadata.deletion_timestamp is not None
