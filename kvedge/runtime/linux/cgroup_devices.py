"""Programs of the kernel that decide which devices a cgroup of version 2 may open.

Called by the handler, which gives a running launcher another device. A program is replaced in one step by one that has
rules of ours in front (see `device_program`); whatever the container's runtime attached goes on to decide the rest.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kvedge.runtime.linux.calls import check, libc
from kvedge.runtime.linux.device_program import Device, find_ruled_devices, is_plain, with_rules

_SYS_BPF: Final = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD: Final = 5
_PROG_ATTACH: Final = 8
_PROG_GET_FD_BY_ID: Final = 13
_OBJ_GET_INFO_BY_FD: Final = 15
_PROG_QUERY: Final = 16
_CGROUP_DEVICE: Final = 6
_PROG_TYPE_CGROUP_DEVICE: Final = 15
_QUERY_EFFECTIVE: Final = 1
_ALLOW_OVERRIDE: Final = 1
_ALLOW_MULTI: Final = 2
_REPLACE: Final = 4
# As many as the kernel lets one cgroup have.
_MOST_PROGRAMS: Final = 64
# A container with hundreds of devices takes a tenth of this.
_MOST_BYTES: Final = 8 * 16384
# It calls nothing of the kernel's that asks for another one.
_LICENSE: Final = b"Apache-2.0"


class _Query(ctypes.Structure):
    """The part of union bpf_attr for BPF_PROG_QUERY."""

    _fields_ = (
        ("target_fd", ctypes.c_uint32),
        ("attach_type", ctypes.c_uint32),
        ("query_flags", ctypes.c_uint32),
        ("attach_flags", ctypes.c_uint32),
        ("prog_ids", ctypes.c_uint64),
        ("prog_count", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class _Load(ctypes.Structure):
    """The part for BPF_PROG_LOAD."""

    _fields_ = (
        ("prog_type", ctypes.c_uint32),
        ("insn_cnt", ctypes.c_uint32),
        ("insns", ctypes.c_uint64),
        ("license", ctypes.c_uint64),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log_buf", ctypes.c_uint64),
    )


class _Attach(ctypes.Structure):
    """The part for BPF_PROG_ATTACH."""

    _fields_ = (
        ("target_fd", ctypes.c_uint32),
        ("attach_bpf_fd", ctypes.c_uint32),
        ("attach_type", ctypes.c_uint32),
        ("attach_flags", ctypes.c_uint32),
        ("replace_bpf_fd", ctypes.c_uint32),
    )


class _ById(ctypes.Structure):
    """The part for BPF_PROG_GET_FD_BY_ID."""

    _fields_ = (("prog_id", ctypes.c_uint32), ("next_id", ctypes.c_uint32), ("open_flags", ctypes.c_uint32))


class _Ask(ctypes.Structure):
    """The part for BPF_OBJ_GET_INFO_BY_FD."""

    _fields_ = (("bpf_fd", ctypes.c_uint32), ("info_len", ctypes.c_uint32), ("info", ctypes.c_uint64))


class _Info(ctypes.Structure):
    """The beginning of struct bpf_prog_info."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("tag", ctypes.c_uint8 * 8),
        ("jited_prog_len", ctypes.c_uint32),
        ("xlated_prog_len", ctypes.c_uint32),
        ("jited_prog_insns", ctypes.c_uint64),
        ("xlated_prog_insns", ctypes.c_uint64),
    )


class ForeignProgram(OSError):
    """A program that cannot be loaded again with a rule more, as it uses maps or calls, or hides what it does."""


def device_programs(cgroup: int) -> int:
    """How many programs decide on the devices of a cgroup, by its open directory; those of its parents count.

    Raises:
        OSError: when the kernel refuses; a kernel without such programs has none.
    """
    query = _Query(target_fd=cgroup, attach_type=_CGROUP_DEVICE, query_flags=_QUERY_EFFECTIVE)
    try:
        _bpf(_PROG_QUERY, query, "query a cgroup")
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EINVAL):
            return 0
        raise
    return int(query.prog_count)


def find_attached_programs(cgroup: int) -> tuple[list[int], int]:
    """The programs that are attached to this very cgroup, and how.

    Raises:
        OSError: when the kernel refuses.
    """
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    query = _Query(
        target_fd=cgroup, attach_type=_CGROUP_DEVICE, prog_ids=ctypes.addressof(ids), prog_count=_MOST_PROGRAMS
    )
    _bpf(_PROG_QUERY, query, "query a cgroup")
    return list(ids[: query.prog_count]), int(query.attach_flags)


def change_rules(cgroup: int, change: Callable[[frozenset[Device]], frozenset[Device]]) -> None:
    """Give every program that is attached to this cgroup these rules of ours; a program that has them stays.

    Raises:
        ForeignProgram: when one of them cannot be loaded again; none has been changed then.
        OSError: when the kernel refuses, or the runtime has replaced a program meanwhile.
    """
    programs, flags = find_attached_programs(cgroup)
    texts = {}
    for number in programs:
        with _hold_program(number) as held:
            texts[number] = _instructions(held)
    for number, text in texts.items():
        devices = change(find_ruled_devices(text))
        if devices != find_ruled_devices(text):
            with _hold_program(number) as old, load_program(with_rules(text, devices)) as new:
                attach_program(cgroup, new, flags & (_ALLOW_OVERRIDE | _ALLOW_MULTI), old)


@contextmanager
def load_program(instructions: bytes) -> Iterator[int]:
    """A program that decides on devices, which the kernel has checked; attached, it outlives the block.

    Raises:
        OSError: when the kernel refuses.
    """
    buffer, license_text = ctypes.create_string_buffer(instructions), ctypes.create_string_buffer(_LICENSE)
    load = _Load(
        prog_type=_PROG_TYPE_CGROUP_DEVICE,
        insn_cnt=len(instructions) // 8,
        insns=ctypes.addressof(buffer),
        license=ctypes.addressof(license_text),
    )
    opened = _bpf(_PROG_LOAD, load, "load a program of a cgroup")
    try:
        yield opened
    finally:
        os.close(opened)


def attach_program(cgroup: int, program: int, flags: int, instead_of: int | None = None) -> None:
    """Let a program decide on a cgroup's devices, instead of another one in one step.

    Raises:
        OSError: when the kernel refuses; ENOENT when the other one is not attached any more.
    """
    attach = _Attach(target_fd=cgroup, attach_bpf_fd=program, attach_type=_CGROUP_DEVICE, attach_flags=flags)
    if instead_of is not None and flags & _ALLOW_MULTI:
        attach.attach_flags, attach.replace_bpf_fd = flags | _REPLACE, instead_of
    # Of one that admits no others a cgroup has one, which the new one replaces by itself.
    _bpf(_PROG_ATTACH, attach, "attach a program to a cgroup")


@contextmanager
def _hold_program(number: int) -> Iterator[int]:
    opened = _bpf(_PROG_GET_FD_BY_ID, _ById(prog_id=number), "open a program of a cgroup")
    try:
        yield opened
    finally:
        os.close(opened)


def _instructions(program: int) -> bytes:
    info = _Info()
    _ask(program, info)
    if not 0 < info.xlated_prog_len <= _MOST_BYTES:
        raise ForeignProgram(errno.EPERM, "the kernel does not show the program")
    buffer = ctypes.create_string_buffer(info.xlated_prog_len)
    _ask(program, info := _Info(xlated_prog_len=len(buffer), xlated_prog_insns=ctypes.addressof(buffer)))
    text = buffer.raw[: info.xlated_prog_len]
    if not info.xlated_prog_insns or not is_plain(text):
        raise ForeignProgram(errno.EPERM, "the program uses maps or calls, or is hidden")
    return text


def _ask(program: int, info: _Info) -> None:
    ask = _Ask(bpf_fd=program, info_len=ctypes.sizeof(info), info=ctypes.addressof(info))
    _bpf(_OBJ_GET_INFO_BY_FD, ask, "read a program of a cgroup")


def _bpf(command: int, attributes: ctypes.Structure, what: str) -> int:
    if platform.machine() not in _SYS_BPF:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), what)
    number = _SYS_BPF[platform.machine()]
    return check(libc.syscall(number, command, ctypes.byref(attributes), ctypes.sizeof(attributes)), what)
