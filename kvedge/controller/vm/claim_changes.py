"""The claims that a VM's template exchanges while its guest runs, and whether the guest can take its data along.

Called by `claim_move_plan` and the VM's status. Pure. What a restart would mend is refused with KubeVirt's words; what
mends itself, or is mended at the claim, is waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.resources.disks.claim_facts import is_of_data_volume, is_populated
from kvedge.resources.disks.disk_sizes import choose_grown_bytes
from kvedge.resources.disks.moved_volumes import MIGRATION, find_uncopied
from kvedge.resources.disks.volume_facts import claim_of, is_hotpluggable
from kvedge.resources.evacuation import STORAGE_LIVE_MIGRATABLE
from kvedge.resources.meta import condition
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.storage import READ_ONLY_MANY, READ_WRITE_MANY, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import ClaimInfo, MigratedVolume, VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.resources.values.quantities import parse_bytes

NOT_FOUND: Final = "DestinationNotFound"
NOT_FILLED: Final = "DestinationNotPopulated"
IN_USE: Final = "DestinationInUse"
TOO_SMALL: Final = "DestinationTooSmall"
BUSY: Final = "SnapshotInProgress"
# Earlier versions have said so, where disks now move in place.
_NO_NODE: Final = "NoOtherNode"
_TO_DEVICE: Final = "DestinationIsDevice"
WAITS: Final = frozenset({NOT_FOUND, NOT_FILLED, IN_USE, TOO_SMALL, BUSY, _NO_NODE, _TO_DEVICE})


class ClaimSights(Struct, frozen=True):
    """What is known of the claims that a VM's template gives its volumes: those that there are, by name, with the
    copies that statuses keep of them; who else names one, by its name; and whether there is no node but the guest's,
    or its user wants it to stay.
    """

    found: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    copies: Mapping[str, ClaimInfo] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    is_alone: bool = False
    stays: bool = False

    @property
    def is_in_place(self) -> bool:
        """Whether the guest's own launcher copies the data: it goes nowhere, and what keeps it here is no obstacle."""
        return self.is_alone or self.stays


class Refused(Struct, frozen=True):
    """The guest cannot take the data along: the VM needs a restart, which takes the new claims as they are."""

    text: str


class Waits(Struct, frozen=True):
    """Nothing is begun yet; `reason` and `text` are the VMI's condition VolumesChange."""

    reason: str
    text: str


class _View(Struct, frozen=True):
    vm: VirtualMachine
    vmi: VirtualMachineInstance
    wanted: Mapping[str, Volume]
    exchanges: Sequence[MigratedVolume]
    sights: ClaimSights


def is_moving_data(vm: VirtualMachine) -> bool:
    """Whether a running guest is to take its data to other claims."""
    return vm.spec.update_volumes_strategy == MIGRATION


def recorded_of(vm: VirtualMachine) -> Sequence[MigratedVolume]:
    """What a VM's status says of claims that are exchanged."""
    update = vm.status.volume_update_state
    state = None if update is None else update.volume_migration_state
    return () if state is None else state.migrated_volumes


def template_volumes(vm: VirtualMachine) -> dict[str, Volume]:
    """The volumes of a VM's template, by name."""
    return {volume.name: volume for volume in (vm.spec.template or VirtualMachineInstanceTemplate()).spec.volumes}


def named_claims(vm: VirtualMachine) -> set[str]:
    """The claims that a VM's template names."""
    found = (claim_of(volume) for volume in template_volumes(vm).values())
    return {claim for claim in found if claim is not None}


def find_exchanges(
    vm: VirtualMachine, vmi: VirtualMachineInstance, sights: ClaimSights | None = None
) -> list[MigratedVolume]:
    """The volumes that have one claim in the run and another in the template, with what is known of both claims.

    Media that are changed in a drive do not count: no data is taken along there.
    """
    known = sights or ClaimSights()
    wanted, disks = template_volumes(vm), {disk.name: disk for disk in vmi.spec.domain.devices.disks}
    copies = {
        entry.persistent_volume_claim_info.claim_name: entry.persistent_volume_claim_info
        for entry in vmi.status.volume_status
        if entry.persistent_volume_claim_info is not None
    }
    found = []
    for volume in vmi.spec.volumes:
        old, new = claim_of(volume), claim_of(wanted[volume.name]) if volume.name in wanted else None
        disk = disks.get(volume.name)
        is_medium = is_hotpluggable(volume) and disk is not None and disk.cdrom is not None
        if old is None or new is None or old == new or is_medium:
            continue
        source = copies.get(old) or known.copies.get(old) or ClaimInfo(claim_name=old)
        destination = known.copies.get(new) or ClaimInfo(claim_name=new)
        made = MigratedVolume(volume_name=volume.name, source_pvc_info=source, destination_pvc_info=destination)
        found.append(made)
    return found


def judge_exchanges(
    vm: VirtualMachine, vmi: VirtualMachineInstance, exchanges: Sequence[MigratedVolume], sights: ClaimSights
) -> Refused | Waits | None:
    """What keeps the guest from taking its data along; None when nothing does."""
    view = _View(vm, vmi, template_volumes(vm), exchanges, sights)
    return next((verdict for rule in _RULES for verdict in rule(view)), None)


def _find_invalid(view: _View) -> Iterator[Refused]:
    disks = {disk.name: disk for disk in view.vmi.spec.domain.devices.disks}
    there = {volume.name: volume for volume in view.vmi.spec.volumes}
    invalid: dict[str, list[str]] = {}
    for each in view.exchanges:
        name = each.volume_name
        kind = _name_kind(there[name], view.wanted[name], disks.get(name))
        if kind:
            invalid.setdefault(kind, []).append(name)
    if invalid:
        parts = (f"{kind}: [{' '.join(invalid[kind])}]" for kind in _KINDS if kind in invalid)
        yield Refused(f"invalid volumes to update with migration: {' '.join(parts)}")


# In the order in which they are told.
_KINDS: Final = ("hotplugged", "filesystems", "shareable", "luns", "ephemeral", "read-only")


def _name_kind(old: Volume, new: Volume, disk: Disk | None) -> str:
    """Why a volume's data is not copied; "" when it is."""
    if is_hotpluggable(old) or is_hotpluggable(new):
        return "hotplugged"
    if disk is None:
        return "filesystems"
    uncopied = find_uncopied(disk)
    if uncopied in ("shareable", "lun"):
        return {"shareable": "shareable", "lun": "luns"}[uncopied]
    if old.ephemeral is not None or new.ephemeral is not None:
        return "ephemeral"
    claims = (volume.persistent_volume_claim for volume in (old, new))
    return "read-only" if uncopied or any(claim is not None and claim.read_only for claim in claims) else ""


def _find_other_obstacles(view: _View) -> Iterator[Refused]:
    found = None if view.sights.is_in_place else condition(view.vmi.status.conditions, STORAGE_LIVE_MIGRATABLE)
    if found is not None and found.status == "False":
        yield Refused(f"cannot migrate the volumes as the VMI isn't migratable: {found.message}")


def _find_left_behind(view: _View) -> Iterator[Refused]:
    """What one node has stays: a claim that is there at one node at a time, unless its data is copied, or a file."""
    if view.sights.is_in_place:
        return
    for volume in view.vmi.spec.volumes:
        if volume.host_disk is not None and not volume.host_disk.shared:
            yield Refused(f"cannot migrate the VM. The volume {volume.name} is a file of its node, and not shared")
    moving, there = {each.volume_name for each in view.exchanges}, {volume.name for volume in view.vmi.spec.volumes}
    for entry in view.vmi.status.volume_status:
        info = entry.persistent_volume_claim_info
        if info is None or entry.name in moving or entry.name not in there:
            continue
        if READ_WRITE_MANY not in info.access_modes and READ_ONLY_MANY not in info.access_modes:
            text = f"The volume {entry.name} is RWO and not included in the migration volumes"
            yield Refused(f"cannot migrate the VM. {text}")


def _find_busy(view: _View) -> Iterator[Waits]:
    busy = view.vm.status.snapshot_in_progress or view.vm.status.restore_in_progress
    if busy:
        yield Waits(BUSY, f"{busy} is being taken of the VM, or put back: its volumes move once that has ended")


def _find_missing(view: _View) -> Iterator[Waits]:
    for each in view.exchanges:
        name = _destination(each)
        claim = view.sights.found.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            of = "DataVolume" if view.wanted[each.volume_name].data_volume is not None else "PersistentVolumeClaim"
            state = "does not exist" if claim is None else "is being deleted"
            text = f"{of} {name} of volume {each.volume_name} {state}"
            yield Waits(NOT_FOUND, f"One of the destination volumes doesn't exist: {text}")
        elif claim.status.phase == "Lost":
            text = f"the volume of PersistentVolumeClaim {name} is gone: delete the claim and make it anew"
            yield Waits(NOT_FOUND, f"One of the destination volumes doesn't exist: {text}")


def _find_unfilled(view: _View) -> Iterator[Waits]:
    """What fills a claim later would write over the guest's disk. One that is bound for its user is filled when it has
    one: the migration waits for that.
    """
    for each in view.exchanges:
        name = _destination(each)
        claim = view.sights.found[name]
        waits_for_user = is_of_data_volume(claim) and claim.status.phase == "Pending"
        if not is_populated(claim) and not waits_for_user:
            text = f"PVC {name} of volume {each.volume_name} is being filled: the volumes move once it is full"
            yield Waits(NOT_FILLED, text)


def _find_users(view: _View) -> Iterator[Waits]:
    uses = Counter(claim for volume in view.wanted.values() if (claim := claim_of(volume)) is not None)
    own = {claim_of(volume) for volume in view.vmi.spec.volumes}
    for each in view.exchanges:
        name = _destination(each)
        if name in view.sights.others:
            text = f"{view.sights.others[name]} has it: name another claim"
        elif uses[name] > 1 or name in own:
            text = "another volume of this VM has it: name a claim of its own"
        else:
            continue
        yield Waits(IN_USE, f"PVC {name} of volume {each.volume_name} is no place for its data: {text}")


def _find_small(view: _View) -> Iterator[Waits]:
    sizes = {entry.name: entry.size for entry in view.vmi.status.volume_status}
    for each in view.exchanges:
        source, destination = each.source_pvc_info, each.destination_pvc_info
        assert source is not None
        assert destination is not None
        disk = sizes.get(each.volume_name, 0) or _measure_disk(source)
        room = _measure_disk(destination)
        is_alike = source.volume_mode == destination.volume_mode and _measure(source) <= _measure(destination)
        if room and room < disk and not is_alike:
            text = "Volume migration cannot be performed because the destination volume is smaller than the source"
            yield Waits(
                TOO_SMALL,
                f"{text} volume: PVC {destination.claim_name} of volume {each.volume_name} takes a disk of {room}"
                f" bytes, and that of the guest has {disk}",
            )


def _measure(claim: ClaimInfo) -> int:
    size = claim.capacity.get("storage") or claim.requests.get("storage")
    return 0 if size is None else parse_bytes(size)


def _measure_disk(claim: ClaimInfo) -> int:
    """The bytes of the largest disk on a claim; 0 while that is not known."""
    is_block = claim.volume_mode == "Block"
    return choose_grown_bytes({}, {"storage": _measure(claim)}, claim.filesystem_overhead, block=is_block)


def _destination(each: MigratedVolume) -> str:
    return each.destination_pvc_info.claim_name if each.destination_pvc_info is not None else ""


_RULES: Final[Sequence[Callable[[_View], Iterator[Refused | Waits]]]] = (
    _find_invalid,
    _find_missing,
    _find_other_obstacles,
    _find_left_behind,
    _find_busy,
    _find_unfilled,
    _find_users,
    _find_small,
)
