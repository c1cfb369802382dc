# Tests: kvedge/handler/migration/outcome_plan.py
# Tests: kvedge/launcher/migration/outgoing_plan.py, kvedge/launcher/migration/incoming_plan.py
"""A model of one migration: whatever is killed or lost, in any order, never two guests run, and in the end one does.

The launchers' and the arbiter's own functions decide; the model plays libvirt, QEMU and the wire as they were measured:
libvirt tells the target that all has come (Finish), ends the source's QEMU after the answer, and lets the source go on
when the answer is lost. A launcher that starts again in between finds its QEMU stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from kvedge.handler.migration.outcome_plan import OutcomeSeen, Ruling, rule
from kvedge.launcher.migration.incoming_plan import (
    Incoming,
    IncomingQemu,
    IncomingSeen,
    IncomingStep,
    judge_incoming,
    may_release,
    plan_incoming,
)
from kvedge.launcher.migration.outgoing_plan import (
    Outgoing,
    OutgoingQemu,
    OutgoingSeen,
    OutgoingStep,
    judge_outgoing,
    plan_outgoing,
)
from kvedge.rpc.launcher_pb2 import IncomingState, OutgoingState

# Kills and cancels together; more of them only repeat what fewer can do.
MOST_FAULTS = 3


class World(NamedTuple):
    """All that is. The words are what the arbiter last heard, which may be old."""

    faults: int = 0
    # The source: its QEMU, whether libvirt moves it, its record, and its launcher.
    left: OutgoingQemu = OutgoingQemu.RUNS
    asked: bool = False
    moving: bool = False
    cancelled: bool = False
    kept: bool = False
    source_up: bool = True
    said_left: OutgoingState | None = None
    # The guest went on at the source after all of it had been copied: the copy is old.
    went_on: bool = False
    # libvirt had let it go on, and the launcher was killed before it could write what it was about to.
    missed: bool = False
    # The target: its QEMU, its record, its launcher, and libvirt's daemon.
    come: IncomingQemu = IncomingQemu.NONE
    prepared: bool = False
    arrived: bool = False
    begun: bool = False
    discarded: bool = False
    target_up: bool = True
    said_come: IncomingState | None = None
    # Orders on their way.
    release: bool = False
    discard: bool = False
    # To end what waits, if nothing has come.
    give_up: bool = False
    abort: bool = False
    unwanted: bool = False
    # A QEMU was killed that held the only guest, or the better one of two.
    lost: bool = False

    @property
    def outgoing(self) -> OutgoingSeen:
        return OutgoingSeen(self.asked, self.kept, self.moving, self.left, self.cancelled)

    @property
    def incoming(self) -> IncomingSeen:
        return IncomingSeen(self.prepared, self.arrived, self.begun, self.discarded, self.come)


OUTGOING = {word: getattr(OutgoingState, f"OUTGOING_{word.name}") for word in Outgoing}
INCOMING = {word: getattr(IncomingState, f"INCOMING_{word.name}") for word in Incoming}


def calm_steps(world: World) -> Iterator[tuple[str, World]]:
    """What happens by itself when nothing fails any more."""
    yield from launcher_steps(world)
    yield from arbiter_steps(world)
    yield from libvirt_steps(world)


def libvirt_steps(world: World) -> Iterator[tuple[str, World]]:
    if not world.moving:
        # The daemon ends half a guest whose source has hung up.
        if world.come is IncomingQemu.ARRIVING:
            yield "half a guest is ended", world._replace(come=IncomingQemu.NONE)
        return
    if world.cancelled:
        yield "libvirt has given up", world._replace(moving=False, cancelled=False)
        return
    listens = world.prepared and not world.begun and not world.discarded
    if world.left is OutgoingQemu.RUNS and world.come is IncomingQemu.NONE and listens and not world.arrived:
        yield "memory flows", world._replace(come=IncomingQemu.ARRIVING)
    if world.left is OutgoingQemu.RUNS and world.come is IncomingQemu.ARRIVING:
        yield "the source stops", world._replace(left=OutgoingQemu.HELD)
    if world.left is OutgoingQemu.HELD and world.come is IncomingQemu.ARRIVING:
        yield "all has come", world._replace(come=IncomingQemu.WAITS)
    if world.left is OutgoingQemu.HELD and world.come is IncomingQemu.WAITS:
        yield "libvirt ends the source", world._replace(left=OutgoingQemu.GONE, moving=False)
    if world.left in (OutgoingQemu.GONE, OutgoingQemu.ENDED) or (
        world.come is IncomingQemu.NONE and (world.arrived or world.discarded)
    ):
        yield "libvirt gives up", give_up(world)


def give_up(world: World) -> World:
    """libvirt's own end of a migration that failed: a source that was stopped goes on."""
    stopped = world.left is OutgoingQemu.HELD
    return world._replace(
        cancelled=True,
        left=OutgoingQemu.RUNS if stopped else world.left,
        went_on=world.went_on or (stopped and world.come is IncomingQemu.WAITS),
    )


def launcher_steps(world: World) -> Iterator[tuple[str, World]]:
    if not world.source_up:
        yield "the source's launcher starts", world._replace(source_up=True)
    else:
        step = plan_outgoing(world.outgoing)
        if step is OutgoingStep.KEEP:
            yield "the source keeps", world._replace(kept=True)
        if step is OutgoingStep.RESUME:
            copied = world.come is IncomingQemu.WAITS
            yield "the source resumes", world._replace(left=OutgoingQemu.RUNS, went_on=world.went_on or copied)
        said = OUTGOING[judge_outgoing(world.outgoing)]
        if said != world.said_left:
            yield "the source speaks", world._replace(said_left=said)
        if world.abort and world.moving and not world.cancelled:
            yield "the source aborts", give_up(world)._replace(abort=False)
        elif world.abort and not world.asked:
            yield "the source never begins", world._replace(abort=False, asked=True, kept=True)
        elif world.abort:
            yield "an abort comes late", world._replace(abort=False)
    if not world.target_up:
        yield "the target's launcher starts", world._replace(target_up=True)
        return
    if not world.prepared:
        yield "the target prepares", world._replace(prepared=True)
    if world.come is not IncomingQemu.NONE and not world.arrived:
        yield "the target sees a guest", world._replace(arrived=True)
    coming = plan_incoming(world.incoming)
    if coming is IncomingStep.RESUME:
        yield "the target runs", world._replace(come=IncomingQemu.RUNS)
    if coming is IncomingStep.END:
        yield "the target ends its QEMU", world._replace(come=IncomingQemu.NONE)
    told = INCOMING[judge_incoming(world.incoming)]
    if told != world.said_come and (world.arrived or world.come is IncomingQemu.NONE):
        yield "the target speaks", world._replace(said_come=told)
    if world.release:
        yield "a release comes", answer(world._replace(begun=world.begun or may_release(world.incoming)))
    if world.discard:
        yield "a discard comes", answer(world._replace(discarded=world.discarded or not world.begun))
    if world.give_up:
        nothing = judge_incoming(world.incoming) in (Incoming.EMPTY, Incoming.READY)
        yield "a discard comes, for when nothing came", answer(world._replace(discarded=world.discarded or nothing))


def answer(world: World) -> World:
    """An order is answered with the target's word."""
    return world._replace(
        release=False, discard=False, give_up=False, said_come=INCOMING[judge_incoming(world.incoming)]
    )


def arbiter_steps(world: World) -> Iterator[tuple[str, World]]:
    if not world.asked and world.said_come == IncomingState.INCOMING_READY and world.source_up and not world.unwanted:
        yield "the migration begins", world._replace(asked=True, moving=True)
    ruling = rule(OutcomeSeen(world.said_left, world.said_come, unwanted=world.unwanted))
    settled = judge_incoming(world.incoming) in (Incoming.FAILED, Incoming.OWNED)
    if ruling is Ruling.RELEASE and not world.release and not settled:
        yield "release", world._replace(release=True)
    if ruling is Ruling.DISCARD and not world.discard and not settled:
        yield "discard", world._replace(discard=True)
    begins = not world.asked or (world.moving and not world.cancelled)
    if ruling is Ruling.ABORT and not world.abort and world.source_up and begins:
        yield "abort", world._replace(abort=True)


def fault_steps(world: World) -> Iterator[tuple[str, World]]:
    """Everything that can be killed, cut, lost, or cancelled."""
    if world.faults >= MOST_FAULTS:
        return
    hit = world._replace(faults=world.faults + 1)
    if world.source_up:
        # QEMU lives on, libvirt's job is gone with the process.
        missed = world.missed or (world.went_on and plan_outgoing(world.outgoing) is OutgoingStep.KEEP)
        yield (
            "source launcher killed",
            hit._replace(source_up=False, moving=False, abort=False, cancelled=False, missed=missed),
        )
    if world.target_up:
        yield "target launcher killed", hit._replace(target_up=False, release=False, discard=False, give_up=False)
    if world.moving and not world.cancelled:
        yield "wire cut", give_up(hit)
    if world.release:
        yield "release lost", hit._replace(release=False)
    if world.discard:
        yield "discard lost", hit._replace(discard=False)
    if not world.unwanted:
        yield "cancelled", hit._replace(unwanted=True)
    if world.left in (OutgoingQemu.RUNS, OutgoingQemu.HELD):
        # libvirt of a living launcher knows that QEMU died; a new launcher finds nothing.
        end = OutgoingQemu.ENDED if world.source_up else OutgoingQemu.GONE
        yield "source QEMU killed", hit._replace(left=end, lost=True)
    if world.come is not IncomingQemu.NONE:
        yield "target QEMU killed", hit._replace(come=IncomingQemu.NONE, lost=True)


@cache
def everything() -> dict[World, tuple[World, str] | None]:
    """All worlds that can be, each with the one before it and what happened."""
    start = World()
    found: dict[World, tuple[World, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        for steps in (calm_steps, fault_steps):
            for name, after in steps(world):
                if after not in found:
                    found[after] = (world, name)
                    waiting.append(after)
    return found


def story(world: World) -> str:
    """How it came to this, for a person who reads a failure."""
    told = [str(world)]
    while (before := everything()[world]) is not None:
        world, name = before
        told.append(name)
    return " < ".join(told)


def runs(world: World) -> int:
    return (world.left is OutgoingQemu.RUNS) + (world.come is IncomingQemu.RUNS)


def test_never_two_guests_run() -> None:
    worlds = everything()
    assert len(worlds) > 5_000
    for world in worlds:
        assert runs(world) < 2, story(world)


def test_a_guest_that_was_released_never_goes_back_in_time() -> None:
    for world in everything():
        if world.begun and world.went_on:
            # The one residue: libvirt lets the source go on, its launcher is killed before it has looked once, and QEMU
            # is killed before the next launcher has.
            assert world.missed, story(world)
            assert world.lost, story(world)


def test_in_the_end_one_guest_runs() -> None:
    ends = settle()
    assert {name for name, _ in ends} == {"here", "there"}
    for name, world in ends:
        assert runs(world) == 1, f"{name}: {story(world)}"


def settle() -> set[tuple[str, World]]:
    """The worlds in which nothing happens by itself any more, of those in which no QEMU was killed."""
    ends = set()
    for world in everything():
        if not world.lost and next(calm_steps(world), None) is None:
            ends.add(("here" if world.left is OutgoingQemu.RUNS else "there", world))
    return ends


def test_what_happens_by_itself_comes_to_an_end() -> None:
    # A circle of calm steps would be a migration that never ends: none of them leads back.
    done: set[World] = set()
    for begin in everything():
        path: list[tuple[World, Iterator[tuple[str, World]]]] = []
        if begin in done:
            continue
        path.append((begin, calm_steps(begin)))
        on_path = {begin}
        while path:
            world, steps = path[-1]
            after = next((after for _, after in steps if after not in done), None)
            if after is None:
                path.pop()
                on_path.discard(world)
                done.add(world)
                continue
            assert after not in on_path, f"a circle: {story(after)}"
            on_path.add(after)
            path.append((after, calm_steps(after)))


@pytest.mark.parametrize("word", ["KEPT", "GONE"])
def test_what_the_source_says_last_stays_true(word: str) -> None:
    said = OUTGOING[Outgoing[word]]
    for world in everything():
        if world.said_left == said and world.source_up:
            now = judge_outgoing(world.outgoing)
            assert now in ({Outgoing.KEPT, Outgoing.RESUMING} if word == "KEPT" else {Outgoing.GONE}), story(world)
