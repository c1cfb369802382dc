"""What the launcher does next about disks that move to other claims, and what it says of them.

Called by `disk_mover` at each look and each order. Pure. The rule: the guest's CPUs run only while the VMI's claims and
the disks that QEMU writes are the same, or the copies carry their word that they are no disks. So a guest whose QEMU
ends at any moment, or whose node loses power, finds on the claims that its VMI names all that it was told is written.

- While it is copied the VMI names the old claims, and the copies are no disks.
- It is settled: the CPUs stand, and both disks are alike and on storage. Whichever the VMI names is right, and both
  are disks. In this moment, and in no other, the handler writes the new claims into the VMI.
- It is finished: QEMU exchanges the disks, and then the guest goes on. Or it retreats, as nobody finishes it: first the
  copies are no disks again, then the guest goes on with the old ones.
- A device has no room for the word that it is no disk. Once the VMI may name one, the guest goes on with the old disk
  only after its handler has said that the VMI names the old claims, and until then it stands.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

# How long a settled guest waits for the word that its VMI has changed.
LEASE_SECONDS: Final = 20.0


class Stage(Enum):
    """How far a move is; it is on record and outlasts a launcher."""

    NONE = ""
    COPYING = "copying"
    # The guest's CPUs are about to be stopped, or stand.
    SETTLING = "settling"
    SETTLED = "settled"
    EXCHANGING = "exchanging"
    # A disk did not move to a device: the CPUs stand until the VMI is known to name the old claims.
    STANDING = "standing"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self in _OPEN

    @property
    def holds(self) -> bool:
        """Whether the guest's CPUs may stand because of it."""
        return self in _HOLDING


_HOLDING: Final = frozenset({Stage.SETTLING, Stage.SETTLED, Stage.EXCHANGING, Stage.STANDING})
_OPEN: Final = _HOLDING | {Stage.COPYING}


class DiskState(Enum):
    """What QEMU has of one disk."""

    COPYING = "the copy is incomplete"
    FOLLOWING = "the copy follows what the guest writes"
    EXCHANGED = "the guest has the copy"
    LOST = "there is no copy"


class Step(Enum):
    """What is done at a look."""

    NOTHING = "nothing"
    FAIL = "give up what is left of the copies"
    RETREAT = "take back that the copies are disks, and let the guest go on"
    STAND = "have the guest stand until its VMI is known to name the old claims"
    EXCHANGE = "have QEMU exchange the disks, and let the guest go on"


class MoveSeen(NamedTuple):
    """`lease` is what a settled guest still waits, in seconds; `to_device` says that a copy is on a device, which
    cannot say that it is no disk any more; `stands` that the guest's CPUs do.
    """

    stage: Stage
    disks: tuple[DiskState, ...]
    lease: float = 0.0
    to_device: bool = False
    stands: bool = True


def plan_look(seen: MoveSeen) -> Step:
    """The next step that nobody has to ask for, while no order is at work."""
    if not seen.stage.is_open or seen.stage is Stage.STANDING:
        return Step.NOTHING
    if seen.stage is Stage.EXCHANGING:
        # A launcher was killed in the middle of it: the VMI names the new claims.
        return Step.EXCHANGE
    if seen.stage is Stage.COPYING:
        return Step.FAIL if DiskState.LOST in seen.disks else Step.NOTHING
    waits = seen.stage is Stage.SETTLED and (seen.lease > 0 or seen.to_device)
    if waits and is_settled(seen.disks, stands=seen.stands):
        return Step.NOTHING
    return choose_retreat(seen.stage, to_device=seen.to_device)


def choose_retreat(stage: Stage, *, to_device: bool) -> Step:
    """How a move is taken back that is not what it was: the VMI may name the new claims of one that was settled."""
    return Step.STAND if to_device and stage is Stage.SETTLED else Step.RETREAT


def is_settled(disks: tuple[DiskState, ...], *, stands: bool) -> bool:
    """Whether what was settled still is: nothing may have been written since."""
    return stands and can_settle(disks)


def can_settle(disks: tuple[DiskState, ...]) -> bool:
    """Whether all copies follow."""
    return bool(disks) and all(state is DiskState.FOLLOWING for state in disks)
