"""Looks at this host for `kvedge doctor`: /proc, /sys, device nodes, libraries, links.

Called by the doctor verb. Reads, opens devices for a moment, starts QEMU to ask its version and, when wanted, to try
KVM; changes nothing.
"""

from __future__ import annotations

import errno
import grp
import os
import platform
import pwd
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from kvedge.appliance.doctor.disk_reader import read_disk
from kvedge.appliance.doctor.findings import DoctorOptions
from kvedge.appliance.doctor.host_facts import DeviceState, HostFacts, KvmFacts, Version
from kvedge.appliance.doctor.kernel_reader import (
    count_iommu_groups,
    find_modules,
    list_cgroup_controllers,
    read_cpu_flags,
    read_limits,
    read_nested,
    read_text,
)
from kvedge.handler.node.kvm_check import check_kvm
from kvedge.network.errors import NetworkError
from kvedge.network.pods.foreign_forwarding import FIREWALLD, dropping_chains, has_firewalld
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID, LIBRARY_DIRECTORIES, SPICE_MODULE
from kvedge.runtime.linux.clock import is_clock_synchronized
from kvedge.runtime.linux.file_locks import is_locked
from kvedge.runtime.linux.libraries import ask_libvirt_version

_WATCHDOG: Final = Path("/sys/class/watchdog/watchdog0")
_DEVICES: Final = ("/dev/kvm", "/dev/net/tun", "/dev/vhost-net")
_VOLUME_COMMANDS: Final = ("lvs", "thin_check", "mkfs.ext4")
_COMMANDS: Final = (
    *("qemu-img", "qemu-pr-helper", "modprobe", "passt", "swtpm", "swtpm_setup"),
    *_VOLUME_COMMANDS,
)
_EMULATORS: Final = {"x86_64": "qemu-system-x86_64", "aarch64": "qemu-system-aarch64"}
_SECONDS: Final = 10


def read_host(options: DoctorOptions, bridge: str, *, try_guest: bool) -> HostFacts:
    """This host, as it is now; `bridge` is the node bridge of the instance that is asked about.

    `try_guest` boots a firmware on KVM, which takes up to five seconds where KVM hangs.
    """
    machine = platform.machine()
    data_dir = Path(options.data_dir)
    memory = psutil.virtual_memory()
    mode, owner = _mode(data_dir)
    return HostFacts(
        machine=machine,
        kernel=_version(platform.release()),
        cpu_flags=read_cpu_flags(),
        nested=read_nested(),
        kvm=KvmFacts(True, *check_kvm()) if try_guest and options.emulation != "tcg" else KvmFacts(False),
        devices={path: _try_device(path) for path in _DEVICES},
        modules=find_modules(),
        iommu_groups=count_iommu_groups(),
        libvirt=_libvirt_version(),
        libvirt_qemu_driver=_has_qemu_driver(),
        qemu=_qemu_version(machine),
        qemu_spice=any(Path(directory, SPICE_MODULE).exists() for directory in LIBRARY_DIRECTORIES),
        commands=frozenset(name for name in _COMMANDS if shutil.which(name)),
        cgroup_controllers=list_cgroup_controllers(),
        disk=read_disk(data_dir),
        memory_total=memory.total,
        memory_available=memory.available,
        limits=read_limits(),
        selinux=_selinux(),
        apparmor=read_text("/sys/module/apparmor/parameters/enabled") == "Y",
        port_refusal=_try_port(options.port),
        year=time.gmtime().tm_year,
        clock_synchronized=is_clock_synchronized(),
        resolvers=tuple(_resolvers()),
        resolved_runs=Path("/run/systemd/resolve/io.systemd.Resolve").exists(),
        host_name=socket.gethostname(),
        init=read_text("/proc/1/comm"),
        kvedge_runs=_is_locked(data_dir / "state" / "lock"),
        leftovers=tuple(_leftovers(data_dir, bridge)),
        data_dir_mode=mode,
        data_dir_owner=owner,
        launcher_user=_user_name(LAUNCHER_UID),
        launcher_group=_group_name(LAUNCHER_GID),
        launcher_group_members=tuple(_others_in_group(LAUNCHER_GID, LAUNCHER_UID)),
        networks=_networks(bridge),
        bridge=bridge,
        filters=_filters(ipv6=":" in options.pod_cidr),
        # Never opened here: that would arm it.
        watchdog=read_text(_WATCHDOG / "identity"),
        watchdog_is_taken="active" in read_text(_WATCHDOG / "state").split()
        or read_text(_WATCHDOG / "nowayout") == "1",
    )


def _filters(*, ipv6: bool) -> tuple[str, ...] | None:
    try:
        return (*dropping_chains(ipv6=ipv6), *((FIREWALLD,) if has_firewalld() else ()))
    except NetworkError:
        # Only root may look. The rule of the modules reports a kernel without nftables.
        return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def _others_in_group(gid: int, uid: int) -> list[str]:
    names = {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid}
    with suppress(KeyError):
        names |= set(grp.getgrgid(gid).gr_mem)
    return sorted(names - {_user_name(uid)})


def _version(text: str) -> Version:
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def _try_device(path: str) -> DeviceState:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return DeviceState(exists=False)
    except OSError as error:
        return DeviceState(exists=True, refusal=error.strerror or str(error))
    return DeviceState(exists=True)


def _libvirt_version() -> Version:
    number = ask_libvirt_version()
    return () if number is None else (number // 1_000_000, number // 1_000 % 1_000, number % 1_000)


def _has_qemu_driver() -> bool:
    places = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
    name = "libvirt/connection-driver/libvirt_driver_qemu.so"
    return any(any(Path(place).glob(pattern)) for place in places for pattern in (name, f"*/{name}"))


def _qemu_version(machine: str) -> Version:
    emulator = shutil.which(_EMULATORS.get(machine, f"qemu-system-{machine}"))
    if emulator is None:
        return ()
    try:
        done = subprocess.run([emulator, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"version (\d+(?:\.\d+)+)", done.stdout)
    return _version(found.group(1)) if found else ()


def _mode(path: Path) -> tuple[int | None, int | None]:
    try:
        found = path.stat()
    except OSError:
        return None, None
    return found.st_mode & 0o7777, found.st_uid


def _selinux() -> str:
    return {"1": "enforcing", "0": "permissive"}.get(read_text("/sys/fs/selinux/enforce"), "")


def _try_port(port: int) -> str:
    if port == 0:
        return ""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            return "another program has it" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return ""


def _resolvers() -> Iterator[str]:
    for line in read_text("/etc/resolv.conf").splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            yield words[1]


def _is_locked(path: Path) -> bool:
    try:
        return is_locked(path)
    except OSError:
        return False


def _leftovers(data_dir: Path, bridge: str) -> Iterator[str]:
    if os.path.exists(f"/sys/class/net/{bridge}"):
        yield f"the bridge {bridge}"
    mounts = [mount for mount in psutil.disk_partitions(all=True) if data_dir in Path(mount.mountpoint).parents]
    if mounts:
        yield f"{len(mounts)} mounts below {data_dir}"
    # An open file below the Pods' directories belongs to a container that runs.
    pods = [path for path in (data_dir / "kubelet" / "pods").glob("*") if path.is_dir()]
    if pods:
        yield f"{len(pods)} Pods in {data_dir / 'kubelet' / 'pods'}"


def _networks(bridge: str) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for link, addresses in psutil.net_if_addrs().items():
        if link == bridge:
            continue
        ipv4 = (item for item in addresses if item.family == socket.AF_INET and item.netmask)
        found[link] = tuple(f"{item.address}/{item.netmask}" for item in ipv4)
    return found
