"""Rules for disks, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. `RULES` hold for disks that come while the guest runs as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, duplicate, not_found_cause, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.disks.volume_facts import is_hotpluggable
from kvedge.resources.types.devices import CustomBlockSize, Disk
from kvedge.resources.values.pci_addresses import is_pci_address

_BUSES: Final = ("virtio", "scsi", "sata", "usb")
# KubeVirt's for arm64.
_ARM64_BUSES: Final = ("", "virtio", "scsi")
_CACHES: Final = ("none", "writethrough", "writeback")
_IO_MODES: Final = ("native", "threads")
_ERROR_POLICIES: Final = ("stop", "ignore", "report", "enospace")
_SERIAL: Final = re.compile(r"[A-Za-z0-9_.+-]*")
_MOST_DISKS: Final = 256
_LONGEST_SERIAL: Final = 256
# What QEMU's devices have room for: virtio-blk and ATA 20 characters, SCSI's page for it 36.
_SERIAL_ROOM: Final[Mapping[str, int]] = {"virtio": 20, "sata": 20, "scsi": 36, "usb": 36}
_BLOCK_SIZES: Final = (512, 2097152)


def disks_have_names_and_volumes(subject: Subject) -> Iterator[Cause]:
    """Each disk has a volume of its name; only a CD-ROM drive may be empty."""
    disks, at = subject.spec.domain.devices.disks, subject.devices_at.at("disks")
    if len(disks) > _MOST_DISKS:
        yield Cause(at, f"{at} list exceeds the {_MOST_DISKS} element limit in length")
    volumes = {volume.name for volume in subject.spec.volumes}
    sources = (volume for volume in subject.spec.volumes if volume.persistent_volume_claim or volume.data_volume)
    claimed = {volume.name for volume in sources}
    seen: dict[str, int] = {}
    for index, disk in enumerate(disks):
        here = at.item(index)
        if disk.name in seen:
            text = f"{at.item(seen[disk.name])} and {here} must not have the same Name."
            yield duplicate(here.at("name"), text)
        seen.setdefault(disk.name, index)
        if disk.name not in volumes and disk.cdrom is None:
            yield not_found_cause(here.at("name"), f"{here}.Name '{disk.name}' not found.")
        elif disk.lun is not None and disk.name not in claimed:
            text = f"{here.at('lun')} can only be mapped to a DataVolume or PersistentVolumeClaim volume."
            yield Cause(here.at("lun"), text)


def disks_are_possible(subject: Subject) -> Iterator[Cause]:
    """Target, bus, cache and the rest of each disk."""
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        at = subject.devices_at.at("disks").item(index)
        yield from _target(disk, at)
        yield from _words(disk, at)
        yield from _serial(disk, at)
        yield from _pci_address(disk, at)
        yield from _block_size(disk, at)


def arm64_has_the_bus(subject: Subject) -> Iterator[Cause]:
    """virtio or scsi."""
    if subject.architecture != "arm64":
        return
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        bus = bus_of(disk)
        # Another rule has a word for those that nobody knows.
        if bus in _BUSES and bus not in _ARM64_BUSES:
            name = "disk" if disk.disk is not None else "cdrom" if disk.cdrom is not None else "lun"
            here = subject.devices_at.at("disks").item(index).at(name, "bus")
            yield unsupported_cause(here, f"{here}: Arm64 not support this disk bus type, please use virtio or scsi")


def boot_order_is_unambiguous(subject: Subject) -> Iterator[Cause]:
    """Positive, and each number once among disks and interfaces."""
    devices = subject.spec.domain.devices
    orders = [(subject.devices_at.at("disks").item(i), d.boot_order) for i, d in enumerate(devices.disks)]
    orders += [(subject.devices_at.at("interfaces").item(i), n.boot_order) for i, n in enumerate(devices.interfaces)]
    seen: set[int] = set()
    for at, order in orders:
        if order is None:
            continue
        if order < 1:
            yield Cause(at.at("bootOrder"), f"{at} must have a boot order > 0, if supplied")
        elif order in seen:
            here = at.at("bootOrder")
            yield duplicate(here, f"Boot order for {here} already set for a different device.")
        seen.add(order)


def bus_of(disk: Disk) -> str:
    """The bus that the disk names, or nothing."""
    target = disk.disk or disk.cdrom or disk.lun
    return target.bus if target is not None else ""


def _target(disk: Disk, at: Field) -> Iterator[Cause]:
    targets = {"disk": disk.disk, "cdrom": disk.cdrom, "lun": disk.lun}
    given = [name for name, target in targets.items() if target is not None]
    if len(given) > 1:
        yield Cause(at, f"{at} can only have a single target type defined")
    name = given[0] if given else "disk"
    bus = bus_of(disk)
    here = at.at(name, "bus")
    if bus == "ide":
        yield unsupported_cause(here, "IDE bus is not supported")
    elif bus and bus not in _BUSES:
        text = f"{here} is set with an unrecognized bus {bus}, must be one of: [{' '.join(_BUSES)}]"
        yield unsupported_cause(here, text)
    elif bus == "virtio" and name == "cdrom":
        yield Cause(here, f"Bus type {bus} is invalid for CD-ROM device")
    if disk.disk is not None and disk.disk.bus == "sata" and disk.disk.readonly:
        yield Cause(here, "sata hard-disks do not support read-only.")
    if disk.dedicated_io_thread and bus not in ("virtio", ""):
        yield unsupported_cause(here, f"IOThreads are not supported for disks on a {bus} bus")
    if disk.cdrom is not None and disk.cdrom.tray not in ("", "open", "closed"):
        tray = at.at("cdrom", "tray")
        yield unsupported_cause(tray, f"{tray} has invalid value {disk.cdrom.tray}")


def _words(disk: Disk, at: Field) -> Iterator[Cause]:
    if disk.cache and disk.cache not in _CACHES:
        yield unsupported_cause(at.at("cache"), f"{at.at('cache')} has invalid value {disk.cache}")
    elif disk.shareable and disk.cache not in ("", "none"):
        yield Cause(at.at("cache"), f"{at.at('cache')} must be none, as the disk is shareable")
    if disk.io and disk.io not in _IO_MODES:
        text = f"Disk IO mode for {at.at('io')} is not supported. Supported modes are: native, threads."
        yield unsupported_cause(at.at("io"), text)
    elif disk.io == "native" and disk.cache in ("writethrough", "writeback"):
        yield Cause(at.at("io"), f"{at.at('io')} native needs cache none, and the disk has {disk.cache}")
    if disk.error_policy is not None and disk.error_policy not in _ERROR_POLICIES:
        here = at.at("errorPolicy")
        yield unsupported_cause(here, f'{here} has invalid value "{disk.error_policy}"')


def _serial(disk: Disk, at: Field) -> Iterator[Cause]:
    here = at.at("serial")
    if not _SERIAL.fullmatch(disk.serial):
        yield Cause(here, f"{here} must be made up of the following characters [A-Za-z0-9_.+-], if specified")
    if len(disk.serial) > _LONGEST_SERIAL:
        yield Cause(here, f"{here} must be less than or equal to {_LONGEST_SERIAL} in length, if specified")
        return
    room = _SERIAL_ROOM.get(bus_of(disk), _LONGEST_SERIAL)
    if len(disk.serial) > room:
        text = f"{here} has {len(disk.serial)} characters, and bus {bus_of(disk)} would cut it at {room}"
        yield Cause(here, f"{text}; use a shorter one")


def _pci_address(disk: Disk, at: Field) -> Iterator[Cause]:
    address = disk.disk.pci_address if disk.disk is not None else ""
    if not address:
        return
    if disk.disk is not None and disk.disk.bus not in ("virtio", ""):
        text = f"disk {disk.name} - setting a PCI address is only possible with bus type virtio."
        yield Cause(at.at("disk", "pciAddress"), text)
    yield from pci_address(address, at.at("disk", "pciAddress"), f"disk {at.at('name')}")


def pci_address(address: str, at: Field, device: str) -> Iterator[Cause]:
    """Written as 0000:81:00.0; `device` says whose it is."""
    if address and not is_pci_address(address):
        yield Cause(at, f"{device} has malformed PCI address ({address}). Write it as 0000:81:00.0.")


def _block_size(disk: Disk, at: Field) -> Iterator[Cause]:
    size = disk.block_size
    if size is None:
        return
    if size.custom is not None and size.match_volume is not None and size.match_volume.enabled is not False:
        yield Cause(at.at("blockSize"), f"{at.at('blockSize')} has both custom and matchVolume; keep one of the two")
    if size.custom is not None:
        yield from _custom_size(disk, size.custom, at.at("blockSize", "custom"))


def _custom_size(disk: Disk, custom: CustomBlockSize, at: Field) -> Iterator[Cause]:
    least, most = _BLOCK_SIZES
    for name, value in (("logical", custom.logical), ("physical", custom.physical)):
        if value < least:
            yield Cause(at.at(name), f"Provided size of {value} is less than the supported minimum size of {least}")
        elif value > most:
            yield Cause(at.at(name), f"Provided size of {value} is greater than the supported maximum size of {most}")
        elif value & (value - 1):
            yield Cause(at.at(name), f"Provided size of {value} is not a power of 2")
    if custom.logical > custom.physical:
        text = f"Logical size {custom.logical} must be the same or less than the physical size of {custom.physical}"
        yield Cause(at.at("logical"), text)
    if bus_of(disk) == "sata" and custom.logical != least:
        yield Cause(at.at("logical"), f"Logical size must be {least} for SATA devices")
    granularity = custom.discard_granularity
    if granularity is not None and custom.logical > 0 and granularity % custom.logical:
        here = at.at("discardGranularity")
        yield Cause(here, f"Discard granularity {granularity} must be a multiple of the logical size {custom.logical}")


def hotplugged_disks_are_on_a_bus_that_lets_go(subject: Subject) -> Iterator[Cause]:
    """scsi or virtio; a LUN on scsi. A drive's medium may change on every bus."""
    coming = {volume.name for volume in subject.spec.volumes if is_hotpluggable(volume)}
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        bus = bus_of(disk)
        if disk.name not in coming or disk.cdrom is not None or not bus:
            continue
        at = subject.devices_at.at("disks").item(index)
        if disk.lun is not None and bus != "scsi":
            text = f"Hotplug configuration for LUN [{disk.name}] requires bus to be 'scsi'. [{bus}] is not permitted."
            yield Cause(at.at("lun", "bus"), text)
        elif disk.lun is None and bus not in ("scsi", "virtio"):
            text = (
                f"Hotplug configuration for disk [{disk.name}] requires bus to be 'scsi' or 'virtio'."
                f" [{bus}] is not permitted."
            )
            yield Cause(at.at("disk", "bus"), text)


def reservations_are_allowed(subject: Subject) -> Iterator[Cause]:
    """KubeVirt's words, with where to switch them on."""
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        if disk.lun is None or not disk.lun.reservation or subject.cluster.configuration.reserves_luns:
            continue
        text = (
            "persistent reservation is not enabled in kubevirt config; set"
            " spec.configuration.persistentReservationConfiguration.enabled of the KubeVirt object"
        )
        yield Cause(subject.devices_at.at("disks").item(index).at("lun"), text)


def reserved_luns_do_not_come_later(subject: Subject) -> Iterator[Cause]:
    """A launcher has the socket of its node's helper from its start, or never."""
    coming = {volume.name for volume in subject.spec.volumes if is_hotpluggable(volume)}
    for index, disk in enumerate(subject.spec.domain.devices.disks):
        if disk.lun is not None and disk.lun.reservation and disk.name in coming:
            at = subject.devices_at.at("disks").item(index).at("lun", "reservation")
            text = f"{at}: a LUN with reservations cannot come to a guest that runs; set hotpluggable: false"
            yield unsupported_cause(at, text)


RULES: Final[tuple[Rule, ...]] = (
    reserved_luns_do_not_come_later,
    disks_have_names_and_volumes,
    hotplugged_disks_are_on_a_bus_that_lets_go,
    disks_are_possible,
    arm64_has_the_bus,
    boot_order_is_unambiguous,
)
