"""An appliance (OVA): a tar with a description in OVF, its images, and their digests.

Called by `kvedge import`. Reads the one file; images are sent from where they lie in it. Everything in it may be
hostile: names lead to members of the archive only, and numbers are bounded.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from kvedge.client.uploads.upload_source import FileSource, UploadSource
from kvedge.client.vm_files import safe_xml
from kvedge.client.vm_files.archive_errors import DamagedFile, IncompleteFile, UnknownFile
from kvedge.client.vm_files.disk_images import needs_room, open_image
from kvedge.client.vm_files.foreign_vm import ForeignDisk, ForeignMachine, ForeignNic, clean_mac, manifest_of
from kvedge.client.vm_files.machine_file import MachineFile
from kvedge.client.vm_files.safe_xml import text_of
from kvedge.storage.image_errors import BadImage
from kvedge.storage.tar_reader import EntryKind, HeaderBudget, TarEntry, TarReader

_MOST_MEMBERS: Final = 1000
# Disks, controllers, NICs: no program makes a machine of more.
_MOST_ITEMS: Final = 1000
_PIECE: Final = 1 << 20
_DIGESTS: Final = {"SHA1": "sha1", "SHA256": "sha256", "SHA512": "sha512"}
_DIGEST_LINE: Final = re.compile(r"(SHA1|SHA256|SHA512)\s?\(([^)]{1,1000})\)\s?=\s?([0-9a-fA-F]{40,128})")
_UNITS: Final = re.compile(r"byte(?:\s*\*\s*(?:2\s*\^\s*([0-9]{1,2})|([0-9]{1,15})))?")
_MOST_TOLD: Final = 20
# CIM's numbers for what hardware is.
_CPU: Final = "3"
_MEMORY: Final = "4"
_NIC: Final = "10"
_DISK: Final = "17"
# Controllers, drives for disks that come and go, screens: a VM has them by itself, or has no need for them.
_SILENT: Final = ("1", "5", "6", "14", "15", "20", "23", "24")
_NIC_MODELS: Final = {"e1000": "e1000", "e1000e": "e1000e", "vmxnet3": "e1000e", "virtio": "virtio", "pcnet32": "pcnet"}


def is_tar(head: bytes) -> bool:
    """Whether a file that begins so is a tar, as an appliance is."""
    return head[257:262] == b"ustar"


def read_ova(path: Path) -> MachineFile:
    """The VM in an appliance, with all digests checked that it has.

    Raises:
        DamagedFile, IncompleteFile, UnknownFile, RefusedError: with what is wrong.
        OSError: of the file.
    """
    with path.open("rb") as file:
        members = _list_members(file, path)
        descriptor = next((name for name in members if name.lower().endswith(".ovf")), None)
        if descriptor is None:
            raise UnknownFile(f"{path}: is no appliance: it has no description that ends in .ovf")
        root = safe_xml.parse(_read(file, members[descriptor], safe_xml.LONGEST), descriptor[:100])
        warnings = _check_digests(file, members, descriptor)
    return _Appliance(path, root, members, warnings).read()


class _Appliance:
    """One description and the members that it may name."""

    def __init__(self, path: Path, root: Element, members: dict[str, TarEntry], warnings: list[str]) -> None:
        self._path = path
        self._members = members
        system = root.find(".//VirtualSystem")
        if system is None:
            raise DamagedFile(f"{path}: has no VirtualSystem")
        if len(root.findall(".//VirtualSystem")) > 1:
            raise DamagedFile(f"{path}: has several VMs: export each into an appliance of its own")
        self._system = system
        hardware = system.find("VirtualHardwareSection")
        if hardware is None:
            raise DamagedFile(f"{path}: has a VM without hardware")
        self._hardware = hardware
        self._items = [item for item in hardware if item.tag in ("Item", "StorageItem", "EthernetPortItem")]
        if len(self._items) > _MOST_ITEMS:
            raise DamagedFile(f"{path}: has {len(self._items)} pieces of hardware; {_MOST_ITEMS} are the most")
        self._described = {each.get("diskId"): each for each in root.findall(".//DiskSection/Disk")}
        self._files = {each.get("id"): each for each in root.findall(".//References/File")}
        name = text_of(system, "Name") or system.get("id", "") or path.stem
        self._machine = ForeignMachine(name, warnings=warnings)
        self._sources: list[UploadSource] = []
        self._least: list[int] = []

    def read(self) -> MachineFile:
        """All of it."""
        machine = self._machine
        for item in self._items:
            match text_of(item, "ResourceType"):
                case kind if kind == _CPU:
                    machine.cpus = self._number(item)
                    self._read_topology(item)
                case kind if kind == _MEMORY:
                    machine.memory = self._number(item) * self._unit(text_of(item, "AllocationUnits"), 1 << 20)
                case kind if kind == _DISK:
                    self._read_disk(item)
                case kind if kind == _NIC:
                    model = _NIC_MODELS.get(text_of(item, "ResourceSubType").lower(), "e1000e")
                    machine.nics.append(ForeignNic(model, clean_mac(text_of(item, "Address"))))
                case kind if kind not in _SILENT:
                    what = text_of(item, "ElementName") or text_of(item, "Description") or f"resource {kind}"
                    machine.warnings.append(f"{what[:60]!r} has no equal here, and is left out")
        if not self._sources:
            raise DamagedFile(f"{self._path}: its VM has no disk, and would not boot")
        self._read_firmware()
        manifest = manifest_of(machine, f"appliance {self._path.name}")
        return MachineFile(manifest, self._sources, self._least, machine.warnings)

    def _read_topology(self, item: Element) -> None:
        cores = text_of(item, "CoresPerSocket")
        if cores.isascii() and cores.isdigit() and 0 < len(cores) < 5:
            sockets, rest = divmod(self._machine.cpus, int(cores) or 1)
            if sockets and not rest:
                self._machine.topology = (sockets, int(cores), 1)

    def _read_disk(self, item: Element) -> None:
        resource = text_of(item, "HostResource")
        disk_id = resource.rpartition("/")[2]
        disk = self._described.get(disk_id)
        if disk is None or "/disk/" not in resource:
            raise DamagedFile(f"{self._path}: a disk of its VM is not described: {resource[:100]!r}")
        if disk.get("parentRef"):
            raise DamagedFile(f"{self._path}: disk {disk_id[:60]!r} needs another one, its parent")
        capacity = self._integer(disk.get("capacity", ""), "capacity of a disk")
        capacity *= self._unit(disk.get("capacityAllocationUnits", ""), 1)
        reference = disk.get("fileRef")
        if reference is None:
            self._machine.warnings.append(f"disk {disk_id[:60]!r} is empty: `kvedge volume create` makes such a one")
            return
        file = self._files.get(reference)
        name = "" if file is None else file.get("href", "")
        entry = self._members.get(name)
        if file is None or entry is None or file.get("chunkSize"):
            raise DamagedFile(f"{self._path}: the image {name[:100]!r} of a disk is not in it as one file")
        size, source = self._open(entry, is_packed=bool(file.get("compression")), capacity=capacity)
        self._machine.add_disk(ForeignDisk(max(size, capacity)))
        self._sources.append(source)
        self._least.append(needs_room(source, size))

    def _open(self, entry: TarEntry, *, is_packed: bool, capacity: int) -> tuple[int, UploadSource]:
        if is_packed:
            return capacity, FileSource(self._path, entry.offset, entry.size)
        return open_image(self._path, "", entry.offset, entry.size)

    def _read_firmware(self) -> None:
        for config in self._hardware.iter("Config"):
            key, value = config.get("key", ""), config.get("value", "")
            if key == "firmware":
                self._machine.is_efi = value.lower() == "efi"
            elif key.endswith("bootOptions.efiSecureBootEnabled"):
                self._machine.is_secure = value.lower() == "true"
        firmware = self._system.find(".//Machine//Firmware")
        if firmware is not None and firmware.get("type", "").upper().startswith("EFI"):
            self._machine.is_efi = True
        self._machine.is_secure &= self._machine.is_efi

    def _number(self, item: Element) -> int:
        return self._integer(text_of(item, "VirtualQuantity"), "VirtualQuantity")

    def _integer(self, text: str, what: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise DamagedFile(f"{self._path}: {what} is no number: {text[:40]!r}")
        return int(text)

    def _unit(self, text: str, otherwise: int) -> int:
        if not text.strip():
            return otherwise
        if text.strip().lower() in ("megabytes", "gigabytes"):
            return 1 << (20 if text.strip().lower() == "megabytes" else 30)
        found = _UNITS.fullmatch(text.strip())
        if found is None:
            raise DamagedFile(f"{self._path}: is in units that are not known: {text[:40]!r}")
        return 1 << int(found[1]) if found[1] else int(found[2] or 1)


def _list_members(file: BinaryIO, path: Path) -> dict[str, TarEntry]:
    size, members = path.stat().st_size, dict[str, TarEntry]()
    try:
        for entry in TarReader(file, HeaderBudget(_MOST_MEMBERS, 8 << 20)):
            if entry.kind is not EntryKind.FILE:
                raise DamagedFile(f"{path}: has a member that no appliance has: {entry.name[:100]!r}")
            if entry.offset + entry.size > size:
                raise IncompleteFile(f"{path}: ends in the middle of {entry.name[:100]!r}: copy it again")
            if entry.name in members or len(members) >= _MOST_MEMBERS:
                raise DamagedFile(f"{path}: has a member twice, or more than {_MOST_MEMBERS}")
            members[entry.name] = entry
    except BadImage as error:
        raise DamagedFile(f"{path}: {error}") from error
    return members


def _read(file: BinaryIO, entry: TarEntry, limit: int) -> bytes:
    if entry.size > limit:
        raise DamagedFile(f"{entry.name[:100]!r} of the appliance has {entry.size} bytes; {limit} are the most")
    file.seek(entry.offset)
    return file.read(entry.size)


def _check_digests(file: BinaryIO, members: dict[str, TarEntry], descriptor: str) -> list[str]:
    """Compare all that the appliance's manifest tells; a warning for what has no digest."""
    manifest = next((name for name in members if name.lower().endswith(".mf")), None)
    if manifest is None:
        return ["the appliance has no digests: whether it is whole is not known"]
    text = _read(file, members[manifest], 1 << 20).decode("utf-8", "replace")
    checked: dict[str, None] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        found = _DIGEST_LINE.fullmatch(line)
        if found is None:
            raise DamagedFile(f"the appliance's digests cannot be read: {line[:100]!r}")
        kind, name, wanted = found.groups()
        entry = members.get(name)
        if entry is None:
            raise IncompleteFile(f"the appliance lacks {name[:100]!r}, which its digests name")
        if name in checked:
            # Each is read once, however often it is named: a disk of terabytes may be named in each of 10,000 lines.
            raise DamagedFile(f"the appliance's digests name {name[:100]!r} twice")
        if _digest(file, entry, _DIGESTS[kind]) != wanted.lower():
            raise DamagedFile(
                f"the appliance is damaged: {name[:100]!r} has another digest than {manifest[:100]} tells"
            )
        checked[name] = None
    ours = (descriptor, *(name for name in members if not name.lower().endswith((".ovf", ".mf", ".cert"))))
    return [
        f"the appliance has no digest of {name[:100]!r}: whether it is whole is not known"
        for name in ours[:_MOST_TOLD]
        if name not in checked
    ]


def _digest(file: BinaryIO, entry: TarEntry, algorithm: str) -> str:
    digest, left = hashlib.new(algorithm, usedforsecurity=False), entry.size
    file.seek(entry.offset)
    while left and (piece := file.read(min(_PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()
