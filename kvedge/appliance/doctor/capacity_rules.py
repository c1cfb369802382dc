"""Whether this host has room for guests: its disk and its file system, its memory, and the kernel's limits.

Called by `doctor_rules`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.appliance.doctor.findings import DoctorOptions, Finding, Level
from kvedge.appliance.doctor.host_facts import HostFacts

_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
# A container disk of a small Linux and its overlay.
_DISK_LOW: Final = 5 * _GIB
_DISK_FULL: Final = 512 * _MIB
_INODES_LOW: Final = 10_000
# The control plane, one launcher and a guest of 256 MiB.
_MEMORY_LOW: Final = 512 * _MIB
# Lowest sensible values by file below /proc/sys: each VM watches some files; each stream and QEMU needs descriptors.
_LIMITS: Final[Mapping[str, int]] = {
    "fs/inotify/max_user_instances": 128,
    "fs/inotify/max_user_watches": 8192,
    "fs/file-max": 65536,
    "kernel/pid_max": 32768,
}
# By a program of each, the packages that thin pools need.
_LVM_PROGRAMS: Final[Mapping[str, str]] = {
    "lvs": "lvm2",
    "thin_check": "thin-provisioning-tools",
    "mkfs.ext4": "e2fsprogs",
}
# Options of a file system that counts what a directory holds.
_PROJECT_QUOTA: Final = frozenset({"prjquota", "pquota", "prjjquota"})


def check_disk(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The file system of the data directory."""
    disk = facts.disk
    free = f"{disk.free / _GIB:.1f} GiB free at {disk.path} ({disk.kind})"
    if "ro" in disk.options:
        yield Finding("disk", Level.FAIL, f"{disk.path} is mounted read-only", "mount -o remount,rw, or move data-dir")
    elif disk.free < _DISK_FULL or disk.free_inodes < _INODES_LOW // 10:
        yield Finding("disk", Level.FAIL, free, "make room: kvedge image rm, or move data-dir")
    elif disk.free < _DISK_LOW or disk.free_inodes < _INODES_LOW:
        yield Finding("disk", Level.WARN, free, "make room before more VMs are made")
    else:
        yield Finding("disk", Level.OK, free)
    if disk.kind in ("tmpfs", "ramfs", "overlay"):
        detail = f"{disk.path} is on {disk.kind}: VMs and their state may be gone after a reboot"
        yield Finding("disk kind", Level.WARN, detail, "put data-dir on a disk")
    if disk.kind.startswith("nfs") or disk.kind in ("cifs", "smb3", "9p"):
        detail = f"{disk.path} is on {disk.kind}, whose locks do not keep a database safe"
        yield Finding("disk kind", Level.FAIL, detail, "put data-dir on a local disk")
    if "noexec" in disk.options:
        detail = f"{disk.path} is mounted noexec: the program cannot run from there"
        yield Finding("disk options", Level.FAIL, detail, "mount it without noexec, or move data-dir")
    if "nodev" in disk.options:
        detail = f"{disk.path} is mounted nodev: Pods would have no devices"
        yield Finding("disk options", Level.FAIL, detail, "mount it without nodev, or move data-dir")
    if facts.data_dir_mode is not None and (facts.data_dir_mode & 0o022 or facts.data_dir_owner != 0):
        detail = f"{options.data_dir} can be written by others than root"
        yield Finding(
            "data directory", Level.FAIL, detail, f"chown root {options.data_dir}; chmod 755 {options.data_dir}"
        )


def check_volumes(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """What claims on this file system can do."""
    disk = facts.disk
    if disk.shares_blocks:
        detail = f"files on {disk.path} ({disk.kind}) share blocks: a clone of a disk takes neither time nor room"
        yield Finding("clones", Level.OK, detail)
    elif disk.shares_blocks is None:
        detail = f"whether files on {disk.path} ({disk.kind}) share blocks could not be tried: root may, with room"
        yield Finding("clones", Level.INFO, detail)
    else:
        detail = f"files on {disk.path} ({disk.kind}) share no blocks, as on XFS and Btrfs: a clone of a disk is a copy"
        yield Finding("clones", Level.INFO, detail)
    counts = f", although {disk.path} counts projects" if disk.options & _PROJECT_QUOTA else ""
    detail = f"the disk of a claim is kept to its size; other files in a claim are not: kvedge sets no quota{counts}"
    yield Finding("volume sizes", Level.INFO, detail)
    yield _check_thin_pools(facts, options.thin_pools)


def _check_thin_pools(facts: HostFacts, pools: tuple[str, ...]) -> Finding:
    lacking = [text for command, text in _LVM_PROGRAMS.items() if command not in facts.commands]
    what, level = f"volumes in {', '.join(pools)}", Level.FAIL
    if not pools:
        where = "thin pools of LVM (volume-places: NAME=lvm-thin:GROUP/POOL)"
        what, level = (
            f"volumes can lie in {where}, where clones of disks and snapshots of VMs are no copies",
            Level.INFO,
        )
    if "dm_mod" not in facts.modules or "dm_thin_pool" not in facts.modules:
        module = "thin pools (dm_thin_pool)" if "dm_mod" in facts.modules else "device-mapper"
        remedy = "boot a kernel of the distribution's with dm_thin_pool" if pools else ""
        return Finding("LVM", level, f"{what}; this kernel has no {module}", remedy)
    if lacking:
        remedy = f"apt-get install {' '.join(lacking)}" if pools else ""
        return Finding("LVM", level, f"{what}; not installed: {', '.join(lacking)}", remedy)
    return Finding("LVM", Level.OK if pools else Level.INFO, what)


def check_memory(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The memory that guests may have."""
    text = f"{facts.memory_available / _GIB:.1f} of {facts.memory_total / _GIB:.1f} GiB available"
    if facts.memory_available < _MEMORY_LOW:
        yield Finding("memory", Level.WARN, text, "stop something: a small VM and kvedge take 512 MiB")
    else:
        yield Finding("memory", Level.OK, text)


def check_limits(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The kernel's limits of files and processes."""
    low = {name: value for name, value in facts.limits.items() if value < _LIMITS[name]}
    for name, value in low.items():
        key = name.replace("/", ".")
        yield Finding(key, Level.WARN, f"{value} is low", f"sysctl -w {key}={_LIMITS[name]}")
    if not low:
        yield Finding("limits", Level.OK, "inotify, files and processes suffice")
