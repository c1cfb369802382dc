"""What a disk of a VMI must not be: each rule says where it is broken, and what to do.

Used by disk_xml before it writes a disk. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.disk_targets import VIRTIO
from kvedge.resources.types.devices import Disk

Device = Literal["disk", "cdrom", "lun"]
_DEVICES: Final[tuple[Device, ...]] = ("disk", "cdrom", "lun")
_BUSES: Final[dict[Device, tuple[str, ...]]] = {
    "disk": ("virtio", "sata", "scsi", "usb"),
    "cdrom": ("sata", "scsi", "usb"),
    "lun": ("scsi",),
}


class DiskFacts(Struct, frozen=True):
    """A disk, what kind of device it is, on which bus, its volume (None: an empty drive), and its path in the VMI."""

    disk: Disk
    device: Device
    bus: str
    source: DiskSource | None
    field: str

    @property
    def readonly(self) -> bool:
        """Whether the guest cannot write it: a CD-ROM never is written, whatever the VMI says."""
        if self.device == "cdrom" or (self.source is not None and self.source.readonly):
            return True
        target = self.disk.disk or self.disk.lun
        return target is not None and target.readonly


def device_of(disk: Disk, field: str) -> Device:
    """The kind of device: a disk unless the VMI says otherwise.

    Raises:
        ConversionError: when it says two.
    """
    kinds = [name for name in _DEVICES if getattr(disk, name) is not None]
    if len(kinds) > 1:
        raise ConversionError(field, f"is both {' and '.join(kinds)}", "keep one of them")
    return kinds[0] if kinds else "disk"


def check_disk(facts: DiskFacts) -> None:
    """Raises:
    ConversionError: for the first rule that the disk breaks.
    """
    for place, detail, remedy in _find_faults(facts):
        raise ConversionError(f"{facts.field}.{place}", detail, remedy)


def _find_faults(facts: DiskFacts) -> Iterator[tuple[str, str, str]]:
    disk, source = facts.disk, facts.source
    known = _BUSES[facts.device]
    if facts.bus not in known:
        yield f"{facts.device}.bus", f"{facts.bus} is no bus for a {facts.device}", f"use one of {', '.join(known)}"
    if disk.dedicated_io_thread and facts.bus != VIRTIO:
        yield "dedicatedIOThread", f"a disk on the {facts.bus} bus has no IO thread", "use bus virtio"
    if facts.device == "lun" and (source is None or not source.block):
        yield "lun", "only a block volume can be passed through", "use disk instead of lun"
    if facts.device == "disk" and facts.bus == "sata" and facts.readonly:
        yield "disk.readonly", "sata hard-disks do not support read-only", "use bus virtio or a cdrom"
    if disk.disk is not None and disk.disk.pci_address and facts.bus != VIRTIO:
        yield "disk.pciAddress", "only a disk on bus virtio sits on PCI", "use bus virtio"
    if disk.shareable and source is not None and source.format != "raw":
        yield "shareable", f"a {source.format} volume cannot be shared", "use a raw volume"
    if disk.cdrom is not None and disk.cdrom.tray not in {"", "open", "closed"}:
        yield "cdrom.tray", f"{disk.cdrom.tray} is no state", "use open or closed"
