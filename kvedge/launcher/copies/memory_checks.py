"""Whether a guest's memory can be saved now, and whether it was of one moment with its disks.

Called by `disk_copies`. Looks at facts, and at the room where the memory goes.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.launcher.copies.guest_hold import GUEST_ENDED
from kvedge.launcher.launcher_errors import DiskFull, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why

_BROKEN_DISK: Final = "the guest stands with an I/O error on a disk, and would when it is resumed"


def check_guest(facts: DomainFacts | None, *, is_frozen: bool) -> DomainFacts:
    """The guest that can be saved: it would be resumed as it is now.

    Raises:
        WrongState: when it cannot.
    """
    if facts is None or not facts.is_active:
        raise WrongState(GUEST_ENDED)
    if is_frozen:
        raise WrongState("the guest's file systems are frozen, and would be when it is resumed: thaw them first")
    if facts.life is Life.PAUSED and facts.why is Why.IO_ERROR:
        raise WrongState(_BROKEN_DISK)
    return facts


def check_room(path: str, facts: DomainFacts) -> None:
    """See before the guest stands that all of its memory fits. Raises DiskFull."""
    space = os.statvfs(path)
    free, wanted = space.f_bavail * space.f_frsize, facts.memory.boot + facts.memory.plugged
    if free < wanted:
        raise DiskFull("the guest's memory", f"it may take {wanted} bytes, and {free} are free on its claim")


def check_stands(facts: DomainFacts | None) -> None:
    """Disks and memory are of one moment only if the guest still stands after both. Raises WrongState."""
    if facts is None or facts.life is not Life.PAUSED:
        raise WrongState("the guest ran on while its memory was saved")
    if facts.why is Why.IO_ERROR:
        raise WrongState(_BROKEN_DISK)
