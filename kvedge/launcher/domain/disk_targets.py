"""Which device name each disk has: vda, vdb … for virtio, and one series sda, sdb … for sata, scsi and usb.

Used by the converter, and by whoever reports or attaches disks. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Final

from kvedge.resources.types.devices import Disk
from kvedge.resources.types.vmi import VirtualMachineInstance

VIRTIO: Final = "virtio"
_LETTERS: Final = 26
_NONE: Final[Mapping[str, str]] = {}


def bus_of(disk: Disk, vmi: VirtualMachineInstance) -> str:
    """The bus of a disk: as it says; otherwise scsi for a LUN, sata on amd64, virtio (a CD-ROM: scsi) elsewhere."""
    target = disk.disk or disk.cdrom or disk.lun
    if target is not None and target.bus:
        return target.bus
    if disk.lun is not None:
        return "scsi"
    if vmi.spec.architecture != "arm64":
        return "sata"
    return VIRTIO if disk.cdrom is None else "scsi"


def assign_targets(vmi: VirtualMachineInstance, present: Mapping[str, str] = _NONE) -> dict[str, str]:
    """The device name of each disk, by the disk's name; `present` are those that a running domain has, by name.

    A name that the VMI's status already records stays, so that no disk changes its name when another comes or goes;
    the others get the first free ones in the order of the disks.
    """
    recorded = {status.name: status.target for status in vmi.status.volume_status if status.target}
    disks = vmi.spec.domain.devices.disks
    # A disk that the guest has not released yet has its name still, though the VMI has no such disk any more.
    leaving = set(present.values()) - {present[disk.name] for disk in disks if disk.name in present}
    kept = _keep_targets(disks, vmi, {**recorded, **present}, leaving)
    taken = {*kept.values(), *leaving}
    targets: dict[str, str] = {}
    for disk in disks:
        target = kept.get(disk.name) or _first_free(_prefix(disk, vmi), taken)
        taken.add(target)
        targets[disk.name] = target
    return targets


def target_index(target: str) -> int:
    """The place of a device name in its series: 0 for sda, 25 for sdz, 26 for sdaa."""
    index = 0
    for letter in target[2:]:
        index = index * _LETTERS + ord(letter) - ord("a") + 1
    return index - 1


def target_name(prefix: str, index: int) -> str:
    """The device name at a place of a series; `prefix` is vd or sd."""
    suffix = ""
    rest = index + 1
    while rest:
        rest, digit = divmod(rest - 1, _LETTERS)
        suffix = chr(ord("a") + digit) + suffix
    return prefix + suffix


def _prefix(disk: Disk, vmi: VirtualMachineInstance) -> str:
    return "vd" if bus_of(disk, vmi) == VIRTIO else "sd"


def _keep_targets(
    disks: list[Disk], vmi: VirtualMachineInstance, recorded: Mapping[str, str], leaving: Collection[str]
) -> dict[str, str]:
    kept: dict[str, str] = {}
    taken = set(leaving)
    for disk in disks:
        target = recorded.get(disk.name, "")
        if _is_of_series(target, _prefix(disk, vmi)) and target not in taken:
            kept[disk.name] = target
            taken.add(target)
    return kept


def _is_of_series(target: str, prefix: str) -> bool:
    suffix = target[2:]
    return target.startswith(prefix) and suffix.isascii() and suffix.isalpha() and suffix.islower()


def _first_free(prefix: str, taken: Container[str]) -> str:
    index = 0
    while target_name(prefix, index) in taken:
        index += 1
    return target_name(prefix, index)
