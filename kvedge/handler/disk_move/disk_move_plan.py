"""What the handler does about disks that move to other claims in place.

Called by `disk_move_steps`. Pure. The VMI names the claims that its guest uses. They are exchanged there while the
launcher has settled the move, and only then: both disks are alike in that moment, and the guest's CPUs stand. What the
launcher is to do follows from what the VMI names, whoever was killed in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from kvedge.resources.disks.hotplug_places import is_block
from kvedge.resources.disks.moved_places import moved_place
from kvedge.resources.disks.moved_volumes import destinations, moves_in_place
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_COPYING,
    DISK_MOVE_FAILED,
    DISK_MOVE_READY,
    DISK_MOVE_SETTLED,
    DiskCopy,
    DiskMove,
)

# After a failure it is begun again in this time, and later each time.
FIRST_PAUSE_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 300.0
# How soon a move is looked after again that could not be brought on.
LOOK_SECONDS: Final = 1.0
_OPEN: Final = (DISK_MOVE_COPYING, DISK_MOVE_READY, DISK_MOVE_SETTLED)


class Goal(Enum):
    """What is done next."""

    NOTHING = "nothing"
    COPY = "have the launcher copy the disks"
    EXCHANGE = "have the move settled, exchange the claims in the VMI, and have the move finished"
    FINISH = "have the move finished: the VMI names the new claims"
    ABORT = "have the copies dropped: the VMI names the old claims, and nothing else is wanted"
    RETURN = "name the old claims in the VMI again, as QEMU did not exchange the disks"


class DiskMovePlan(Struct, frozen=True):
    """`move` is the launcher's id of it, `disks` are those to copy; `again` is when to look again, in seconds."""

    goal: Goal = Goal.NOTHING
    move: str = ""
    disks: tuple[DiskCopy, ...] = ()
    again: float | None = None


def plan_disk_move(
    vmi: VirtualMachineInstance, word: DiskMove | None, present: Collection[str], now_ms: int
) -> DiskMovePlan:
    """Decide it: `word` is what the launcher says of its last move, `present` are the claims that it was given."""
    named = {volume.name: claim_of(volume) or "" for volume in vmi.spec.volumes}
    wanted = _find_wanted(vmi)
    if word is not None and word.state in _OPEN:
        return _plan_open(named, wanted, word)
    if word is not None and word.state == DISK_MOVE_FAILED:
        stayed = [each.copy for each in word.disks if not each.moved]
        if any(named.get(copy.volume) == copy.claim for copy in stayed):
            return DiskMovePlan(Goal.RETURN, word.move_id, tuple(stayed), again=LOOK_SECONDS)
        if word.stands:
            return DiskMovePlan(Goal.ABORT, word.move_id, tuple(stayed), again=LOOK_SECONDS)
        still = {copy.place for copy in wanted.values()}
        if any(copy.place in present and copy.place not in still for copy in stayed):
            # Before the claim is taken back, which this pass may do.
            return DiskMovePlan(Goal.ABORT, word.move_id)
    is_going = vmi.metadata.deletion_timestamp is not None or vmi.is_final
    if not wanted or is_going:
        return DiskMovePlan()
    if any(copy.place not in present for copy in wanted.values()):
        # The pass that hands the last one over looks again.
        return DiskMovePlan()
    name, pause = _choose_name(vmi, wanted, word, now_ms)
    if pause > 0:
        return DiskMovePlan(again=pause)
    return DiskMovePlan(Goal.COPY, name, tuple(wanted.values()), again=LOOK_SECONDS)


def _find_wanted(vmi: VirtualMachineInstance) -> dict[str, DiskCopy]:
    """The disks that are to move, by volume."""
    if not moves_in_place(vmi):
        return {}
    named = {volume.name: claim_of(volume) or "" for volume in vmi.spec.volumes}
    return {
        name: DiskCopy(
            volume=name,
            source_claim=named[name],
            claim=info.claim_name,
            place=moved_place(name, info.claim_name),
            block=is_block(info.volume_mode),
        )
        for name, info in destinations(vmi).items()
    }


def _plan_open(named: Mapping[str, str], wanted: Mapping[str, DiskCopy], word: DiskMove) -> DiskMovePlan:
    copies = [each.copy for each in word.disks]
    if all(named.get(copy.volume) == copy.claim for copy in copies):
        return DiskMovePlan(Goal.FINISH, word.move_id, again=LOOK_SECONDS)
    if {copy.volume: copy.claim for copy in copies} != {name: copy.claim for name, copy in wanted.items()}:
        return DiskMovePlan(Goal.ABORT, word.move_id, tuple(copies), again=LOOK_SECONDS)
    if word.state == DISK_MOVE_COPYING:
        # The launcher tells of each step.
        return DiskMovePlan()
    return DiskMovePlan(Goal.EXCHANGE, word.move_id, tuple(copies), again=LOOK_SECONDS)


def _choose_name(
    vmi: VirtualMachineInstance, wanted: Mapping[str, DiskCopy], word: DiskMove | None, now_ms: int
) -> tuple[str, float]:
    """The launcher's id for the next attempt, and how many seconds it has to wait."""
    text = "\n".join(f"{copy.volume} {copy.claim}" for _, copy in sorted(wanted.items()))
    base = hashlib.sha256(f"{vmi.metadata.uid}\n{text}".encode()).hexdigest()[:12]
    known, _, count = ("", "", "") if word is None else word.move_id.partition("-")
    if word is None or known != base or not count.isdecimal():
        return f"{base}-1", 0.0
    tries = min(int(count), 1000)
    if word.state != DISK_MOVE_FAILED:
        # It went there before, and back by another way.
        return f"{base}-{tries + 1}", 0.0
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 10), LONGEST_PAUSE_SECONDS)
    passed = (now_ms - word.ended_unix_ms) / 1000
    # A clock that was put back must not have it wait for ever.
    return f"{base}-{tries + 1}", max(0.0, pause - passed) if passed >= 0 else 0.0
