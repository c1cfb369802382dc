"""What the launcher that a guest comes to says of it, and whether the guest may run here.

Called by `incoming_guest` after each look and for each order. Pure. The rule: a guest that has come waits, paused,
until the launcher is told that the one before is off for good. That is written down before the guest runs; from then on
this launcher owns it like any other.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Incoming(Enum):
    """What a launcher says of a guest that is to come."""

    EMPTY = "nothing is prepared"
    READY = "libvirt waits for the guest"
    ARRIVING = "the guest is on its way"
    COMPLETE = "the guest is here, whole and paused"
    OWNED = "the guest is this launcher's"
    FAILED = "no guest comes here any more"


class IncomingQemu(Enum):
    """The guest's QEMU on this side, as the daemon has it."""

    NONE = "there is none"
    ARRIVING = "takes the guest's memory"
    WAITS = "has all of it, and is paused"
    RUNS = "runs"


class IncomingStep(Enum):
    """What the launcher does next by itself."""

    NOTHING = "nothing"
    RESUME = "let the guest run, as was decided"
    END = "end a QEMU that may not be here"


class IncomingSeen(NamedTuple):
    """All but `qemu` is on record and outlasts a launcher.

    `begun` says that the guest was released here, `arrived` that a guest was seen, `discarded` that none is wanted any
    more.
    """

    prepared: bool
    arrived: bool
    begun: bool
    discarded: bool
    qemu: IncomingQemu


def judge_incoming(seen: IncomingSeen) -> Incoming:
    """The word about the guest."""
    if seen.begun:
        return Incoming.OWNED
    if seen.discarded or seen.qemu is IncomingQemu.RUNS:
        return Incoming.FAILED
    if seen.qemu is IncomingQemu.WAITS:
        return Incoming.COMPLETE
    if seen.qemu is IncomingQemu.ARRIVING:
        return Incoming.ARRIVING
    if seen.arrived:
        # It was here, and libvirt has ended it: its disks are half of one guest.
        return Incoming.FAILED
    return Incoming.READY if seen.prepared else Incoming.EMPTY


def may_release(seen: IncomingSeen) -> bool:
    """Whether an order to let the guest run is followed; a repeated one finds it running."""
    return judge_incoming(seen) is Incoming.COMPLETE


def plan_incoming(seen: IncomingSeen) -> IncomingStep:
    """What a launcher does by itself, also a new one that finds what another has left."""
    if seen.begun:
        return IncomingStep.RESUME if seen.qemu is IncomingQemu.WAITS else IncomingStep.NOTHING
    # Nobody but this launcher may let it run. One that runs all the same is ended, as it may be a second one.
    unwanted = seen.discarded or seen.qemu is IncomingQemu.RUNS
    return IncomingStep.END if unwanted and seen.qemu is not IncomingQemu.NONE else IncomingStep.NOTHING
