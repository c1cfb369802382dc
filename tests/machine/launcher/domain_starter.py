"""Defines golden cases in libvirt's QEMU driver and starts them, paused and emulated; prints what became of each as
JSON.

Run by test_golden_domains.py as a program of its own (a process can open one embedded driver only), in namespaces that
go with it, so that taps and QEMUs of a failed run are gone too:
`unshare --net --pid … python -m tests.machine.launcher.domain_starter <directory> <case>…`.
What is started differs from the case where a machine without the case's hardware could not have it: KVM, huge pages,
their NUMA cells, more than one CPU, a priority in real time, a SCSI disk, devices of the node to pass through, what
serves directories, or the kernel's part of a vsock.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import libvirt

from kvedge.launcher.domain.context import DiskSource, DomainContext, InterfaceTarget, KernelFiles
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.launcher.domain.host_cpus import HostCell, HostCpus
from kvedge.launcher.passt.passt_command import LINK_ADDRESS, LINK_PORT
from kvedge.resources.host_devices.cpu_placement import dedicated_cpu_count
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.distribution_user import know_the_distributions_user
from tests.support.golden.domain_cases import GoldenCase, load_case
from tests.support.values import replace

QEMU_CONF = """\
stdio_handler = "file"
remember_owner = 0
dynamic_ownership = 0
user = "+{uid}"
group = "+{gid}"
swtpm_user = "+{uid}"
swtpm_group = "+{gid}"
security_driver = "none"
namespaces = []
seccomp_sandbox = 1
"""
TUNSETIFF = 0x400454CA
TUNSETPERSIST = 0x400454CB
IFF_TAP, IFF_NO_PI, IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x0100
_TAP_NUMBERS = itertools.count()


def main(directory: Path, names: list[str]) -> None:
    _raise_loopback()
    connection = _open(directory / "libvirt")
    results = {}
    for name in names:
        case = load_case(name)
        results[name] = {"defined": _define(connection, case)} | _start(connection, case, directory / name)
        if has_room(case):
            results[name]["still"] = _start(connection, without_room(load_case(name)), directory / f"{name}-still")
    connection.close()
    print(json.dumps(results))


def _raise_loopback() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _open(root: Path) -> libvirt.virConnect:
    libvirt.virEventRegisterDefaultImpl()
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()
    (root / "etc").mkdir(parents=True)
    know_the_distributions_user(root)
    (root / "etc/qemu.conf").write_text(QEMU_CONF.format(uid=os.getuid(), gid=os.getgid()))
    return libvirt.open(f"qemu:///embed?root={root}")


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _define(connection: libvirt.virConnect, case: GoldenCase) -> str:
    """What the QEMU driver says of the golden file itself: an error, or nothing."""
    try:
        domain = connection.defineXMLFlags(case.xml_path.read_text(), libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    except libvirt.libvirtError as error:
        return str(error)
    domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
    return ""


def has_room(case: GoldenCase) -> bool:
    """Whether the guest may get more memory while it runs."""
    memory = case.vmi.spec.domain.memory
    return memory is not None and memory.max_guest is not None


def without_room(case: GoldenCase) -> GoldenCase:
    """The case whose guest keeps its memory and its CPUs; its VMI is altered."""
    domain = case.vmi.spec.domain
    if domain.memory is not None:
        domain.memory.max_guest = None
    if domain.cpu is not None:
        domain.cpu.max_sockets = 0
    return case


def _start(connection: libvirt.virConnect, case: GoldenCase, place: Path) -> dict[str, Any]:
    """What libvirt says when it starts the case: an error, or the document of the running domain."""
    place.mkdir()
    vmi = _possible_here(case.vmi)
    context = _real_files(vmi, case.context, place)
    try:
        # Where passt would be given the connection.
        with socket.create_server((LINK_ADDRESS, LINK_PORT)):
            domain = connection.createXML(render_domain(vmi, context), libvirt.VIR_DOMAIN_START_PAUSED)
    except libvirt.libvirtError as error:
        return {"started": str(error)}
    facts = {
        "started": "",
        "xml": domain.XMLDesc(),
        "vnc": Path(context.vnc_socket).is_socket(),
        "spice": context.spice_socket is not None and Path(context.spice_socket).is_socket(),
        "serial": Path(context.serial_socket).is_socket(),
    }
    domain.destroy()
    return facts


def _possible_here(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    domain = vmi.spec.domain
    domain.devices.disks = [disk for disk in domain.devices.disks if disk.lun is None]
    domain.devices.interfaces = [nic for nic in domain.devices.interfaces if nic.sriov is None]
    domain.devices.gpus, domain.devices.host_devices = [], []
    # What serves them runs beside the launcher: tests/machine/test_shared_directories.py starts both.
    domain.devices.filesystems = []
    if not Path("/dev/vhost-vsock").exists():
        domain.devices.autoattach_vsock = None
    if domain.memory is not None:
        domain.memory.hugepages = None
    if domain.cpu is not None:
        domain.cpu.numa = domain.cpu.realtime = None
    return vmi


def _real_files(vmi: VirtualMachineInstance, context: DomainContext, place: Path) -> DomainContext:
    names = {disk.name for disk in vmi.spec.domain.devices.disks}
    sources = {name: source for name, source in context.disk_sources.items() if name in names}
    kernel = None
    if context.kernel_boot is not None:
        kernel = KernelFiles(kernel=_kernel(place / "kernel"), initrd=_file(place / "initrd", bytes(512)))
    return replace(
        context,
        emulation=True,
        emulator=None,
        host_cpus=HostCpus((HostCell(0, ((0,),) * dedicated_cpu_count(vmi)),)),
        serial_socket=str(place / "serial"),
        serial_log=None if context.serial_log is None else str(place / "serial-log"),
        vnc_socket=str(place / "vnc"),
        spice_socket=None if context.spice_socket is None else str(place / "spice"),
        agent_channel=None if context.agent_channel is None else str(place / "agent"),
        metrics_channel=None if context.metrics_channel is None else str(place / "metrics-port"),
        usb_socket=str(place / "usb-"),
        disk_sources={name: _real_disk(source, place / name) for name, source in sources.items()},
        interfaces={name: replace(target, tap=_tap(target)) for name, target in context.interfaces.items()},
        ovmf=None if context.ovmf is None else replace(context.ovmf, nvram=str(place / "vars.fd")),
        kernel_boot=kernel,
        ignition=None if context.ignition is None else _file(place / "ignition.json", b"{}"),
    )


def _kernel(path: Path) -> str:
    """Enough of a bzImage for QEMU to load it: its magic, boot protocol 2.12, room for an initrd. Nobody runs it."""
    image = bytearray(16384)
    image[0x202:0x208] = b"HdrS\x0c\x02"
    image[0x22C:0x230] = b"\xff\xff\xff\x7f"
    return _file(path, image)


def _file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def _real_disk(source: DiskSource, path: Path) -> DiskSource:
    if source.backing is None:
        _image(str(path), source.format)
        return replace(source, path=str(path), block=False, served=False)
    base = f"{path}.backing"
    _image(base, source.backing[1])
    _qemu_img("-f", source.format, "-u", "-b", base, "-F", source.backing[1], str(path), "4M")
    return replace(source, path=str(path), backing=(base, source.backing[1]), block=False, backing_block=False)


def _image(path: str, image_format: str) -> None:
    """An image at the end of its chain. A qcow2 names one more file in its header, which is not there: that QEMU starts
    shows that neither it nor libvirt follows what an image says."""
    further = ["-u", "-b", "/nonexistent/secret", "-F", "raw"] if image_format == "qcow2" else []
    _qemu_img("-f", image_format, *further, path, "4M")


def _qemu_img(*arguments: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", *arguments], check=True)


def _tap(target: InterfaceTarget) -> str:
    """A tap of its own for each NIC, as the handler makes them: persistent, and with queues when they are wanted."""
    name = f"t{next(_TAP_NUMBERS)}"
    flags = IFF_TAP | IFF_NO_PI | (IFF_MULTI_QUEUE if target.queues > 1 else 0)
    with open("/dev/net/tun", "rb+", buffering=0) as tun:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
        fcntl.ioctl(tun, TUNSETPERSIST, 1)
    return name


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
