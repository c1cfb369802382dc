"""Mounts, by path and by descriptor.

Called by the handler, which hands images' trees to launchers, by the container starter of one box, for volumes in
memory, for named network namespaces, and by the probe of libvirt's capabilities. What a descriptor stands for cannot be
exchanged under it; a path is resolved by the kernel, and its caller owns all of it.
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

from kvedge.runtime.linux.calls import check, libc

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MS_SLAVE: Final = 0x80000
MS_SHARED: Final = 0x100000

MNT_DETACH: Final = 0x2
UMOUNT_NOFOLLOW: Final = 0x8

MOUNT_ATTR_RDONLY: Final = 0x1
MOUNT_ATTR_NOSUID: Final = 0x2
MOUNT_ATTR_NODEV: Final = 0x4
MOUNT_ATTR_NOEXEC: Final = 0x8

_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 0x1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 0x4
_MOVE_MOUNT_T_EMPTY_PATH: Final = 0x40

_SYS_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
_SYS_FSOPEN: Final = 430
_SYS_FSCONFIG: Final = 431
_SYS_FSMOUNT: Final = 432
_SYS_MOUNT_SETATTR: Final = 442
_FSOPEN_CLOEXEC: Final = 1
_FSCONFIG_CMD_CREATE: Final = 6
_FSMOUNT_CLOEXEC: Final = 1


class _MountAttributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mount(source: str, target: str | os.PathLike[str], kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    encoded = options.encode() if options else None
    result = libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), encoded)
    check(result, f"mount {kind or source} at {os.fspath(target)}")


def unmount(target: str | os.PathLike[str], flags: int = 0) -> None:
    """umount2(2)."""
    check(libc.umount2(os.fsencode(target), flags), f"unmount {os.fspath(target)}")


def change_root(directory: str) -> None:
    """Make a mount point the root of this mount namespace and let go of everything else."""
    os.chdir(directory)
    # Both the same: the old root ends up on top of the new one, from where it is taken off.
    check(libc.syscall(_SYS_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    unmount(".", MNT_DETACH)
    os.chdir("/")


def copy_mount(opened: int, *, recursive: bool = True) -> int:
    """A descriptor of a detached copy of what a descriptor stands for, with all that is mounted below it or without.

    What it stands for must be in the caller's mount namespace.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return check(libc.syscall(_SYS_OPEN_TREE, opened, b"", flags), "copy a mount")


def set_mount_attributes(
    mounted: int, attributes: int, propagation: int = 0, *, cleared: int = 0, recursive: bool = True
) -> None:
    """Set attributes and, when not 0, propagation of the mount behind a descriptor; `cleared` are taken from it."""
    wanted = _MountAttributes(attributes, cleared, propagation, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    result = libc.syscall(
        _SYS_MOUNT_SETATTR, mounted, b"", flags, ctypes.byref(wanted), ctypes.sizeof(_MountAttributes)
    )
    check(result, "set mount attributes")


def attach_mount(mounted: int, target: int) -> None:
    """Put a detached mount onto what the descriptor `target` stands for."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    check(libc.syscall(_SYS_MOVE_MOUNT, mounted, b"", target, b"", flags), "attach mount")


def make_mount(kind: str, attributes: int) -> int:
    """A descriptor of a mount of a new file system that is attached nowhere, and goes when it is closed.

    A file system that shows a namespace, as sysfs its links, shows that of the thread that calls.
    """
    made = check(libc.syscall(_SYS_FSOPEN, kind.encode(), _FSOPEN_CLOEXEC), f"open file system {kind}")
    try:
        check(libc.syscall(_SYS_FSCONFIG, made, _FSCONFIG_CMD_CREATE, None, None, 0), f"make file system {kind}")
        return check(libc.syscall(_SYS_FSMOUNT, made, _FSMOUNT_CLOEXEC, attributes), f"mount {kind}")
    finally:
        os.close(made)
