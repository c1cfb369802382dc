"""What this host's kernel is and has, for `host_reader`: modules, limits, control groups, the CPU it knows.

Reads /proc, /sys and /boot; changes nothing.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

_NETWORK_MODULES: Final = ("tun", "bridge", "veth", "nf_tables", "nft_connlimit", "nft_limit", "vhost_net")
_MODULES: Final = (*_NETWORK_MODULES, "loop", "dm_mod", "dm_thin_pool", "vfio_pci")
_LIMITS: Final = ("fs/inotify/max_user_instances", "fs/inotify/max_user_watches", "fs/file-max", "kernel/pid_max")


def read_limits() -> Mapping[str, int]:
    """Limits of the kernel, by their names below /proc/sys; 0 where there is none."""
    return {name: int(read_text(f"/proc/sys/{name}") or 0) for name in _LIMITS}


def read_text(path: str | Path) -> str:
    """A small file; empty where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        # An unreadable file counts as missing; the rule that needs it says so.
        return ""


def read_cpu_flags() -> frozenset[str]:
    """What the CPU can do, in the kernel's words."""
    for line in read_text("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def read_nested() -> str:
    """KVM's parameter for guests that run guests; empty without KVM."""
    found = (read_text(f"/sys/module/{name}/parameters/nested") for name in ("kvm_intel", "kvm_amd"))
    return next((text for text in found if text), "")


def find_modules() -> Mapping[str, bool]:
    """The modules that there are: whether each works now, or could be loaded."""
    folder = Path("/lib/modules") / platform.release()
    built_in, loadable = read_text(folder / "modules.builtin"), read_text(folder / "modules.dep")
    found = {}
    for name in _MODULES:
        pattern = re.compile(rf"(^|/){re.escape(name).replace('_', '[-_]')}\.ko", re.MULTILINE)
        # A kernel with all modules built in may come without the lists: then a working device proves its module.
        if Path(f"/sys/module/{name}").exists() or pattern.search(built_in) or _is_used(name):
            found[name] = True
        elif pattern.search(loadable):
            found[name] = False
    return found


def _is_used(module: str) -> bool:
    evidence = {
        "tun": "/sys/class/misc/tun",
        "vhost_net": "/sys/class/misc/vhost-net",
        "bridge": "/proc/sys/net/bridge",
        "loop": "/sys/block/loop0",
        "dm_mod": "/sys/class/misc/device-mapper",
    }
    config = {"veth": "CONFIG_VETH=y", "bridge": "CONFIG_BRIDGE=y", "nf_tables": "CONFIG_NF_TABLES=y"}
    config |= {"nft_connlimit": "CONFIG_NFT_CONNLIMIT=y", "nft_limit": "CONFIG_NFT_LIMIT=y"}
    if module in evidence and Path(evidence[module]).exists():
        return True
    return module in config and config[module] in _kernel_config()


def _kernel_config() -> str:
    with suppress(OSError):
        import gzip

        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode(errors="replace")
    return read_text(f"/boot/config-{platform.release()}")


def list_cgroup_controllers() -> frozenset[str]:
    """The controllers of both versions."""
    found: set[str] = set()
    for mount in psutil.disk_partitions(all=True):
        if mount.fstype == "cgroup2":
            found.update(read_text(Path(mount.mountpoint) / "cgroup.controllers").split())
        elif mount.fstype == "cgroup":
            found.update(mount.opts.split(","))
    return frozenset(found)


def count_iommu_groups() -> int:
    """How many groups of devices an IOMMU keeps apart."""
    try:
        return len(os.listdir("/sys/kernel/iommu_groups"))
    except FileNotFoundError:
        return 0
