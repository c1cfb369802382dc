"""A VM as a restore writes it: the spec of the snapshot, with the new disks.

Called by `restore_plan`. Pure; documents of before are not touched.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kvedge.controller.snapshots.memory.memory_backup import disk_backups, guest_disks, is_memory
from kvedge.controller.snapshots.memory.memory_restore import is_disk_restore, mark_memory, memory_restore
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.data_volume_names import ALLOW_ADOPTION, BIND_IMMEDIATELY, PRE_POPULATED
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.portable_vm import without_history, without_memory_dumps
from kvedge.resources.disks.snapshot_names import (
    LAST_RESTORE,
    RESTORE_NAME,
    RESTORED_VM_NAME,
    RESTORED_VM_NAMESPACE,
    UNPATCHED,
    prefixed_name,
    restore_mark,
    restored_name,
)
from kvedge.resources.disks.state_claims import STATE_CLAIM, STATE_LABEL, mark_origin, state_claim_name, state_claim_of
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.data_volumes import DataVolume, DataVolumeSpec
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshotContent,
    VolumeRestore,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.label_values import as_label_value

IN_PLACE: Final = "InPlace"


def mark_of(restore: VirtualMachineRestore) -> str:
    """What the VM says once it is what this restore makes of it."""
    return restore_mark(restore.metadata.name, restore.metadata.uid)


def is_exchanged(restore: VirtualMachineRestore, vm: VirtualMachine | None) -> bool:
    """Whether the VM has the snapshot's spec and the new disks."""
    return vm is not None and vm.metadata.annotations.get(LAST_RESTORE) == mark_of(restore)


def is_unpatched(restore: VirtualMachineRestore, vm: VirtualMachine | None) -> bool:
    """Whether this restore has made the VM, and its patches are still to come."""
    return vm is not None and vm.metadata.annotations.get(LAST_RESTORE) == UNPATCHED + mark_of(restore)


def plan_volume_restores(
    restore: VirtualMachineRestore,
    content: VirtualMachineSnapshotContent,
    *,
    memory: bool = False,
    state: bool = True,
) -> list[VolumeRestore]:
    """How the new disks are called, with `memory` the claim that this comes into, and with `state` that of TPM and UEFI
    firmware; it is decided once.
    """
    templates = {str(each["metadata"].get("name", "")) for each in _templates(_spec(content))}
    named = {each.volume_name: each.restore_name for each in restore.spec.volume_restore_overrides}
    made = []
    for backup in disk_backups(content) if state else guest_disks(content):
        if backup.volume_snapshot_name is None:
            continue
        was = str(backup.persistent_volume_claim.metadata.get("name", ""))
        name = (named.get(backup.volume_name) if backup.volume_name != STATE_VOLUME else "") or _name(
            restore, backup.volume_name, was
        )
        made.append(
            VolumeRestore(
                volume_name=backup.volume_name,
                persistent_volume_claim=name,
                volume_snapshot_name=backup.volume_snapshot_name,
                data_volume_name=name if was in templates else None,
            )
        )
    saved = next((each.volume_snapshot_name for each in content.spec.volume_backups if is_memory(each)), None)
    return [*made, memory_restore(restore, saved)] if memory and saved is not None else made


def make_volume(
    restore: VirtualMachineRestore,
    volume: VolumeRestore,
    filling: DataVolumeSpec,
    vm: VirtualMachine | None,
    source_vm: str,
) -> DataVolume:
    """What fills a new disk from what holds its copy; it goes with the VM, unless it is to stay."""
    namespace = restore.metadata.namespace
    extra = next(
        (each for each in restore.spec.volume_restore_overrides if each.volume_name == volume.volume_name), None
    )
    meta = ObjectMeta(
        name=fill_name(restore, volume),
        namespace=namespace,
        labels={
            **({} if extra is None else extra.labels),
            **_label_state(restore, volume),
            RESTORED_VM_NAME: as_label_value(source_vm),
            RESTORED_VM_NAMESPACE: namespace,
        },
        annotations={
            **_drop_adoption({} if extra is None else extra.annotations),
            BIND_IMMEDIATELY: "true",
            RESTORE_NAME: restore.metadata.name,
            LAST_RESTORE: mark_of(restore),
        },
        owner_references=[owner_reference(vm)] if vm is not None and goes_with_vm(restore) else [],
    )
    return DataVolume(metadata=meta, spec=filling)


def _drop_adoption(annotations: Mapping[str, str]) -> dict[str, str]:
    """Without those by which a claim that is there would be taken as it is, for the snapshot's disk, and as our own."""
    return {key: value for key, value in annotations.items() if key not in (ALLOW_ADOPTION, PRE_POPULATED)}


def owners_with(restore: VirtualMachineRestore, vm: VirtualMachine) -> list[JsonObject]:
    """The owners of a restore, and its VM; the one of a clone has a controller already, and there may be one alone."""
    meta = restore.metadata
    owner = owner_reference(vm)
    if meta.controller_reference() is not None:
        owner = msgspec.structs.replace(owner, controller=None, block_owner_deletion=None)
    return [encode(each) for each in (*meta.owner_references, owner)]


def goes_with_vm(restore: VirtualMachineRestore) -> bool:
    """Whether the new disks are the VM's."""
    return restore.spec.volume_ownership_policy != "None"


def exchange_body(
    restore: VirtualMachineRestore,
    volumes: Sequence[VolumeRestore],
    content: VirtualMachineSnapshotContent,
    vm: VirtualMachine,
) -> JsonObject:
    """A merge patch that gives a VM the snapshot's spec and the new disks; how it runs stays."""
    spec = _with_volumes(_spec(content), volumes)
    spec.pop("running", None)
    spec.pop("runStrategy", None)
    if vm.spec.run_strategy is not None:
        spec["runStrategy"] = vm.spec.run_strategy
    else:
        spec["running"] = False
    kept = (_source(content).get("metadata") or {}).get("annotations") or {}
    annotations = {
        LAST_RESTORE: mark_of(restore),
        **({KEPT_TYPES: kept[KEPT_TYPES]} if KEPT_TYPES in kept else {}),
        **mark_memory(volumes),
        **_mark_state(volumes),
    }
    body: JsonObject = {"metadata": {"annotations": annotations}}
    changed = merge_difference(encode(vm.spec), spec)
    return {**body, "spec": changed} if changed else body


def make_vm(
    restore: VirtualMachineRestore, volumes: Sequence[VolumeRestore], content: VirtualMachineSnapshotContent
) -> VirtualMachine:
    """The VM that a restore makes: it does not run, as the VM of the snapshot may."""
    source = _source(content)
    spec = _with_volumes(_spec(content), volumes)
    if spec.pop("running", None) is not None:
        spec["running"] = False
    else:
        spec["runStrategy"] = "Halted"
    was = source.get("metadata") or {}
    mark = mark_of(restore)
    annotations = without_history(was.get("annotations") or {})
    state = _mark_state(volumes)
    metadata = {
        "name": restore.spec.target.name,
        "namespace": restore.metadata.namespace,
        "labels": dict(was.get("labels") or {}),
        "annotations": {
            **annotations,
            **state,
            # For restores of backups: they ask whose TPM a VM has.
            **(mark_origin(was) if state else {}),
            LAST_RESTORE: UNPATCHED + mark if restore.spec.patches else mark,
        },
    }
    return decode(VirtualMachine, {"metadata": metadata, "spec": spec})


def patch_operations(restore: VirtualMachineRestore) -> list[JsonObject]:
    """The patches of a VM that this restore has made, and the mark that they are done.

    Raises:
        ValueError: a patch is no JSON.
    """
    operations: list[JsonObject] = [json.loads(text) for text in restore.spec.patches]
    path = f"/metadata/annotations/{LAST_RESTORE.replace('/', '~1')}"
    return [*operations, {"op": "replace", "path": path, "value": mark_of(restore)}]


def superseded_disks(
    vm: VirtualMachine,
    volumes: Sequence[VolumeRestore],
    content: VirtualMachineSnapshotContent,
    old: Mapping[str, DataVolume],
    claims: Mapping[str, PersistentVolumeClaim],
) -> list[str]:
    """The DataVolumes of the VM's own disks that it has no more once the new ones are in place, and what it names as
    the state of its TPM: a DataVolume of an earlier restore, or a claim of a migration or a backup.
    """
    after = decode(VirtualMachine, {"metadata": {}, "spec": _with_volumes(_spec(content), volumes)})
    staying = disks_of(after) | {each.persistent_volume_claim for each in volumes}
    named = [template.metadata.name for template in vm.spec.data_volume_templates]
    gone = [name for name in named if name not in staying and is_owned(old.get(name), vm)]
    state = vm.metadata.annotations.get(STATE_CLAIM) if _mark_state(volumes) else None
    if state and state not in staying and (is_owned(old.get(state), vm) or _is_own_state(claims.get(state), vm)):
        gone.append(state)
    return gone


def superseded_state(
    vm: VirtualMachine, noted: Sequence[str], claims: Mapping[str, PersistentVolumeClaim]
) -> list[PersistentVolumeClaim]:
    """The VM's own claims of before for the state of its TPM and UEFI firmware, if it has another one now: that of its
    name, and those that were noted before the exchange.
    """
    names = {state_claim_name(vm.metadata.name), *noted} - {state_claim_of(vm.metadata)}
    return [found for name in sorted(names) if _is_own_state(found := claims.get(name), vm) and found is not None]


def _is_own_state(claim: PersistentVolumeClaim | None, vm: VirtualMachine) -> bool:
    """Whether a claim was made for the state of this very VM, and goes with it; what DataVolumes fill is theirs."""
    if claim is None or claim.metadata.labels.get(STATE_LABEL) != as_label_value(vm.metadata.name):
        return False
    return any(owner.uid == vm.metadata.uid for owner in claim.metadata.owner_references)


def _label_state(restore: VirtualMachineRestore, volume: VolumeRestore) -> dict[str, str]:
    """Whose state is in a claim, which gets the labels of what fills it."""
    return {STATE_LABEL: as_label_value(restore.spec.target.name)} if volume.volume_name == STATE_VOLUME else {}


def _mark_state(volumes: Sequence[VolumeRestore]) -> dict[str, str]:
    """Where the VM's next start finds the state of its TPM and UEFI firmware; nothing where none is restored."""
    found = next((each for each in volumes if each.volume_name == STATE_VOLUME), None)
    return {} if found is None else {STATE_CLAIM: found.persistent_volume_claim}


def disks_of(vm: VirtualMachine | None) -> set[str]:
    """The claims and DataVolumes that a VM names, as it is now: also those below layers, and of templates alone."""
    if vm is None:
        return set()
    volumes = [] if vm.spec.template is None else vm.spec.template.spec.volumes
    named = {name for _, name in claims(volumes)} | {each.metadata.name for each in vm.spec.data_volume_templates}
    return named | {state_claim_of(vm.metadata)}


def is_owned(volume: DataVolume | None, vm: VirtualMachine) -> bool:
    """Whether a DataVolume is the VM's own."""
    owner = None if volume is None else volume.metadata.controller_reference()
    return owner is not None and owner.uid == vm.metadata.uid


def is_in_place(restore: VirtualMachineRestore, volume: VolumeRestore) -> bool:
    """Whether a volume's new data come into the claim of its old ones."""
    overrides = restore.spec.volume_restore_overrides
    is_named = any(each.volume_name == volume.volume_name and each.restore_name for each in overrides)
    return restore.spec.volume_restore_policy == IN_PLACE and not is_named and is_disk_restore(volume)


def fill_name(restore: VirtualMachineRestore, volume: VolumeRestore) -> str:
    """The claim that a volume's new data come into at first: its own, or one for the time until both are exchanged."""
    if is_in_place(restore, volume):
        return restored_name(restore.metadata.uid, volume.volume_name)
    return volume.persistent_volume_claim


def _name(restore: VirtualMachineRestore, volume: str, was: str) -> str:
    if volume == STATE_VOLUME:
        # No user names it, and the VM points at it: nothing is gained by the name of before.
        return restored_name(restore.metadata.uid, volume)
    if restore.spec.volume_restore_policy == IN_PLACE:
        return was
    if restore.spec.volume_restore_policy == "PrefixTargetName":
        return prefixed_name(restore.spec.target.name, volume)
    return restored_name(restore.metadata.uid, volume)


def _with_volumes(spec: JsonObject, volumes: Sequence[VolumeRestore]) -> JsonObject:
    restored = {each.volume_name: each for each in volumes}
    renamed = {}
    for volume in _volumes(spec):
        found = restored.get(str(volume.get("name", "")))
        if found is None:
            continue
        old = volume.pop("dataVolume", None) or volume.pop("persistentVolumeClaim", None) or {}
        kept = {key: value for key, value in old.items() if key not in ("name", "claimName")}
        if found.data_volume_name is not None:
            renamed[str(old.get("name") or old.get("claimName") or "")] = found.data_volume_name
            volume["dataVolume"] = {**kept, "name": found.data_volume_name}
        else:
            volume["persistentVolumeClaim"] = {**kept, "claimName": found.persistent_volume_claim}
    for template in _templates(spec):
        name = str(template["metadata"].get("name", ""))
        template["metadata"]["name"] = renamed.get(name, name)
    return spec


def _source(content: VirtualMachineSnapshotContent) -> JsonObject:
    return copy.deepcopy(content.spec.source.virtual_machine or {})


def _spec(content: VirtualMachineSnapshotContent) -> JsonObject:
    """The spec, without the claim of memory dumps."""
    return without_memory_dumps(_source(content).get("spec") or {})


def _templates(spec: JsonObject) -> Iterator[JsonObject]:
    for template in spec.get("dataVolumeTemplates") or ():
        template.setdefault("metadata", {})
        yield template


def _volumes(spec: JsonObject) -> Sequence[JsonObject]:
    template = spec.get("template") or {}
    found: Sequence[JsonObject] = (template.get("spec") or {}).get("volumes") or ()
    return found
