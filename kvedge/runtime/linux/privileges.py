"""What a process may do, and to whom it belongs: capabilities, privileges, a filter of system calls, orphans.

Called by the container starter, by the probe of libvirt's capabilities and by what shares a directory with a guest,
each in a process of its own, and by a launcher's monitor.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from typing import Final

from kvedge.runtime.linux.calls import check, libc

_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
# setfsgid and setfsuid of one thread.
_SYS_SETFS: Final = {"x86_64": (123, 122), "aarch64": (152, 151)}
_CAPABILITY_VERSION_3: Final = 0x20080522

# What filters of calls are made of (linux/bpf_common.h, linux/seccomp.h); an error of 0 has the call succeed unmade.
LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K
ALLOW: Final = 0x7FFF0000
ERROR: Final = 0x00050000
# Offsets in struct seccomp_data.
NUMBER_AT: Final = 0
ARCHITECTURE_AT: Final = 4
# The kernel's names of architectures (linux/audit.h), by machine.
ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


class _CapabilityHeader(ctypes.Structure):
    """struct __user_cap_header_struct."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    """struct __user_cap_data_struct."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def drop_from_bounding_set(capability: int) -> None:
    """prctl(PR_CAPBSET_DROP)."""
    check(libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "drop a capability")


def set_capabilities(mask: int) -> None:
    """Make `mask` what this process has, and nothing what it hands on by inheritance."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (_CapabilityData * 2)(_CapabilityData(low, low, 0), _CapabilityData(high, high, 0))
    check(libc.capset(ctypes.byref(header), data), "set capabilities")
    check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities")


def set_no_new_privileges() -> None:
    """prctl(PR_SET_NO_NEW_PRIVS)."""
    check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")


def set_undumpable() -> None:
    """prctl(PR_SET_DUMPABLE, 0): nobody without privileges looks into this process, until it runs a program."""
    check(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "set undumpable")


def set_dumpable() -> None:
    """prctl(PR_SET_DUMPABLE, 1): whoever has this process' user may look into it, as into a program just started."""
    check(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "set dumpable")


def become_subreaper() -> None:
    """prctl(PR_SET_CHILD_SUBREAPER): orphans below this process become its children."""
    check(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "become a subreaper")


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One of the kernel's packet filter; a condition skips so many of those behind it."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def filter_calls(code: bytes) -> None:
    """Have a program of the kernel's packet filter, 8 bytes an instruction, judge this process' calls from now on."""
    program = _Program(len(code) // 8, code)
    check(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "set the seccomp filter")


def act_as(user: int, group: int) -> None:
    """setfsuid(2) and setfsgid(2): how the calling thread, and no other one, is judged by file systems from now on."""
    calls = _SYS_SETFS[platform.machine()]
    # Both return what was before, whether or not anything has changed: asked again with nobody, they tell what is now.
    for call, wanted in zip(calls, (group, user), strict=True):
        libc.syscall(call, wanted)
        if libc.syscall(call, -1) != wanted:
            raise PermissionError(errno.EPERM, f"cannot act as {user}:{group}")
