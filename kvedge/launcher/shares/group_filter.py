"""A filter of system calls that has setgroups(2) succeed without doing anything.

Made for `share_server`, before it becomes the virtiofsd of QEMU before 8.0. That one gives up where it cannot leave its
supplementary groups, which no user namespace of somebody without privileges allows. Those that a Pod has are the
guest's own, as its user is.
"""

import os

from kvedge.runtime.linux.privileges import (
    ALLOW,
    ARCHITECTURE_AT,
    ARCHITECTURES,
    ERROR,
    IF_EQUAL,
    LOAD,
    NUMBER_AT,
    RETURN,
    instruction,
)

# The number of setgroups, by machine.
_SETGROUPS = {"x86_64": 116, "aarch64": 159}


def filter_code(machine: str = "") -> bytes:
    """The filter as instructions of the kernel's packet filter, 8 bytes each; for this machine, or another one.

    Raises:
        KeyError: for a machine that kvedge does not run on.
    """
    machine = machine or os.uname().machine
    instructions = (
        instruction(LOAD, ARCHITECTURE_AT),
        instruction(IF_EQUAL, ARCHITECTURES[machine], 0, 3),
        instruction(LOAD, NUMBER_AT),
        instruction(IF_EQUAL, _SETGROUPS[machine], 0, 1),
        # An error of none.
        instruction(RETURN, ERROR),
        instruction(RETURN, ALLOW),
    )
    return b"".join(instructions)
