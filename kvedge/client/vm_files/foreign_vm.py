"""A VM of another program, as the manifest of an archive: what its reader found out becomes a VirtualMachine here.

Called by the readers of appliances and of libvirt's domains. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

from kvedge.client.exports.remote_disk import LARGEST_DISK
from kvedge.client.vm_files.archive_errors import DamagedFile
from kvedge.client.vm_files.archive_manifest import MOST_DISKS, ArchiveManifest, DiskEntry
from kvedge.resources.codec import JsonObject

_MIB: Final = 1 << 20
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_LONGEST_NAME: Final = 50
# No honest machine has more; admission has bounds of its own.
_MOST_CPUS: Final = 4096
_MOST_MEMORY: Final = 64 << 40


class ForeignDisk(Struct, frozen=True):
    """One disk; `order` is the place in the boot order, from 1, or 0 for none."""

    size: int
    bus: str = "sata"
    serial: str = ""
    order: int = 0


class ForeignNic(Struct, frozen=True):
    """One interface."""

    model: str = "e1000e"
    mac: str = ""


class ForeignMachine(Struct):
    """What was found out of one."""

    name: str
    cpus: int = 1
    # Sockets, cores and threads; they count instead of `cpus` when they are there.
    topology: tuple[int, int, int] | None = None
    memory: int = 1 << 30
    is_efi: bool = False
    is_secure: bool = False
    uuid: str = ""
    cpu_model: str = ""
    has_tpm: bool = False
    disks: list[ForeignDisk] = field(default_factory=list)
    nics: list[ForeignNic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_disk(self, disk: ForeignDisk) -> None:
        """The next disk.

        Raises:
            DamagedFile: there are more than a machine has; each of them is a file that is opened.
        """
        if len(self.disks) >= MOST_DISKS:
            raise DamagedFile(f"the machine has more than {MOST_DISKS} disks")
        self.disks.append(disk)


def manifest_of(machine: ForeignMachine, source: str) -> ArchiveManifest:
    """The VM, and its disks by the names `disk1`, `disk2`…; the first interface is on the Pod network.

    Raises:
        DamagedFile: for numbers that no machine has.
    """
    _check(machine)
    name = make_name(machine.name)
    names = [f"disk{number}" for number in range(1, len(machine.disks) + 1)]
    interfaces, networks = _nics(machine)
    domain: JsonObject = {
        "cpu": _cpu(machine),
        "memory": {"guest": f"{-(-machine.memory // _MIB)}Mi"},
        "devices": {
            "disks": [_disk(each, disk) for each, disk in zip(names, machine.disks, strict=True)],
            "interfaces": interfaces,
        },
    }
    if machine.has_tpm:
        domain["devices"]["tpm"] = {}
    if not interfaces:
        domain["devices"]["autoattachPodInterface"] = False
    firmware: JsonObject = {"uuid": machine.uuid} if machine.uuid else {}
    if machine.is_efi:
        firmware["bootloader"] = {"efi": {"secureBoot": machine.is_secure}}
        if machine.is_secure:
            # Secure boot keeps its variables in memory that only this mode protects.
            domain["features"] = {"smm": {"enabled": True}}
    if firmware:
        domain["firmware"] = firmware
    spec: JsonObject = {
        "domain": domain,
        "networks": networks,
        "volumes": [{"name": each, "dataVolume": {"name": f"{name}-{each}"}} for each in names],
    }
    labels = {"kubevirt.io/vm": name}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "labels": labels},
        "spec": {"runStrategy": "Halted", "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    entries = [
        DiskEntry(volume=each, claim=f"{name}-{each}", size=disk.size, is_owned=True)
        for each, disk in zip(names, machine.disks, strict=True)
    ]
    return ArchiveManifest(source=source, vm=vm, disks=entries)


def make_name(text: str) -> str:
    """A name that objects can have, as near as possible.

    >>> make_name("Windows Server 2019 (old)")
    'windows-server-2019-old'
    """
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()[:200]).strip("-")[:_LONGEST_NAME].strip("-")
    return found or "imported"


def clean_mac(text: str) -> str:
    """A MAC address as kvedge writes it; empty for what is none, or is no single interface's.

    >>> clean_mac("00-50-56-AB-CD-EF"), clean_mac("01:00:5e:00:00:01")
    ('00:50:56:ab:cd:ef', '')
    """
    found = text.strip().lower().replace("-", ":")
    return found if _MAC.fullmatch(found) and not int(found[:2], 16) & 1 else ""


def _check(machine: ForeignMachine) -> None:
    sockets, cores, threads = machine.topology or (1, 1, machine.cpus)
    if not (min(sockets, cores, threads) > 0 and sockets * cores * threads <= _MOST_CPUS):
        raise DamagedFile("the machine has a number of CPUs that none has")
    if not _MIB <= machine.memory <= _MOST_MEMORY:
        raise DamagedFile(f"the machine has a memory that none has: {machine.memory} bytes")
    for disk in machine.disks:
        if not 0 < disk.size <= LARGEST_DISK:
            raise DamagedFile(f"the machine has a disk of a size that none has: {disk.size} bytes")


def _cpu(machine: ForeignMachine) -> JsonObject:
    sockets, cores, threads = machine.topology or (1, machine.cpus, 1)
    cpu: JsonObject = {"sockets": sockets, "cores": cores, "threads": threads}
    if machine.cpu_model:
        cpu["model"] = machine.cpu_model
    return cpu


def _disk(name: str, disk: ForeignDisk) -> JsonObject:
    found: JsonObject = {"name": name, "disk": {"bus": disk.bus}}
    if disk.serial:
        found["serial"] = disk.serial
    if disk.order:
        found["bootOrder"] = disk.order
    return found


def _nics(machine: ForeignMachine) -> tuple[Sequence[JsonObject], Sequence[JsonObject]]:
    if not machine.nics:
        return [], []
    first, *others = machine.nics
    if others:
        machine.warnings.append(
            f"{len(others)} of its {len(machine.nics)} interfaces are left out: a VM has one on the Pod network; "
            "`kvedge network list` shows others that the VM's manifest may name"
        )
    nic: dict[str, Any] = {"name": "default", "model": first.model, "bridge": {}}
    if first.mac:
        nic["macAddress"] = first.mac
    return [nic], [{"name": "default", "pod": {}}]
