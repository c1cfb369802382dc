"""Refuses system calls that no container has a use for: what seccomp's RuntimeDefault stands for on one box.

Called by the container starter's child while it still has its capabilities. It is a list of what is refused (with
EPERM), the ones that containerd's default profile keeps for privileged containers: mounts, namespaces, kernel
modules, keys, tracing of other memory, clocks, io_uring. Standard library only.
"""

from __future__ import annotations

import errno
import platform

from kvedge.runtime.linux.privileges import (
    ALLOW,
    ARCHITECTURE_AT,
    ARCHITECTURES,
    ERROR,
    IF_EQUAL,
    LOAD,
    NUMBER_AT,
    RETURN,
    filter_calls,
    instruction,
)

# Names for the reader; numbers on amd64 and on arm64, None where there is no such call.
_REFUSED: tuple[tuple[str, int, int | None], ...] = (
    ("_sysctl", 156, None),
    ("acct", 163, 89),
    ("add_key", 248, 217),
    ("bpf", 321, 280),
    ("clock_settime", 227, 112),
    ("create_module", 174, None),
    ("delete_module", 176, 106),
    ("fanotify_init", 300, 262),
    ("finit_module", 313, 273),
    ("fsconfig", 431, 431),
    ("fsmount", 432, 432),
    ("fsopen", 430, 430),
    ("fspick", 433, 433),
    ("init_module", 175, 105),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("io_uring_setup", 425, 425),
    ("ioperm", 173, None),
    ("iopl", 172, None),
    ("kcmp", 312, 272),
    ("kexec_file_load", 320, 294),
    ("kexec_load", 246, 104),
    ("keyctl", 250, 219),
    ("lookup_dcookie", 212, 18),
    ("mount", 165, 40),
    ("mount_setattr", 442, 442),
    ("move_mount", 429, 429),
    ("nfsservctl", 180, 42),
    ("open_by_handle_at", 304, 265),
    ("open_tree", 428, 428),
    ("perf_event_open", 298, 241),
    ("pidfd_getfd", 438, 438),
    ("pivot_root", 155, 41),
    ("process_madvise", 440, 440),
    ("process_vm_readv", 310, 270),
    ("process_vm_writev", 311, 271),
    ("query_module", 178, None),
    ("quotactl", 179, 60),
    ("quotactl_fd", 443, 443),
    ("reboot", 169, 142),
    ("request_key", 249, 218),
    ("setdomainname", 171, 162),
    ("sethostname", 170, 161),
    ("setns", 308, 268),
    ("settimeofday", 164, 170),
    ("swapoff", 168, 225),
    ("swapon", 167, 224),
    ("sysfs", 139, None),
    ("syslog", 103, 116),
    ("umount2", 166, 39),
    ("unshare", 272, 97),
    ("uselib", 134, None),
    ("userfaultfd", 323, 282),
    ("vhangup", 153, 58),
)
# By machine: the column, and the numbers of clone and clone3.
_MACHINES = {"x86_64": (0, 56, 435), "aarch64": (1, 220, 435)}
# Calls of the x32 ABI have this bit; no distribution uses it, and its numbers would go around the list.
_X32_BIT = 0x40000000
# Any new namespace: CLONE_NEWTIME's bit is one of clone's signal bits and means nothing there.
_NEW_NAMESPACES = 0x7E020000

_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_SET = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_KILL = 0x80000000
# Offset in struct seccomp_data.
_FIRST_ARGUMENT_AT = 16


def refuse_unusual_calls() -> None:
    """Install the filter for this process and all that it starts.

    Raises:
        OSError: when the kernel does not take it.
    """
    filter_calls(filter_code(platform.machine()))


def filter_code(machine: str) -> bytes:
    """The filter as instructions of the kernel's packet filter, 8 bytes each.

    Raises:
        KeyError: for a machine that kvedge does not run on.
    """
    column, clone, clone3 = _MACHINES[machine]
    numbers = [entry[1 + column] for entry in _REFUSED]
    refused = [number for number in numbers if isinstance(number, int)]
    checks: list[bytes] = [
        instruction(LOAD, ARCHITECTURE_AT),
        instruction(IF_EQUAL, ARCHITECTURES[machine], 1, 0),
        instruction(RETURN, _KILL),
        instruction(LOAD, NUMBER_AT),
    ]
    if machine == "x86_64":
        checks += [instruction(_IF_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.EPERM)]
    for number in refused:
        checks += [instruction(IF_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    # Its flags are in memory, where a filter cannot look: programs then fall back to clone.
    checks += [instruction(IF_EQUAL, clone3, 0, 1), _refuse(errno.ENOSYS)]
    checks += [
        instruction(IF_EQUAL, clone, 0, 3),
        instruction(LOAD, _FIRST_ARGUMENT_AT),
        instruction(_IF_SET, _NEW_NAMESPACES, 0, 1),
        _refuse(errno.EPERM),
        instruction(RETURN, ALLOW),
    ]
    return b"".join(checks)


def _refuse(code: int) -> bytes:
    return instruction(RETURN, ERROR | code)
