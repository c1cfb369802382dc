"""System calls that Python 3.11 does not have: mounts by descriptor, and entering mount namespaces.

Called by the handler, which hands images' trees to launchers, and by the container starter of one box. Nothing here
resolves a path: what a descriptor stands for cannot be exchanged under it. Standard library only. The numbers are the
same on amd64 and arm64.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

CLONE_FS: Final = 0x00000200
CLONE_NEWNS: Final = 0x00020000

MS_PRIVATE: Final = 0x40000
MS_SLAVE: Final = 0x80000

MOUNT_ATTR_RDONLY: Final = 0x1
MOUNT_ATTR_NOSUID: Final = 0x2
MOUNT_ATTR_NODEV: Final = 0x4
MOUNT_ATTR_NOEXEC: Final = 0x8

_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 0x1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 0x4
_MOVE_MOUNT_T_EMPTY_PATH: Final = 0x40

_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
_SYS_MOUNT_SETATTR: Final = 442

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def checked(result: int, what: str) -> int:
    """The result of a call of the C library.

    Raises:
        OSError: with errno and `what` when it is negative.
    """
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def unshare(flags: int) -> None:
    """unshare(2)."""
    checked(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """setns(2)."""
    checked(_libc.setns(descriptor, kind), "setns")


def copy_mount(opened: int, *, recursive: bool = True) -> int:
    """A descriptor of a detached copy of what a descriptor stands for, with all that is mounted below it or without.

    What it stands for must be in the caller's mount namespace.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return checked(_libc.syscall(_SYS_OPEN_TREE, opened, b"", flags), "copy a mount")


def set_mount_attributes(mounted: int, attributes: int, propagation: int = 0, *, recursive: bool = True) -> None:
    """Set attributes and, when not 0, propagation of the mount behind a descriptor."""
    wanted = _MountAttributes(attributes, 0, propagation, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, mounted, b"", flags, ctypes.byref(wanted), ctypes.sizeof(_MountAttributes)
    )
    checked(result, "set mount attributes")


def attach_mount(mounted: int, target: int) -> None:
    """Put a detached mount onto what the descriptor `target` stands for."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    checked(_libc.syscall(_SYS_MOVE_MOUNT, mounted, b"", target, b"", flags), "attach mount")
