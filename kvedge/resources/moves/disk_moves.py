"""A VM whose disks move along: the claims that they get, and the change of the VM that names them.

Called by `kvedge migrate --with-disks` and by the controller when a node is emptied. Pure. The VM's controller takes
the change from there, and the old claims stay: nobody but their owner deletes them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.moved_volumes import MIGRATION, VOLUMES_CHANGE, destinations, find_uncopied
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable
from kvedge.resources.evacuation import (
    LIVE_MIGRATABLE,
    LIVE_MIGRATE,
    LIVE_MIGRATE_IF_POSSIBLE,
    STORAGE_LIVE_MIGRATABLE,
)
from kvedge.resources.meta import Condition, ObjectMeta, OwnerReference, condition
from kvedge.resources.moves.workload_updates import changes_volumes
from kvedge.resources.types.storage import (
    READ_ONLY_MANY,
    READ_WRITE_MANY,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResources,
)
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume

# The reason of the condition LiveMigratable that disks are in the way.
_BY_DISKS: Final = "DisksNotLiveMigratable"
# On a VMI, by its VM's template: "true" has a drain move it with its disks although it might be shut down.
EVACUATE_WITH_DISKS: Final = "kvedge.io/evacuate-with-disks"
# On a claim that was made for a disk to move to: the claim that it comes from.
MOVED_FROM: Final = "kvedge.io/moved-from"
# In words for people, by `find_uncopied`.
_KINDS: Final = {"": "", "shareable": "shareable", "lun": "a LUN", "cdrom": "a CD-ROM", "read-only": "read-only"}
_SHARED: Final = frozenset({READ_WRITE_MANY, READ_ONLY_MANY})
_MOVED_NAME: Final = re.compile(r"-moved-[a-z0-9]{5}$")
# With the suffix it may still be a name.
_LONGEST_BASE: Final = 200
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Exchange(Struct, frozen=True):
    """A volume, the claim that its guest uses, the one that it gets, and the DataVolume of the old one, if any."""

    volume: str
    old: str
    claim: PersistentVolumeClaim
    data_volume: str = ""


class DiskMove(Struct, frozen=True):
    """What is made first, and the JSON patch of the VM that names it."""

    exchanges: tuple[Exchange, ...]
    ops: tuple[JsonObject, ...]


class NoMove(Struct, frozen=True):
    """Why the disks do not move along: the field, what is so, what to do."""

    reason: str


def can_move_with_disks(vmi: VirtualMachineInstance) -> bool:
    """Whether its disks alone keep a VM's guest on its node, and they can move along."""
    owner = vmi.metadata.controller_reference()
    is_of_vm = owner is not None and owner.kind == VirtualMachine.KIND.kind
    is_held = is_of_vm and not changes_volumes(vmi) and _is_held_by_disks(vmi)
    return is_held and _says(vmi, STORAGE_LIVE_MIGRATABLE) and not any(_find_reasons(vmi, {}))


def leaves_with_disks(vmi: VirtualMachineInstance, strategy: str) -> bool:
    """Whether an eviction moves the guest with its disks; `strategy` is what the VMI wants of evictions.

    A guest that may be shut down is, as in KubeVirt, unless its user says otherwise: a copy takes long.
    """
    asked = vmi.metadata.annotations.get(EVACUATE_WITH_DISKS) == "true"
    is_meant = strategy == LIVE_MIGRATE or (strategy == LIVE_MIGRATE_IF_POSSIBLE and asked)
    return is_meant and can_move_with_disks(vmi)


def has_pending_exchange(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    """Whether the VM names other claims than its guest uses, or a change of them is under way."""
    wanted = {volume.name: claim_of(volume) for volume in _template(vm).spec.volumes}
    other = (wanted.get(volume.name, claim) != claim for volume in vmi.spec.volumes if (claim := claim_of(volume)))
    return bool(vmi.status.migrated_volumes) or any(other)


def stable_name(vmi: VirtualMachineInstance, old: str) -> str:
    """The name that one try after the other comes to, for this run on this node."""
    digest = hashlib.sha256(f"{vmi.metadata.uid} {vmi.status.node_name} {old}".encode()).digest()
    return moved_name(old, "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5]))


def moved_name(old: str, letters: str) -> str:
    """The name of a disk's next claim; names do not grow with each move."""
    return f"{_MOVED_NAME.sub('', old)[:_LONGEST_BASE].rstrip('-.')}-moved-{letters}"


def plan_disk_move(
    vm: VirtualMachine,
    vmi: VirtualMachineInstance,
    claims: Mapping[str, PersistentVolumeClaim],
    name: Callable[[str], str],
) -> DiskMove | NoMove:
    """Claims for all disks that keep the guest; `claims` are the VMI's by name, `name` makes the name of a new one."""
    if (reason := find_busy(vm, vmi) or _find_obstacle(vmi)) is not None:
        return NoMove(reason)
    if reasons := list(_find_reasons(vmi, claims)):
        return NoMove("; ".join(reasons))
    held = list(_find_held(vmi, claims))
    if not held:
        return NoMove("no claim of the VM keeps it on its node: migrate it without its disks")
    missing = [old for _, old in held if old not in claims]
    if missing:
        return NoMove(f"claim {missing[0]} was not found")
    return make_move(
        vm, [(volume.name, claims[old], name(old), claims[old].spec.storage_class_name) for volume, old in held]
    )


def make_move(vm: VirtualMachine, moved: Iterable[tuple[str, PersistentVolumeClaim, str, str | None]]) -> DiskMove:
    """Claims for volumes, each with its claim, and the name and the storage class of the new one."""
    templates = {template.metadata.name for template in vm.spec.data_volume_templates}
    exchanges = tuple(
        Exchange(volume, old.metadata.name, _make_claim(vm, old, name, storage_class, templates), _filler(old))
        for volume, old, name, storage_class in moved
    )
    return DiskMove(exchanges, tuple(_patch(vm, exchanges)))


def plan_return(vm: VirtualMachine, vmi: VirtualMachineInstance) -> tuple[list[JsonObject], list[str]]:
    """The JSON patch by which a VM names the claims again that its guest uses, and the claims that it then drops."""
    ops: list[JsonObject] = [{"op": "test", "path": "/metadata/resourceVersion", "value": vm.metadata.resource_version}]
    places = {volume.name: (index, claim_of(volume)) for index, volume in enumerate(_template(vm).spec.volumes)}
    used = {volume.name: claim_of(volume) for volume in vmi.spec.volumes}
    dropped = []
    for name, destination in destinations(vmi).items():
        index, wanted = places.get(name, (0, None))
        if wanted == destination.claim_name:
            source = {"claimName": used[name]}
            at = f"/spec/template/spec/volumes/{index}"
            ops.append({"op": "replace", "path": at, "value": {"name": name, "persistentVolumeClaim": source}})
            dropped.append(wanted)
    return ops, dropped


def find_busy(vm: VirtualMachine, vmi: VirtualMachineInstance) -> str | None:
    """Why no claim of the VM is exchanged now."""
    owner = vm.metadata.controller_reference()
    if vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None:
        return f"the VMI is {vmi.status.phase or 'Pending'}: disks move while the guest runs"
    if owner is not None:
        return f"the VM belongs to {owner.kind} {owner.name}, whose template names its claims: release it first"
    if busy := vm.status.snapshot_in_progress or vm.status.restore_in_progress:
        return f"{busy} is being taken of the VM, or put back: its claims stay as they are until that has ended"
    if has_pending_exchange(vm, vmi):
        return (
            "the VM names other claims than its guest uses, so that a change is under way or waits for a restart: see"
            f" its conditions and the VMI's condition {VOLUMES_CHANGE}"
        )
    return None


def _find_obstacle(vmi: VirtualMachineInstance) -> str | None:
    """What else than its disks keeps the guest on its node."""
    told = condition(vmi.status.conditions, STORAGE_LIVE_MIGRATABLE)
    if told is None:
        return f"the VMI has no condition {STORAGE_LIVE_MIGRATABLE} yet: is its node's handler of the present version?"
    if told.status != "True":
        return told.message or f"the VMI's condition {STORAGE_LIVE_MIGRATABLE} is {told.status}"
    return None


def _find_held(
    vmi: VirtualMachineInstance, claims: Mapping[str, PersistentVolumeClaim]
) -> Iterator[tuple[Volume, str]]:
    """The volumes on claims that one node has at a time."""
    for volume in vmi.spec.volumes:
        old = claim_of(volume)
        if old is not None and volume.ephemeral is None and READ_WRITE_MANY not in _find_modes(vmi, volume, claims):
            yield volume, old


def _find_reasons(vmi: VirtualMachineInstance, claims: Mapping[str, PersistentVolumeClaim]) -> Iterator[str]:
    """Why volumes that keep the guest on its node cannot move along."""
    for volume in vmi.spec.volumes:
        if volume.host_disk is not None and not volume.host_disk.shared:
            yield f"volume {volume.name} is a file of the node (hostDisk), which does not move: put it on a claim"
        elif volume.ephemeral is not None and not _SHARED & set(_find_modes(vmi, volume, claims)):
            yield f"volume {volume.name} is a layer on a claim of one node: use a claim that many nodes can read"
    for volume, _ in _find_held(vmi, claims):
        if (reason := judge_volume(vmi, volume)) is not None:
            yield reason


def _find_modes(
    vmi: VirtualMachineInstance, volume: Volume, claims: Mapping[str, PersistentVolumeClaim]
) -> Sequence[str]:
    """Who may have a volume's claim at a time."""
    known = {entry.name: entry.persistent_volume_claim_info for entry in vmi.status.volume_status}.get(volume.name)
    if known is not None:
        return known.access_modes
    claim = claims.get(claim_of(volume) or "")
    return [] if claim is None else claim.spec.access_modes


def judge_volume(vmi: VirtualMachineInstance, volume: Volume) -> str | None:
    """Why a volume's disk cannot move to another claim."""
    at = f"volume {volume.name}"
    if is_hotpluggable(volume):
        return f"{at} is hotplugged, and does not move to another claim: remove it first, or stop the VM"
    disk = next((each for each in vmi.spec.domain.devices.disks if each.name == volume.name), None)
    if disk is None:
        return f"{at} is no disk of the guest: remove it first, or stop the VM"
    source = volume.persistent_volume_claim
    kind = "read-only" if source is not None and source.read_only else _KINDS[find_uncopied(disk)]
    return (
        f"{at} is {kind}, and does not move to another claim: use a shared claim for it, or stop the VM"
        if kind
        else None
    )


def _make_claim(
    vm: VirtualMachine, old: PersistentVolumeClaim, name: str, storage_class: str | None, templates: set[str]
) -> PersistentVolumeClaim:
    """A claim of a class as the old one, of the size that this one has; it goes with the VM where the old one does."""
    spec = old.spec
    size = old.status.capacity.get("storage") or spec.resources.requests.get("storage", "0")
    goes = _filler(old) in templates or any(owner.uid == vm.metadata.uid for owner in old.metadata.owner_references)
    owner = OwnerReference(
        api_version=VirtualMachine.KIND.api_version,
        kind=VirtualMachine.KIND.kind,
        name=vm.metadata.name,
        uid=vm.metadata.uid,
    )
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=vm.metadata.namespace,
            annotations={MOVED_FROM: old.metadata.name},
            owner_references=[owner] if goes else [],
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=list(spec.access_modes),
            resources=VolumeResources(requests={"storage": size}),
            volume_mode=spec.volume_mode,
            storage_class_name=storage_class,
        ),
    )


def _patch(vm: VirtualMachine, exchanges: tuple[Exchange, ...]) -> Iterator[JsonObject]:
    """The change of the VM that was read.

    DataVolumes that filled the old claims are no templates any more: they would be made, and filled, again.
    """
    yield {"op": "test", "path": "/metadata/resourceVersion", "value": vm.metadata.resource_version}
    yield {"op": "add", "path": "/spec/updateVolumesStrategy", "value": MIGRATION}
    places = {volume.name: index for index, volume in enumerate(_template(vm).spec.volumes)}
    for each in exchanges:
        at = f"/spec/template/spec/volumes/{places[each.volume]}"
        source = {"claimName": each.claim.metadata.name}
        yield {"op": "replace", "path": at, "value": {"name": each.volume, "persistentVolumeClaim": source}}
    fillers = {each.data_volume or each.old for each in exchanges}
    templates = [template.metadata.name for template in vm.spec.data_volume_templates]
    for index in reversed(range(len(templates))):
        if templates[index] in fillers:
            yield {"op": "remove", "path": f"/spec/dataVolumeTemplates/{index}"}


def _filler(claim: PersistentVolumeClaim) -> str:
    owner = claim.metadata.controller_reference()
    return owner.name if owner is not None and owner.kind == "DataVolume" else ""


def _template(vm: VirtualMachine) -> VirtualMachineInstanceTemplate:
    return vm.spec.template or VirtualMachineInstanceTemplate()


def _is_held_by_disks(vmi: VirtualMachineInstance) -> bool:
    found = _find(vmi, LIVE_MIGRATABLE)
    return found is not None and found.status == "False" and found.reason == _BY_DISKS


def _says(vmi: VirtualMachineInstance, type_: str) -> bool:
    found = _find(vmi, type_)
    return found is not None and found.status == "True"


def _find(vmi: VirtualMachineInstance, type_: str) -> Condition | None:
    return condition(vmi.status.conditions, type_)
