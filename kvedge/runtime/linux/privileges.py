"""System calls that Python 3.11 does not have: namespaces, mounts by path, capabilities.

Called by the container starter, in its own process. Standard library only. The numbers are the same on amd64 and arm64
unless a table says otherwise. Those that the handler needs too are in `storage.mount_calls`.
"""

from __future__ import annotations

import ctypes
import os
import platform

from kvedge.runtime.linux.mounts import checked as _checked

CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000

_MNT_DETACH = 0x2

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    """struct __user_cap_header_struct."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    """struct __user_cap_data_struct."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def set_host_name(name: str) -> None:
    """sethostname(2)."""
    raw = name.encode()
    _checked(_libc.sethostname(raw, len(raw)), "set the host name")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    encoded = options.encode() if options else None
    result = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), encoded)
    _checked(result, f"mount {kind or source} at {target}")


def change_root(directory: str) -> None:
    """Make a mount point the root of this mount namespace and let go of everything else."""
    os.chdir(directory)
    # Both the same: the old root ends up on top of the new one, from where it is taken off.
    _checked(_libc.syscall(_SYS_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", _MNT_DETACH), "umount the old root")
    os.chdir("/")


def drop_from_bounding_set(capability: int) -> None:
    """prctl(PR_CAPBSET_DROP)."""
    _checked(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "drop a capability")


def set_capabilities(mask: int) -> None:
    """Make `mask` what this process has, and nothing what it hands on by inheritance."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (_CapabilityData * 2)(_CapabilityData(low, low, 0), _CapabilityData(high, high, 0))
    _checked(_libc.capset(ctypes.byref(header), data), "set capabilities")
    _checked(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities")


def set_no_new_privileges() -> None:
    """prctl(PR_SET_NO_NEW_PRIVS)."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")


def set_undumpable() -> None:
    """prctl(PR_SET_DUMPABLE, 0): nobody without privileges looks into this process, until it runs a program."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "set undumpable")
