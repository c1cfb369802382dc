"""What an export serves, and whether it may be served now.

Called by export_loop.py, which looks up what is asked for here. Pure. A disk is served while nobody can write it: a
download that a guest writes into is no disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.controller.exports.export_view import SourceSeen, SourceVolume, VolumesState
from kvedge.controller.exports.vm_manifests import make_vm_manifests, snapshot_vm
from kvedge.controller.snapshots.driver_snapshots import is_of_driver
from kvedge.controller.snapshots.memory.memory_backup import guest_disks, holds_memory
from kvedge.controller.snapshots.volume_copies import holds_state, lasting_claims
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.resources.data_volume_names import CONTENT_TYPE, KUBEVIRT_CONTENT
from kvedge.resources.disks.claim_facts import is_of_data_volume, is_populated
from kvedge.resources.disks.snapshot_names import CLAIM_COPIES, METHOD
from kvedge.resources.disks.vm_backups import backup_directory, image_name
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.export_job import ServedBackup
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_PVC_READY: Final = "PVCReady"
_CREATED: Final = "VolumesCreated"
_INITIALIZING: Final = "Initializing"


class SourceFacts(Struct, frozen=True):
    """What was looked up for one export; what is not there is left out."""

    vm: VirtualMachine | None = None
    vmi: VirtualMachineInstance | None = None
    snapshot: VirtualMachineSnapshot | None = None
    content: VirtualMachineSnapshotContent | None = None
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    backup: VirtualMachineBackup | None = None
    # Its VM; empty when that is not known.
    backed_up_vm: str = ""
    # By claim: who may write it now.
    users: Mapping[str, str] = field(default_factory=dict)


def judge_source(export: VirtualMachineExport, facts: SourceFacts) -> SourceSeen:
    """What is exported, and what it waits for."""
    match export.spec.source.kind:
        case "PersistentVolumeClaim":
            return _judge_claim(export, facts)
        case "VirtualMachine":
            return _judge_vm(export, facts)
        case "VirtualMachineSnapshot":
            return _judge_snapshot(export, facts)
        case "VirtualMachineBackup":
            return _judge_backup(export, facts)
        case _:
            # Admission lets none in; one that came before it is told so.
            return SourceSeen(reason="Unknown", message="spec.source.kind: nothing of this kind is exported")


def claims_of(export: VirtualMachineExport, facts: SourceFacts) -> list[str]:
    """The claims that an export's judgement needs to know."""
    if export.spec.source.kind == "PersistentVolumeClaim":
        return [export.spec.source.name]
    if facts.backup is not None:
        return [facts.backup.spec.pvc_name or ""]
    if facts.vm is not None:
        return list(lasting_claims(facts.vm).values())
    if facts.content is not None:
        return [each.volume_snapshot_name for each in guest_disks(facts.content) if each.volume_snapshot_name]
    return []


def writing_pod(pods: Iterable[Pod], claim: str) -> str:
    """A Pod that may write a claim; empty when none may."""
    return min((pod.metadata.name for pod in pods if not has_ended(pod) and _may_write(pod, claim)), default="")


def _may_write(pod: Pod, claim: str) -> bool:
    return any(
        source is not None and source.claim_name == claim and not source.read_only
        for source in (volume.persistent_volume_claim for volume in pod.spec.volumes)
    )


def holds_disk(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim says that it holds a disk and not files."""
    said = claim.metadata.annotations.get(CONTENT_TYPE)
    if claim.is_block or said == KUBEVIRT_CONTENT or said == "":
        return True
    return said is None and is_of_data_volume(claim)


def _judge_claim(export: VirtualMachineExport, facts: SourceFacts) -> SourceSeen:
    name, where = export.spec.source.name, f"{export.metadata.namespace}/{export.spec.source.name}"
    claim = facts.claims.get(name)
    if claim is None:
        text = f"PersistentVolumeClaim {where} not found"
        return SourceSeen(reason=_INITIALIZING, state=VolumesState(_PVC_READY, "False", "PVCNotFound", text))
    state = _bound_state([claim])
    volumes = (SourceVolume(name, claim, holds_disk(claim)),)
    seen = SourceSeen(volumes=volumes, state=state)
    if state.status != "True":
        return replace(seen, reason="PVCPending", message=state.message)
    if not is_populated(claim):
        return replace(seen, reason="PVCPending", message=f"PersistentVolumeClaim {where} is not populated")
    return _unless_used(seen, export, facts)


def _judge_vm(export: VirtualMachineExport, facts: SourceFacts) -> SourceSeen:
    name, where = export.spec.source.name, f"{export.metadata.namespace}/{export.spec.source.name}"
    vm = facts.vm
    if vm is None:
        return SourceSeen(reason="VMNotFound", message=f"Virtual Machine {where} not found")
    wanted = lasting_claims(vm)
    if not wanted:
        text = f"Virtual Machine {where} has no volumes"
        return SourceSeen(reason="VMNoVolumes", message=text, is_skipped=True, vm=name)
    missing = [claim for claim in wanted.values() if not _is_full(facts.claims.get(claim))]
    if missing:
        text = f"Not all volumes in the Virtual Machine {where} are populated"
        state = VolumesState(_PVC_READY, "False", "PVCPending", f"not populated: {', '.join(sorted(set(missing)))}")
        return SourceSeen(reason="VolumesNotPopulated", message=text, state=state, vm=name)
    disks = _disk_names(vm)
    # Two volumes may lie on one claim.
    volumes = {
        claim: SourceVolume(claim, facts.claims[claim], volume in disks or holds_disk(facts.claims[claim]))
        for volume, claim in wanted.items()
    }
    served = tuple(volumes.values())
    seen = SourceSeen(
        volumes=served,
        vm=name,
        state=_bound_state([each.claim for each in served]),
        manifests=make_vm_manifests(vm, served),
    )
    if facts.vmi is not None and not facts.vmi.is_final:
        return replace(seen, reason="InUse", message=f"Virtual Machine {where} is running")
    return _unless_used(seen, export, facts)


def _judge_snapshot(export: VirtualMachineExport, facts: SourceFacts) -> SourceSeen:
    where = f"VirtualMachineSnapshot {export.metadata.namespace}/{export.spec.source.name}"
    snapshot, content = facts.snapshot, facts.content
    if snapshot is None:
        # KubeVirt ends here as Skipped; a snapshot that is made later is served.
        state = VolumesState(_CREATED, "False", "VMSnapshotNoVolumes", f"{where} does not contain any volume snapshots")
        return SourceSeen(reason="VMSnapshotNotFound", message=f"{where} not found", state=state)
    vm = snapshot.spec.source.name
    if not snapshot.status.ready_to_use or content is None:
        text = f"{where} is not ready to use"
        state = VolumesState(_CREATED, "False", "NotAllPVCsCreated", text)
        return SourceSeen(reason="NotAllPVCsCreated", message=text, state=state, vm=vm)
    # A guest's memory and its TPM's state are of no use elsewhere: they are left out.
    backups = [each for each in guest_disks(content) if each.volume_snapshot_name]
    if not backups:
        text = f"{where} does not contain any volume snapshots"
        state = VolumesState(_CREATED, "False", "VMSnapshotNoVolumes", text)
        return SourceSeen(reason="VMSnapshotNoVolumes", message=text, is_skipped=True, state=state, vm=vm)
    if is_of_driver(content):
        text = (
            f"{where} is kept as VolumeSnapshots, which no Pod reads: restore it to another VM and export that, or take"
            f" one with the annotation {METHOD}={CLAIM_COPIES}"
        )
        state = VolumesState(_CREATED, "False", "NotAllPVCsCreated", text)
        return SourceSeen(reason="NotAllPVCsCreated", message=text, state=state, vm=vm)
    missing = [each.volume_snapshot_name or "" for each in backups if each.volume_snapshot_name not in facts.claims]
    if missing:
        text = f"{where} has lost copies: {', '.join(missing)}"
        state = VolumesState(_CREATED, "False", "NotAllPVCsReady", text)
        return SourceSeen(reason="NotAllPVCsReady", message=text, state=state, vm=vm)
    disks = _disk_names(snapshot_vm(content))
    served = tuple(
        # As KubeVirt calls the claims that it makes of a snapshot for an export.
        SourceVolume(
            f"{export.metadata.name}-{each.persistent_volume_claim.metadata.get('name', each.volume_name)}",
            facts.claims[each.volume_snapshot_name or ""],
            each.volume_name in disks or holds_disk(facts.claims[each.volume_snapshot_name or ""]),
        )
        for each in backups
    )
    left = "the guest's memory is left out: it is of use to its own VM alone" if holds_memory(content) else ""
    if holds_state(content):
        left = "the state of TPM and UEFI firmware is left out: it is of use to its own VM alone"
    state = VolumesState(_CREATED, "True", "AllPVCsReady", left)
    seen = SourceSeen(volumes=served, state=state, vm=vm)
    of_claim = {
        str(each.persistent_volume_claim.metadata.get("name", "")): volume
        for each, volume in zip(backups, served, strict=True)
    }
    seen = replace(seen, manifests=make_vm_manifests(snapshot_vm(content), served, of_claim))
    return _unless_used(seen, export, facts)


def _judge_backup(export: VirtualMachineExport, facts: SourceFacts) -> SourceSeen:
    where = f"VirtualMachineBackup {export.metadata.namespace}/{export.spec.source.name}"
    backup = facts.backup
    if backup is None:
        return SourceSeen(reason="BackupNotFound", message=f"{where} not found")
    vm, status = facts.backed_up_vm, backup.status
    found = condition(status.conditions, "Progressing")
    if not backup.spec.is_pull or found is None or found.reason not in ("PreparingExport", "ExportReady"):
        text = f"{where} is not to be pulled now: its mode must be Pull, and it must be whole and not over"
        return SourceSeen(reason=_INITIALIZING, message=text, vm=vm or None)
    claim = facts.claims.get(backup.spec.pvc_name or "")
    if claim is None or not vm or not status.checkpoint_name:
        return SourceSeen(reason="BackupNotFound", message=f"the claim, the tracker or the name of {where} is gone")
    served = ServedBackup(
        directory=backup_directory(vm, status.checkpoint_name),
        images={
            each.volume_name: image_name(backup.metadata.name, each.volume_name) for each in status.included_volumes
        },
        incremental=status.type == "Incremental",
    )
    volumes = (SourceVolume(claim.metadata.name, claim, disk=False, backup=served),)
    return _unless_used(SourceSeen(volumes=volumes, vm=vm, state=_bound_state([claim])), export, facts)


def _unless_used(seen: SourceSeen, export: VirtualMachineExport, facts: SourceFacts) -> SourceSeen:
    for claim, user in sorted(facts.users.items()):
        text = f"PersistentVolumeClaim {export.metadata.namespace}/{claim} is in use"
        detail = f"{text} by {user}"
        state = None if seen.state is None else replace(seen.state, message=detail)
        return replace(seen, reason="InUse", message=text, detail=detail, state=state)
    return seen


def _is_full(claim: PersistentVolumeClaim | None) -> bool:
    return claim is not None and claim.status.phase == "Bound" and is_populated(claim)


def _bound_state(claims: Iterable[PersistentVolumeClaim]) -> VolumesState:
    for claim in claims:
        if claim.status.phase != "Bound":
            where, phase = f"{claim.metadata.namespace}/{claim.metadata.name}", claim.status.phase or "Pending"
            text = f"PersistentVolumeClaim {where} is {phase}: nothing has been in it yet"
            return VolumesState(_PVC_READY, "False", "PVCPending", text)
    return VolumesState(_PVC_READY, "True", "PVCBound")


def _disk_names(vm: VirtualMachine) -> set[str]:
    template = vm.spec.template
    return set() if template is None else {disk.name for disk in template.spec.domain.devices.disks}
