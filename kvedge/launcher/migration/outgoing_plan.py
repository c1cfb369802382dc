"""What the launcher that a guest leaves says of it, and what it has to do next.

Called by `outgoing_guest` after each look at the domain. Pure. The rule: a QEMU that lives here, and that no migration
of this launcher holds, is the guest, and runs. The other side lets its copy run only when this QEMU is gone, so going
on here is always safe, and nobody has to be asked.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Outgoing(Enum):
    """What a launcher says of a guest that was to leave."""

    NONE = "no migration was asked for"
    ACTIVE = "it is not known yet where the guest will be"
    RESUMING = "the migration came to nothing, and the guest is to go on here"
    KEPT = "the migration came to nothing, and the guest is here"
    GONE = "the guest has left"


class OutgoingQemu(Enum):
    """The guest's QEMU on this side."""

    RUNS = "runs"
    HELD = "stopped by the migration"
    GONE = "there is none, and nothing says that the guest has ended"
    ENDED = "the guest has shut down, was ended by request, or has crashed"


class OutgoingStep(Enum):
    """What the launcher does next."""

    NOTHING = "nothing"
    KEEP = "write down that the guest stays"
    RESUME = "let the guest go on"


class OutgoingSeen(NamedTuple):
    """`asked` and `kept` are on record and outlast a launcher; `moving` says that libvirt works on it in this one,
    `cancelled` that libvirt has let the guest go on.
    """

    asked: bool
    kept: bool
    moving: bool
    qemu: OutgoingQemu
    cancelled: bool = False


def judge_outgoing(seen: OutgoingSeen) -> Outgoing:
    """The word about the guest."""
    if not seen.asked:
        return Outgoing.NONE
    if seen.kept:
        # Whatever becomes of it now, it did not leave: an end is an end.
        return Outgoing.RESUMING if seen.qemu is OutgoingQemu.HELD and not seen.moving else Outgoing.KEPT
    # That it stays is only said once it is written.
    return Outgoing.GONE if seen.qemu is OutgoingQemu.GONE else Outgoing.ACTIVE


def plan_outgoing(seen: OutgoingSeen) -> OutgoingStep:
    """The next step; after it the domain is looked at again.

    That the guest stays is written before it goes on. Were it written after, a launcher that is killed in between, with
    a QEMU that ends at once, would leave a guest that seems to have left, and the copy of an earlier moment would run.
    """
    if not seen.asked or seen.qemu is OutgoingQemu.GONE:
        return OutgoingStep.NOTHING
    if not seen.kept and (not seen.moving or seen.cancelled or seen.qemu is OutgoingQemu.ENDED):
        return OutgoingStep.KEEP
    if seen.qemu is OutgoingQemu.HELD and not seen.moving:
        return OutgoingStep.RESUME
    return OutgoingStep.NOTHING
