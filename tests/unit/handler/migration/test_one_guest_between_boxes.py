# Tests: kvedge/handler/migration/crossing_words.py
"""A model of one guest between two boxes: each has a VMI of its own, and words go over when they do, or never.

The handlers' plans decide, and their words and what they write of them are the real ones. The launchers are as simple
as may be: what libvirt and they do besides, `test_one_guest` tries. A box starts its guest anew where its VM may: the
source's once its VMI says that the migration failed, the target's once its VMI says that it has taken the guest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import msgspec

from kvedge.handler.migration.crossing_words import (
    heard_source_patch,
    heard_target_patch,
    words_of_source,
    words_of_target,
)
from kvedge.handler.migration.source_plan import SourceSeen, SourceStep, plan_source
from kvedge.handler.migration.target_plan import TargetSeen, TargetStep, plan_target
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import encode
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import patched, vmi_of
from tests.support.migration_world import HERE, THERE, moving_vmi

AT = "2026-05-01T00:00:00Z"
NOW = datetime(2026, 5, 1, tzinfo=UTC)
MOST_FAULTS = 2
_SAID = {
    "runs": pb.OUTGOING_NONE,
    "moves": pb.OUTGOING_ACTIVE,
    "gone": pb.OUTGOING_GONE,
    "kept": pb.OUTGOING_KEPT,
    "dead": None,
}
_COME = {"ready": pb.INCOMING_READY, "complete": pb.INCOMING_COMPLETE, "owned": pb.INCOMING_OWNED, "dead": None}


class Scene(NamedTuple):
    """What both VMIs say, as JSON, and what both launchers are."""

    here: bytes
    there: bytes
    source: str = "runs"
    target: str = "ready"
    faults: int = 0


@cache
def vmi_of_source(state: bytes) -> VirtualMachineInstance:
    return moving_vmi(**msgspec.json.decode(state))


@cache
def vmi_of_target(state: bytes) -> VirtualMachineInstance:
    found: dict[str, Any] = msgspec.json.decode(state)
    is_owned = bool(found.get("completed")) and not found.get("failed")
    return moving_vmi(node=THERE if is_owned else "", status={"phase": "WaitingForSync"}, **found)


def state_of(vmi: VirtualMachineInstance) -> MigrationState:
    assert vmi.status.migration_state is not None
    return vmi.status.migration_state


def written(vmi: VirtualMachineInstance, patch: MergePatch | None) -> bytes:
    """The state of a VMI after a patch of it."""
    after = vmi if patch is None else vmi_of(patched(encode(vmi), patch.body))
    return msgspec.json.encode(encode(state_of(after)), order="deterministic")


def add(vmi: VirtualMachineInstance, **changes: Any) -> bytes:
    return msgspec.json.encode({**encode(state_of(vmi)), **changes}, order="deterministic")


def first_scene() -> Scene:
    here = moving_vmi(targetNode="", targetState={"syncAddress": "192.0.2.9:9185"})
    there = moving_vmi(node="", sourceNode="", sourceState={})
    return Scene(written(here, None), written(there, None))


def steps(scene: Scene) -> Iterator[Scene]:
    """Whatever may happen next."""
    here, there = vmi_of_source(scene.here), vmi_of_target(scene.there)
    said = words_of_source(here, state_of(here))
    yield scene._replace(there=written(there, heard_source_patch(there, state_of(there), said, NOW)))
    answer = words_of_target(there, state_of(there), THERE)
    yield scene._replace(here=written(here, heard_target_patch(here, state_of(here), answer)))
    yield from source_steps(scene, here)
    yield from target_steps(scene, there)
    if scene.source == "moves":
        if scene.target == "ready":
            yield scene._replace(source="gone", target="complete")
            # All has come, and libvirt's last answer is lost: the guest goes on here.
            yield scene._replace(source="kept", target="complete")
        yield scene._replace(source="kept")
    if scene.target == "dead" and state_of(there).is_open:
        # The controller there, of a Pod that has ended.
        yield scene._replace(there=add(there, abortRequested=True))
    if scene.source == "dead" and state_of(here).is_open and state_of(here).start_timestamp is None:
        # The run is over like any other, and the controller closes what had not begun.
        yield scene._replace(here=add(here, failed=True, completed=True))
    if scene.faults >= MOST_FAULTS:
        return
    hit = scene._replace(faults=scene.faults + 1)
    if scene.source in ("runs", "moves"):
        yield hit._replace(source="dead")
    yield hit._replace(target="dead")
    if state_of(here).is_open:
        yield hit._replace(here=add(here, abortRequested=True))
    if state_of(there).is_open:
        yield hit._replace(there=add(there, abortRequested=True))


def source_steps(scene: Scene, here: VirtualMachineInstance) -> Iterator[Scene]:
    is_dead = scene.source == "dead"
    alive = scene.source in ("runs", "moves", "kept")
    seen = SourceSeen(_SAID[scene.source], connected=not is_dead, gone=is_dead, alive=alive)
    for step in plan_source(here, HERE, seen).steps:
        if step is SourceStep.BEGIN:
            yield scene._replace(here=add(here, startTimestamp=AT))
        elif step is SourceStep.MOVE:
            yield scene._replace(source="moves")
        elif step is SourceStep.ABORT:
            yield scene._replace(source="kept")
        elif step is SourceStep.RECORD_LEFT:
            yield scene._replace(here=add(here, sourceNodeDomainGoneTimestamp=AT))
        elif step is SourceStep.RECORD_STAY:
            yield scene._replace(here=add(here, failed=True, completed=True))
        elif step is SourceStep.RECORD_MOVED:
            yield scene._replace(here=add(here, completed=True))


def target_steps(scene: Scene, there: VirtualMachineInstance) -> Iterator[Scene]:
    seen = TargetSeen(_COME[scene.target], gone=scene.target == "dead", address="*:9185")
    for step in plan_target(there, THERE, seen).steps:
        if step is TargetStep.ANNOUNCE:
            yield scene._replace(there=add(there, targetNodeAddress="*:9185"))
        elif step is TargetStep.TAKE and scene.target == "complete":
            yield scene._replace(there=add(there, targetTakenTimestamp=AT))
        elif step is TargetStep.RELEASE and scene.target == "complete":
            yield scene._replace(target="owned")
        elif step is TargetStep.ADOPT:
            yield scene._replace(there=add(there, completed=True))
        elif step in (TargetStep.DISCARD, TargetStep.GIVE_UP) and scene.target != "owned":
            yield scene._replace(target="dead")
        elif step in (TargetStep.RECORD_LOSS, TargetStep.REFUSE):
            yield scene._replace(there=add(there, failed=True, completed=True))


@cache
def everything() -> dict[Scene, list[Scene]]:
    """All scenes that can be, each with those that follow it."""
    found: dict[Scene, list[Scene]] = {}
    waiting = deque([first_scene()])
    while waiting:
        scene = waiting.popleft()
        if scene in found:
            continue
        found[scene] = [after for after in steps(scene) if after != scene]
        waiting.extend(found[scene])
    return found


def runs_here(scene: Scene) -> bool:
    """Whether the guest runs on the source, or its VM may start it anew."""
    return scene.source in ("runs", "moves", "kept") or state_of(vmi_of_source(scene.here)).failed


def runs_there(scene: Scene) -> bool:
    """Likewise on the target."""
    return scene.target == "owned" or state_of(vmi_of_target(scene.there)).target_taken_timestamp is not None


def test_never_do_both_boxes_have_the_guest() -> None:
    scenes = everything()
    assert len(scenes) > 500
    assert any(runs_there(scene) for scene in scenes)
    for scene in scenes:
        assert not (runs_here(scene) and runs_there(scene)), scene


def test_a_target_lets_the_guest_run_only_once_that_is_written_down() -> None:
    for scene in everything():
        if scene.target == "owned":
            assert state_of(vmi_of_target(scene.there)).target_taken_timestamp, scene


def test_in_the_end_both_boxes_say_the_same() -> None:
    ends = [scene for scene, after in everything().items() if all(each.faults > scene.faults for each in after)]
    said = set()
    for scene in ends:
        here, there = state_of(vmi_of_source(scene.here)), state_of(vmi_of_target(scene.there))
        said.add(here.failed)
        assert not here.is_open, scene
        assert not there.is_open, scene
        # One that was lost after it was taken is the target's.
        assert here.has_left_box is bool(there.target_taken_timestamp), scene
    assert said == {True, False}
