"""A filter of system calls that has setgroups(2) succeed without doing anything.

Made for `share_server`, before it becomes the virtiofsd of QEMU before 8.0. That one gives up where it cannot leave its
supplementary groups, which no user namespace of somebody without privileges allows. Those that a Pod has are the
guest's own, as its user is.
"""

import os
import struct

# The kernel's name of the architecture (linux/audit.h), and the number of setgroups.
_MACHINES = {"x86_64": (0xC000003E, 116), "aarch64": (0xC00000B7, 159)}
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
# An error of none: the call is not made, and has succeeded.
_SUCCEED = 0x00050000
# Offsets in struct seccomp_data.
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4


def filter_code(machine: str = "") -> bytes:
    """The filter as instructions of the kernel's packet filter, 8 bytes each; for this machine, or another one.

    Raises:
        KeyError: for a machine that kvedge does not run on.
    """
    architecture, setgroups = _MACHINES[machine or os.uname().machine]
    instructions = (
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 0, 3, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_EQUAL, 0, 1, setgroups),
        (_RETURN, 0, 0, _SUCCEED),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)
