# Tests: kvedge/handler/migration/source_plan.py, kvedge/handler/migration/target_plan.py
# Tests: kvedge/handler/migration/outcome_plan.py
"""A model of one migration over the VMI: handlers that hear late, write in vain, start anew, and whole Pods that go.

As `test_one_guest`, whose launchers and libvirt these are; here the handlers' own plans decide, each from the VMI as it
last heard of it. What is written against another version than the server has is refused. The controller writes a
cancel, the proof that the source's Pod runs nothing, and the end of a migration that had not begun. The guest has a
disk that moves along, and a TPM whose state comes to another claim: its VMI names both before the guest runs on them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from kvedge.handler.migration.source_plan import SourceSeen, SourceStep, plan_source
from kvedge.handler.migration.target_plan import TargetSeen, TargetStep, plan_target
from kvedge.launcher.migration.incoming_plan import Incoming, IncomingQemu, judge_incoming
from kvedge.launcher.migration.outgoing_plan import Outgoing, OutgoingQemu, judge_outgoing
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import IncomingState, OutgoingState
from tests.support.migration_world import ADDRESS, HERE, THERE, copying_vmi, exchanged_vmi
from tests.unit.handler.migration import test_one_guest as launchers
from tests.unit.handler.migration.test_one_guest import World, give_up

# Kills, cuts, restarts and cancels together.
MOST_FAULTS = 2
AT = "2026-05-01T00:00:00Z"
# What a launcher does in that model by itself, and here when its handler asks for it.
ASKED_FOR = ("the target prepares",)
CANCELLED = "cancelled"


class Written(NamedTuple):
    """The VMI: all that is ever written is added, so that two that are alike are one version."""

    address: bool = False
    begun: bool = False
    aborted: bool = False
    left: bool = False
    off: bool = False
    failed: bool = False
    exchanged: bool = False
    taken: bool = False
    owned: bool = False
    ended: bool = False

    @property
    def is_open(self) -> bool:
        return not (self.failed or self.owned or self.ended)


class Scene(NamedTuple):
    """The launchers' world, the VMI, what each handler last heard of it, and Pods that are gone for good."""

    world: World = World()
    vmi: Written = Written()
    here: Written = Written()
    there: Written = Written()
    source_over: bool = False
    target_over: bool = False
    # Somebody has deleted the source's Pod by force: its kubelet tells nobody how it ended.
    by_force: bool = False

    def write(self, heard: Written, **changes: bool) -> Scene:
        """As a handler that has heard so writes: in vain, when the server has something else."""
        return self._replace(vmi=self.vmi._replace(**changes)) if heard == self.vmi else self

    def change(self, **changes: Any) -> Scene:
        """The launchers' world, with changes."""
        return self._replace(world=self.world._replace(**changes))


@cache
def vmi_of(written: Written) -> VirtualMachineInstance:
    """The VMI as a handler reads it."""
    flags = {
        "targetNodeAddress": ADDRESS if written.address else "",
        "startTimestamp": AT if written.begun else None,
        "abortRequested": written.aborted,
        "sourceNodeDomainGoneTimestamp": AT if written.left else None,
        "sourcePodGoneTimestamp": AT if written.off else None,
        "failed": written.failed,
        "completed": written.failed or written.owned,
        "targetNodeDomainDetected": True,
        "sourcePersistentStatePVCName": "state",
        "targetPersistentStatePVCName": "other-state",
        "targetTakenTimestamp": AT if written.taken else None,
    }
    status = {"phase": "Failed" if written.ended else "Running"}
    make = exchanged_vmi if written.exchanged else copying_vmi
    return make(node=THERE if written.owned else HERE, status=status, **flags)


@cache
def source_steps(written: Written, seen: SourceSeen) -> tuple[SourceStep, ...]:
    return plan_source(vmi_of(written), HERE, seen).steps


@cache
def target_steps(written: Written, seen: TargetSeen) -> tuple[TargetStep, ...]:
    return plan_target(vmi_of(written), THERE, seen).steps


def calm_steps(scene: Scene) -> Iterator[tuple[str, Scene]]:
    """What happens by itself when nothing fails any more."""
    for name, after in _all_calm(scene):
        if after != scene:
            yield name, after


def _all_calm(scene: Scene) -> Iterator[tuple[str, Scene]]:
    yield "the source's handler hears", scene._replace(here=scene.vmi)
    yield "the target's handler hears", scene._replace(there=scene.vmi)
    yield from launcher_steps(scene)
    yield from source_pass(scene)
    yield from target_pass(scene)
    yield from controller_steps(scene)


@cache
def moves_of(world: World) -> tuple[tuple[str, World], ...]:
    return (*launchers.launcher_steps(world), *launchers.libvirt_steps(world))


@cache
def faults_of(world: World) -> tuple[tuple[str, World], ...]:
    return tuple(launchers.fault_steps(world))


def launcher_steps(scene: Scene) -> Iterator[tuple[str, Scene]]:
    world = scene.world
    # A Pod that is over has nobody who starts again, speaks or obeys.
    for name, after in moves_of(world):
        is_sources = name.startswith(("the source", "an abort"))
        is_targets = name.startswith(("the target", "a release", "a discard"))
        if name == "memory flows" and scene.target_over:
            continue
        if name in ASKED_FOR or (is_sources and scene.source_over) or (is_targets and scene.target_over):
            continue
        yield name, scene._replace(world=after)
    lost_it = scene.target_over or (world.left is OutgoingQemu.HELD and world.come is IncomingQemu.NONE)
    if world.moving and not world.cancelled and lost_it:
        yield "libvirt finds nobody", scene._replace(world=give_up(world))
    if world.discarded and world.come is IncomingQemu.NONE and not scene.target_over:
        yield "the target's launcher goes", scene._replace(target_over=True)


def source_pass(scene: Scene) -> Iterator[tuple[str, Scene]]:
    world, heard = scene.world, scene.here
    if heard.owned:
        return
    word = world.said_left
    if scene.source_over and word not in (OutgoingState.OUTGOING_GONE, OutgoingState.OUTGOING_KEPT):
        word = None
    connected = word is not None and not scene.source_over
    gone = scene.source_over and word is None
    seen = SourceSeen(word, "", connected, gone, alive=connected and word != OutgoingState.OUTGOING_GONE)
    steps = source_steps(heard, seen)
    for step in steps:
        if step is SourceStep.BEGIN:
            yield "that it begins is written", scene.write(heard, begun=True)
        elif step is SourceStep.MOVE and world.source_up and not world.asked:
            yield "the launcher is asked", scene.change(asked=True, moving=True)
        elif step is SourceStep.ABORT and world.source_up and not world.abort:
            # One that brings nothing any more is left out: it may be repeated for ever.
            if not world.asked or (world.moving and not world.cancelled):
                yield "abort", scene.change(abort=True)
        elif step is SourceStep.RECORD_STAY:
            yield "that it stays is written", scene.write(heard, failed=True)
        elif step is SourceStep.RECORD_LEFT:
            yield "that it has left is written", scene.write(heard, left=True)
        elif step is SourceStep.ACKNOWLEDGE:
            yield "the source's launcher goes", scene.change(source_up=False)._replace(source_over=True)
    yield from run_ends(scene)


def run_ends(scene: Scene) -> Iterator[tuple[str, Scene]]:
    """The sync loop's part: a guest that ended on its node, or whose Pod is gone, has ended."""
    world, heard = scene.world, scene.here
    if heard.left or heard.ended:
        return
    if scene.source_over:
        if not (heard.begun and heard.is_open):
            yield "nothing of it runs", scene.write(heard, ended=True)
        return
    word = judge_outgoing(world.outgoing)
    has_ended = world.left in (OutgoingQemu.ENDED, OutgoingQemu.GONE) and word is not Outgoing.GONE
    # It has kept it by then, if it was ever asked.
    if world.source_up and has_ended and (not world.asked or world.kept):
        yield "the run ends", scene.write(heard, ended=True)


def target_pass(scene: Scene) -> Iterator[tuple[str, Scene]]:
    world, heard = scene.world, scene.there
    word = None if scene.target_over else world.said_come
    steps = target_steps(heard, TargetSeen(word, gone=scene.target_over, address=ADDRESS))
    now = judge_incoming(world.incoming)
    settled = now is Incoming.OWNED or world.discarded
    up = world.target_up and not scene.target_over
    for step in steps:
        if step is TargetStep.PREPARE and up and not world.prepared and not world.discarded:
            yield "the target prepares", scene.change(prepared=True)
        elif step is TargetStep.ANNOUNCE:
            yield "the address is written", scene.write(heard, address=True)
        elif step is TargetStep.EXCHANGE and up and now is Incoming.COMPLETE:
            yield "the claims are exchanged", scene.write(heard, exchanged=True, taken=True)
        elif step is TargetStep.TAKE and up and now is Incoming.COMPLETE:
            yield "that the state has come is written", scene.write(heard, taken=True)
        elif step is TargetStep.RELEASE and up and not settled and not world.release:
            yield "release", scene.change(release=True)
        elif step is TargetStep.DISCARD and up and not settled and not world.discard:
            yield "discard", scene.change(discard=True)
        elif step is TargetStep.GIVE_UP and up and not settled and not world.give_up:
            # By a word that may be as old as any.
            yield "discard, if nothing came", scene.change(give_up=True)
        elif step is TargetStep.ADOPT:
            yield "the guest is taken over", scene.write(heard, owned=True)
        elif step is TargetStep.RECORD_LOSS:
            yield "the loss is written", scene.write(heard, failed=True, ended=True)


def controller_steps(scene: Scene) -> Iterator[tuple[str, Scene]]:
    """Of a controller whose news are as old as may be: its writes are refused as all others are."""
    if not scene.vmi.is_open:
        return
    if scene.source_over and not scene.by_force and scene.vmi.begun and not scene.vmi.off:
        yield "the source's Pod is proven to be off", scene.write(scene.vmi, off=True)
    if scene.target_over and not scene.vmi.begun:
        yield "the target's Pod has ended", scene.write(scene.vmi, failed=True)


def fault_steps(scene: Scene) -> Iterator[tuple[str, Scene]]:
    world = scene.world
    if world.faults >= MOST_FAULTS:
        return
    hit = world._replace(faults=world.faults + 1)
    for name, after in faults_of(world):
        if name != CANCELLED and not (scene.source_over and name.startswith("source")):
            yield name, scene._replace(world=after)
    if scene.vmi.is_open and not scene.vmi.aborted:
        yield CANCELLED, scene._replace(world=hit, vmi=scene.vmi._replace(aborted=True))
    cut = give_up(hit) if world.moving and not world.cancelled else hit
    yield "the source's handler starts anew", scene._replace(world=cut._replace(said_left=None), here=scene.vmi)
    yield "the target's handler starts anew", scene._replace(world=cut._replace(said_come=None), there=scene.vmi)
    if not scene.source_over:
        had = world.left in (OutgoingQemu.RUNS, OutgoingQemu.HELD)
        end = OutgoingQemu.GONE if had else world.left
        gone = hit._replace(left=end, moving=False, cancelled=False, source_up=False, abort=False)
        killed = scene._replace(world=gone._replace(lost=world.lost or had), source_over=True)
        yield "the source's Pod is killed", killed
        yield "the source's Pod is killed by force", killed._replace(by_force=True)
    if not scene.target_over:
        had = world.come is not IncomingQemu.NONE
        gone = hit._replace(come=IncomingQemu.NONE, target_up=False, release=False, discard=False, give_up=False)
        yield (
            "the target's Pod is killed",
            scene._replace(world=gone._replace(lost=world.lost or had), target_over=True),
        )


@cache
def everything() -> dict[Scene, tuple[Scene, str] | None]:
    """All scenes that can be, each with the one before it and what happened."""
    return explore()[0]


@cache
def explore() -> tuple[dict[Scene, tuple[Scene, str] | None], dict[Scene, list[Scene]]]:
    """As :func:`everything`, and what each scene becomes by itself."""
    starts = [Scene()]
    found: dict[Scene, tuple[Scene, str] | None] = dict.fromkeys(starts)
    calm: dict[Scene, list[Scene]] = {}
    waiting = deque(starts)
    while waiting:
        scene = waiting.popleft()
        steps = list(calm_steps(scene))
        calm[scene] = [after for _, after in steps]
        for name, after in (*steps, *fault_steps(scene)):
            if after not in found:
                found[after] = (scene, name)
                waiting.append(after)
    return found, calm


def story(scene: Scene) -> str:
    """How it came to this, for a person who reads a failure."""
    told = [str(scene)]
    while (before := everything()[scene]) is not None:
        scene, name = before
        told.append(name)
    return " < ".join(told)


def runs(world: World) -> int:
    return launchers.runs(world)


def test_never_two_guests_run_whatever_the_handlers_have_heard() -> None:
    scenes = everything()
    assert len(scenes) > 20_000
    for scene in scenes:
        assert runs(scene.world) < 2, story(scene)


def test_a_guest_that_was_released_never_goes_back_in_time_by_a_late_word() -> None:
    for scene in everything():
        world = scene.world
        if world.begun and world.went_on:
            # The residue that the launchers' model knows.
            assert world.missed, story(scene)
            assert world.lost, story(scene)


def test_in_the_end_the_vmi_tells_where_its_guest_runs() -> None:
    ends = [scene for scene, after in explore()[1].items() if not after]
    assert {scene.vmi.owned for scene in ends if not scene.world.lost} == {True, False}
    for scene in ends:
        assert not scene.vmi.is_open, story(scene)
        if scene.world.lost or (scene.source_over and not scene.vmi.left):
            # Of a source that went without a word nobody knows how old what has come is.
            continue
        assert runs(scene.world) == 1, story(scene)
        assert not scene.vmi.ended, story(scene)
        assert scene.vmi.owned is (scene.world.come is IncomingQemu.RUNS), story(scene)


def test_a_guest_runs_on_copied_disks_only_once_its_vmi_names_them_and_its_own_are_not_written_any_more() -> None:
    for scene in everything():
        if scene.world.begun:
            assert scene.vmi.exchanged, story(scene)
        if scene.vmi.exchanged:
            assert scene.vmi.left, story(scene)
            assert scene.world.left not in (OutgoingQemu.RUNS, OutgoingQemu.HELD) or scene.world.missed, story(scene)


def test_a_guest_runs_with_its_tpm_only_once_its_vmi_says_so_and_the_source_s_is_not_written_any_more() -> None:
    for scene in everything():
        if scene.world.begun:
            # Whatever is lost from here on: a run that starts anew has all that the guest has sealed.
            assert scene.vmi.taken, story(scene)
        if scene.vmi.taken:
            assert scene.vmi.left, story(scene)
            assert scene.world.left not in (OutgoingQemu.RUNS, OutgoingQemu.HELD) or scene.world.missed, story(scene)
        # Of the two claims one is written at most, and it is the one that counts.
        writes_here = scene.world.left in (OutgoingQemu.RUNS, OutgoingQemu.HELD) and not scene.world.missed
        assert not (writes_here and scene.world.come is IncomingQemu.RUNS), story(scene)


def test_a_run_is_not_called_ended_while_its_guest_runs() -> None:
    for scene in everything():
        if scene.vmi.ended:
            assert runs(scene.world) == 0, story(scene)


def test_a_guest_is_taken_over_only_once_it_was_released_and_both_words_never_come() -> None:
    for scene in everything():
        if scene.vmi.owned:
            assert judge_incoming(scene.world.incoming) is Incoming.OWNED, story(scene)
        assert not (scene.vmi.failed and scene.vmi.left and not scene.vmi.ended), story(scene)


def test_words_of_a_launcher_are_words_of_the_protocol() -> None:
    words = {scene.world.said_come for scene in everything()} - {None}
    assert IncomingState.INCOMING_OWNED in words
    assert IncomingState.INCOMING_FAILED in words


def test_what_happens_by_itself_comes_to_an_end_there_too() -> None:
    # Each calm step adds a word, an order or an end, or brings a reader up to date: none of them leads back.
    calm = explore()[1]
    before = Counter(after for afters in calm.values() for after in set(afters))
    free = [scene for scene in calm if not before[scene]]
    reached = 0
    while free:
        reached += 1
        for after in set(calm[free.pop()]):
            before[after] -= 1
            if not before[after]:
                free.append(after)
    assert reached == len(calm), story(next(scene for scene, left in before.items() if left))
