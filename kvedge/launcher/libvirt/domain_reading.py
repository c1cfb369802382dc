"""What libvirt's domain is like now, as `domain_facts`.

Part of the door to libvirt; called by `libvirt_session`, which translates the errors.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import libvirt

from kvedge.launcher.libvirt.destination_xml import find_copied_volumes
from kvedge.launcher.libvirt.domain_disks import ALIAS, read_device_bytes, read_disks
from kvedge.launcher.libvirt.domain_facts import (
    ENDED,
    DiskError,
    DiskSize,
    DomainDisk,
    DomainFacts,
    DomainLook,
    Life,
    MemoryFacts,
    VcpuPlace,
    Why,
)
from kvedge.launcher.libvirt.domain_nics import read_nics

_LIVES: Final = {
    libvirt.VIR_DOMAIN_RUNNING: Life.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: Life.BLOCKED,
    libvirt.VIR_DOMAIN_PAUSED: Life.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: Life.SHUTTING_DOWN,
    libvirt.VIR_DOMAIN_SHUTOFF: Life.SHUTOFF,
    libvirt.VIR_DOMAIN_CRASHED: Life.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: Life.SUSPENDED,
}

# Of libvirt 9.2 and later; the name is missing where an older one was built against.
_PAUSED_API_ERROR: Final = 14

_WHYS: Final = {
    (Life.RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED): Why.BOOTED,
    (Life.RUNNING, libvirt.VIR_DOMAIN_RUNNING_UNPAUSED): Why.UNPAUSED,
    (Life.RUNNING, libvirt.VIR_DOMAIN_RUNNING_MIGRATION_CANCELED): Why.CANCELLED,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION): Why.MIGRATING,
    # libvirt wanted it to go on after a migration that failed, and could not.
    (Life.PAUSED, _PAUSED_API_ERROR): Why.MIGRATING,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED): Why.MIGRATED,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER): Why.USER,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR): Why.IO_ERROR,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_DUMP): Why.DUMP,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP): Why.STARTING_UP,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_CRASHED): Why.PANICKED,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN): Why.SHUTDOWN,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED): Why.DESTROYED,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED): Why.CRASHED,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FAILED): Why.FAILED,
    (Life.CRASHED, libvirt.VIR_DOMAIN_CRASHED_PANICKED): Why.PANICKED,
}


def read_facts(domain: Any, read_pid: Callable[[], int]) -> DomainFacts:
    """One look at the domain; `read_pid` finds its QEMU, when there is to be one."""
    state, reason = domain.state()
    document = ElementTree.fromstring(domain.XMLDesc())
    life = _LIVES.get(state, Life.UNKNOWN)
    why = _WHYS.get((life, reason), Why.OTHER)
    disks = tuple(read_disks(document))
    machine = document.find("os/type")
    copied_by, copied = find_copied_volumes(document)
    vcpus, most_vcpus = _read_vcpus(document)
    channel = document.find("devices/channel/target[@name='org.qemu.guest_agent.0']")
    return DomainFacts(
        uuid=domain.UUIDString(),
        life=life,
        why=why,
        pid=read_pid() if life not in ENDED else 0,
        machine="" if machine is None else machine.get("machine", ""),
        disks=disks,
        disk_errors=tuple(_disk_errors(domain, disks)) if why is Why.IO_ERROR else (),
        nics=tuple(read_nics(document, ALIAS)),
        io_threads=int(document.findtext("iothreads") or 0),
        vcpus=vcpus,
        most_vcpus=most_vcpus,
        memory=_read_memory(document),
        is_persistent=bool(domain.isPersistent()),
        copied_by=copied_by,
        copied=copied,
        agent_connected=channel is not None and channel.get("state") == "connected",
    )


def _read_vcpus(document: ElementTree.Element) -> tuple[int, int]:
    element = document.find("vcpu")
    most = int((None if element is None else element.text) or 0)
    return most if element is None else int(element.get("current", most)), most


def _read_memory(document: ElementTree.Element) -> MemoryFacts:
    """libvirt shows sizes in KiB, whatever they were defined in; the domain's whole memory counts its devices in."""
    whole = _kibibytes(document, "memory")
    device = document.find("devices/memory[@model='virtio-mem']/target")
    if device is None:
        return MemoryFacts(whole)
    room = _kibibytes(device, "size")
    return MemoryFacts(whole - room, room, _kibibytes(device, "requested"), _kibibytes(device, "current"))


def _kibibytes(parent: ElementTree.Element, path: str) -> int:
    return int(parent.findtext(path) or 0) * 1024


def memory_device_with(document: ElementTree.Element, requested: int) -> str | None:
    """The device that gives the guest memory, asked for so many bytes; None when there is none."""
    device = document.find("devices/memory[@model='virtio-mem']")
    asked = None if device is None else device.find("target/requested")
    if device is None or asked is None:
        return None
    asked.set("unit", "KiB")
    asked.text = str(requested // 1024)
    return ElementTree.tostring(device, encoding="unicode")


def read_look(domain: Any, libvirt_version: int, version_of: Callable[[str], int]) -> DomainLook:
    """The domain as people want to see it; `version_of` tells the version of an emulator, 0 when it is not known."""
    state, reason = domain.state()
    life = _LIVES.get(state, Life.UNKNOWN)
    # Without VIR_DOMAIN_XML_SECURE: libvirt leaves passwords out.
    document = domain.XMLDesc()
    return DomainLook(
        name=domain.name(),
        uuid=domain.UUIDString(),
        id=max(0, domain.ID()),
        life=life,
        why=_WHYS.get((life, reason), Why.OTHER),
        document=document,
        vcpus=_vcpu_places(domain) if life not in ENDED else (),
        libvirt=libvirt_version,
        qemu=version_of(ElementTree.fromstring(document).findtext("devices/emulator") or ""),
    )


def read_sizes(domain: Any, names: frozenset[str]) -> dict[str, DiskSize]:
    """The disks of these names, with their sizes as QEMU has them; none when the domain does not run."""
    if not domain.isActive():
        return {}
    return {
        disk.name: DiskSize(disk.target, int(domain.blockInfo(disk.target)[0]), read_device_bytes(disk.source))
        for disk in read_disks(ElementTree.fromstring(domain.XMLDesc()))
        if disk.source and disk.name in names
    }


def _disk_errors(domain: Any, disks: Sequence[DomainDisk]) -> Iterator[DiskError]:
    try:
        found = domain.diskErrors()
    except libvirt.libvirtError:
        # QEMU has ended meanwhile, or is busy: that the guest is paused is known without.
        return
    for disk in disks:
        code = found.get(disk.target, libvirt.VIR_DOMAIN_DISK_ERROR_NONE)
        if code != libvirt.VIR_DOMAIN_DISK_ERROR_NONE:
            yield DiskError(disk.name, no_space=code == libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE)


def _vcpu_places(domain: Any) -> tuple[VcpuPlace, ...]:
    try:
        infos, maps = domain.vcpus()
    except libvirt.libvirtError:
        # While a guest starts or ends it has a state already, or still, but no vCPUs.
        return ()
    return tuple(_places(infos, maps))


def _places(infos: Sequence[Sequence[int]], maps: Sequence[Sequence[bool]]) -> Iterator[VcpuPlace]:
    for (number, state, run_ns, host_cpu), allowed in zip(infos, maps, strict=True):
        may_use = tuple(cpu for cpu, is_allowed in enumerate(allowed) if is_allowed)
        yield VcpuPlace(number, state == libvirt.VIR_VCPU_BLOCKED, max(0, host_cpu), run_ns, may_use)
