"""What a snapshot holds: made once the VM is locked, and true ever after.

Called by `snapshot_plan`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.snapshots.driver_snapshots import (
    choose_driver,
    describe_driver_fault,
    driver_states,
    is_of_driver,
    mark_driver,
)
from kvedge.controller.snapshots.memory.memory_backup import disk_backups, plan_memory, wants_memory
from kvedge.controller.snapshots.snapshot_view import SnapshotView
from kvedge.controller.snapshots.volume_copies import is_usable, kept_claims
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.snapshot_names import (
    CLAIM_COPIES,
    CONTENT_FINALIZER,
    LIVE_COPIES,
    METHOD,
    RUN,
    content_name,
    volume_copy_name,
)
from kvedge.resources.instancetypes.kept_types import annotation_of, identify, without_revision_names
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import KEPT_TYPES, MACHINE_MARKS
from kvedge.resources.types.protection.snapshots import (
    BackedUpClaim,
    SnapshotError,
    SnapshotSource,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotContentSpec,
    VirtualMachineSnapshotContentStatus,
    VolumeBackup,
    VolumeSnapshotStatus,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339

# Of a VM and a claim: what was said of them, and not what an API server keeps beside it.
_SERVERS_OWN: Final = ("managedFields", "resourceVersion", "generation")
# Of a VM that runs: what holds at once, beside volumes and disks.
_PRESENT: Final = ("dataVolumeTemplates", "runStrategy", "running")
_MISSING: Final = "VolumeSnapshots ({}) missing"


def make_content(view: SnapshotView, vm: VirtualMachine) -> VirtualMachineSnapshotContent:
    """The content of a snapshot that begins now."""
    meta = view.snapshot.metadata
    document = encode(vm)
    is_running = view.vmi is not None and not view.vmi.is_final
    source = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "metadata": _with_types(_without_servers_own(document["metadata"]), view.types),
        "spec": without_revision_names(_spec_of_run(document.get("spec") or {}, view.revision if is_running else None)),
    }
    backups = [
        VolumeBackup(
            volume_name=volume,
            persistent_volume_claim=_back_up(view.claims[claim]),
            volume_snapshot_name=volume_copy_name(meta.uid, volume),
        )
        for volume, claim in kept_claims(vm, view.vmi, view.claims).items()
    ]
    if view.vmi is not None and wants_memory(view.snapshot):
        backups.append(plan_memory(view.snapshot, vm, view.vmi, view.claims))
    return VirtualMachineSnapshotContent(
        metadata=ObjectMeta(
            name=content_name(meta.uid),
            namespace=meta.namespace,
            annotations=_choose_method(view, vm),
            finalizers=[CONTENT_FINALIZER],
        ),
        spec=VirtualMachineSnapshotContentSpec(
            virtual_machine_snapshot_name=meta.name,
            source=SnapshotSource(virtual_machine=source),
            volume_backups=backups,
        ),
    )


def _choose_method(view: SnapshotView, vm: VirtualMachine) -> dict[str, str]:
    """How its disks are taken, as the content's annotations."""
    vmi = None if view.vmi is None or view.vmi.is_final else view.vmi
    if choose_driver(view.snapshot, set(kept_claims(vm, vmi, view.claims).values()), vmi, view.classes.by_claim):
        return mark_driver(vmi)
    return {METHOD: CLAIM_COPIES} if vmi is None else {METHOD: LIVE_COPIES, RUN: vmi.metadata.uid}


def _with_types(metadata: JsonObject, types: Mapping[str, JsonObject]) -> JsonObject:
    """What the VM's types were stays with what is kept of it: its own copies go with it."""
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != KEPT_TYPES}
    if types:
        annotations[KEPT_TYPES] = annotation_of({name: identify(each) for name, each in types.items()})
    return {**metadata, **({"annotations": annotations} if annotations else {})}


def _spec_of_run(spec: JsonObject, revision: JsonObject | None) -> JsonObject:
    """What a run was started from, with the disks and the run strategy that the VM has now.

    What somebody has changed since and what is to come with the next start, the snapshot does not have.
    """
    started = (revision or {}).get("spec")
    if not started:
        return spec
    kept = {name: value for name, value in started.items() if name not in _PRESENT}
    kept |= {name: spec[name] for name in _PRESENT if name in spec}
    template = dict(started.get("template") or {})
    run, now = dict(template.get("spec") or {}), (spec.get("template") or {}).get("spec") or {}
    domain = dict(run.get("domain") or {})
    devices = {name: value for name, value in (domain.get("devices") or {}).items() if name != "disks"}
    disks = ((now.get("domain") or {}).get("devices") or {}).get("disks")
    domain["devices"] = {**devices, **({"disks": disks} if disks else {})}
    run = {name: value for name, value in run.items() if name != "volumes"} | {"domain": domain}
    if now.get("volumes"):
        run["volumes"] = now["volumes"]
    return {**kept, "template": {**_with_machine_marks(template, spec.get("template") or {}), "spec": run}}


def _with_machine_marks(template: JsonObject, now: JsonObject) -> JsonObject:
    """The template of the start with what was noted since of the machine that this run has."""
    noted = (now.get("metadata") or {}).get("annotations") or {}
    marks = {name: noted[name] for name in MACHINE_MARKS if name in noted}
    if not marks:
        return template
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {**metadata, "annotations": {**marks, **(metadata.get("annotations") or {})}}}


def copy_names(content: VirtualMachineSnapshotContent) -> list[str]:
    """The claims that hold its copies."""
    return [each.volume_snapshot_name for each in content.spec.volume_backups if each.volume_snapshot_name]


def claim_names(content: VirtualMachineSnapshotContent) -> dict[str, str]:
    """The claims that were copied, by volume."""
    return {
        each.volume_name: str(each.persistent_volume_claim.metadata.get("name", "")) for each in disk_backups(content)
    }


def plan_content_status(
    view: SnapshotView,
    content: VirtualMachineSnapshotContent,
    now: datetime,
    *,
    complete: bool,
    error: str = "",
    moment: str | None = None,
) -> JsonObject:
    """A merge patch of the status; empty when it is true already.

    `complete` is said once, when all copies are there; from then on the status follows what becomes of them. They
    were made at `moment`, or are just complete.
    """
    if is_of_driver(content):
        return _plan_driver_status(view, content, now, complete=complete, moment=moment)
    old = content.status
    taken = old.creation_time or ((moment or rfc3339(now)) if complete else None)
    states = [
        VolumeSnapshotStatus(
            volume_snapshot_name=name,
            creation_time=taken,
            ready_to_use=taken is not None and is_usable(view.copies.get(name), view.claims.get(name)),
        )
        for name in copy_names(content)
    ]
    lost = [each.volume_snapshot_name for each in states if taken is not None and not each.ready_to_use]
    text = _MISSING.format(",".join(lost)) if lost else error
    wanted = VirtualMachineSnapshotContentStatus(
        creation_time=taken,
        ready_to_use=taken is not None and not lost,
        error=_keep_error(old.error, text, now),
        volume_snapshot_status=states,
    )
    return merge_difference(encode(old), encode(wanted))


def _plan_driver_status(
    view: SnapshotView, content: VirtualMachineSnapshotContent, now: datetime, *, complete: bool, moment: str | None
) -> JsonObject:
    """The same where a driver keeps the disks: what it says of each is repeated, its errors too."""
    found, old = view.driver_snapshots, content.status
    if found is None:
        # Nobody knows what there is: what was said stays.
        return {}
    states = driver_states(content, found)
    is_taken = bool(old.creation_time or moment or complete)
    lost = [each.volume_snapshot_name for each in states if is_taken and each.creation_time is None]
    text = _MISSING.format(",".join(lost)) if lost else describe_driver_fault(content, found)
    wanted = VirtualMachineSnapshotContentStatus(
        creation_time=old.creation_time or moment or (rfc3339(now) if complete else None),
        ready_to_use=is_taken and all(each.ready_to_use for each in states),
        error=_keep_error(old.error, text, now),
        volume_snapshot_status=states,
    )
    return merge_difference(encode(old), encode(wanted))


def _keep_error(old: SnapshotError | None, text: str, now: datetime) -> SnapshotError | None:
    if not text:
        return None
    if old is not None and old.message == text:
        return old
    return SnapshotError(time=rfc3339(now), message=text)


def _back_up(claim: PersistentVolumeClaim) -> BackedUpClaim:
    return BackedUpClaim(
        metadata=_without_servers_own(msgspec.to_builtins(claim.metadata)), spec=msgspec.to_builtins(claim.spec)
    )


def _without_servers_own(metadata: JsonObject) -> JsonObject:
    return {name: value for name, value in metadata.items() if name not in _SERVERS_OWN}
