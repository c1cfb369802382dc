"""Programs of the kernel that decide which devices a cgroup of version 2 may open.

Called by the handler, which has to know of them before it gives a launcher another device. Only asks.
"""

from __future__ import annotations

import ctypes
import errno
import platform
from typing import Final

from kvedge.runtime.linux.calls import checked, libc

_SYS_BPF: Final = {"x86_64": 321, "aarch64": 280}
_BPF_PROG_QUERY: Final = 16
_BPF_CGROUP_DEVICE: Final = 6
_QUERY_EFFECTIVE: Final = 1


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


def device_programs(cgroup: int) -> int:
    """How many programs decide on the devices of a cgroup, by its open directory; those of its parents count.

    Raises:
        OSError: when the kernel refuses; a kernel without such programs has none.
    """
    query = _Query(target_fd=cgroup, attach_type=_BPF_CGROUP_DEVICE, query_flags=_QUERY_EFFECTIVE)
    try:
        call = _SYS_BPF[platform.machine()]
        checked(libc.syscall(call, _BPF_PROG_QUERY, ctypes.byref(query), ctypes.sizeof(query)), "query a cgroup")
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EINVAL):
            return 0
        raise
    return int(query.prog_count)
