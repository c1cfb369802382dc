"""What two boxes say of a guest that moves between them, and what each writes of that."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kvedge.handler.migration.crossing_words import (
    heard_source_patch,
    heard_target_patch,
    words_of_source,
    words_of_target,
)
from kvedge.handler.migration.source_plan import SourceSeen, SourceStep, plan_source
from kvedge.handler.migration.target_plan import TargetSeen, TargetStep, plan_target
from kvedge.resources.moves.crossing import SourceWords, TargetWords
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.migration_world import HERE, THERE, moving_vmi

AT = "2026-05-01T00:00:00Z"
NOW = datetime(2026, 5, 1, tzinfo=UTC)
PLACE = "192.0.2.9:9185"
VMI_UID = "5f0c2a1e-0000-4000-8000-000000000001"
LEAVES: dict[str, Any] = {"targetNode": "", "targetState": {"syncAddress": PLACE}}
BEGUN: dict[str, Any] = {**LEAVES, "targetNodeAddress": PLACE, "startTimestamp": AT}
GONE: dict[str, Any] = {**BEGUN, "sourceNodeDomainGoneTimestamp": AT}
HEARD: dict[str, Any] = {"sourceNode": "", "sourceState": {"node": HERE, "disks": {"data": 1}}}


def leaving(**state: Any) -> VirtualMachineInstance:
    return moving_vmi(**state)


def coming(**state: Any) -> VirtualMachineInstance:
    return moving_vmi(node="", status={"phase": "WaitingForSync"}, **state)


def source_words(**state: Any) -> SourceWords:
    vmi = leaving(**state)
    assert vmi.status.migration_state is not None
    return words_of_source(vmi, vmi.status.migration_state)


def told(vmi: VirtualMachineInstance, words: TargetWords) -> dict[str, Any]:
    assert vmi.status.migration_state is not None
    patch = heard_target_patch(vmi, vmi.status.migration_state, words)
    return {} if patch is None else dict(patch.body["status"]["migrationState"])


def test_words_are_what_the_vmi_says() -> None:
    assert source_words(**LEAVES) == SourceWords(node=HERE)
    assert source_words(**GONE).gone == AT
    kept = source_words(**BEGUN, failed=True, completed=True, failureReason="no")
    assert (kept.failed, kept.reason, kept.over) == (True, "no", True)
    assert source_words(**GONE, targetTakenTimestamp=AT).over


def test_the_target_writes_what_it_hears_once() -> None:
    vmi = coming(sourceNode="", sourceState={})
    state = vmi.status.migration_state
    assert state is not None
    words = SourceWords(node=HERE, disks={"data": 7}, started=AT, gone=AT)
    patch = heard_source_patch(vmi, state, words, NOW)
    assert patch is not None
    assert patch.body["metadata"]["resourceVersion"] == vmi.metadata.resource_version
    assert patch.body["status"]["migrationState"] == {
        "sourceState": {"node": HERE, "disks": {"data": 7}},
        "startTimestamp": AT,
        "sourceNodeDomainGoneTimestamp": AT,
    }
    after = coming(**{**HEARD, "sourceState": {"node": HERE, "disks": {"data": 7}}})
    state = after.status.migration_state
    assert state is not None
    # The launcher has made room for what it was told first.
    assert heard_source_patch(after, state, SourceWords(node=HERE, disks={"data": 9}), NOW) is None


def test_that_a_guest_stays_ends_it_on_the_target() -> None:
    vmi = coming(**HEARD)
    state = vmi.status.migration_state
    assert state is not None
    patch = heard_source_patch(vmi, state, SourceWords(node=HERE, failed=True, reason="no", over=True), NOW)
    assert patch is not None
    written = patch.body["status"]["migrationState"]
    assert (written["failed"], written["completed"], written["failureReason"]) == (True, True, "no")


@pytest.mark.parametrize("state", [LEAVES, BEGUN], ids=["before it begins", "while it moves"])
def test_a_target_that_says_it_has_taken_a_guest_which_has_not_left_is_not_believed(state: dict[str, Any]) -> None:
    assert "targetTakenTimestamp" not in told(leaving(**state), TargetWords(node=THERE, taken=AT))


def test_it_is_believed_once_the_guest_has_left() -> None:
    assert told(leaving(**GONE), TargetWords(node=THERE, taken=AT))["targetTakenTimestamp"] == AT


def test_a_uid_that_is_none_does_not_come_into_the_guests_document() -> None:
    words = TargetWords(node=THERE, uid="../../etc", ready=True)
    assert "virtualMachineInstanceUID" not in told(leaving(**LEAVES), words)["targetState"]
    found = told(leaving(**LEAVES), msgspec.structs.replace(words, uid=VMI_UID))
    assert found["targetState"]["virtualMachineInstanceUID"] == VMI_UID
    assert found["targetNodeAddress"] == PLACE


def test_nothing_is_written_of_an_open_end() -> None:
    vmi = leaving(**GONE, completed=True)
    assert told(vmi, TargetWords(node=THERE, failed=True)) == {}


def plan_of_source(state: dict[str, Any], word: int | None = None) -> tuple[list[str], bool]:
    found = plan_source(leaving(**state), HERE, SourceSeen(word))  # type: ignore[arg-type]
    return [step.name for step in found.steps], found.left


SOURCE = [
    pytest.param(GONE, ["CLOSE"], True, id="a guest that has left is waited for, however long"),
    pytest.param({**GONE, "sourcePodGoneTimestamp": AT}, ["CLOSE"], True, id="also when its Pod is gone"),
    pytest.param({**GONE, "abortRequested": True}, ["CLOSE"], True, id="a cancel comes too late"),
    pytest.param({**GONE, "targetTakenTimestamp": AT}, ["CLOSE", "RECORD_MOVED"], True, id="what is taken has moved"),
    pytest.param(
        {**GONE, "targetState": {"syncAddress": PLACE, "failed": True}},
        ["RECORD_STAY", "CLOSE"],
        False,
        id="lost",
    ),
    pytest.param(
        {**GONE, "targetTakenTimestamp": AT, "targetState": {"syncAddress": PLACE, "failed": True}},
        ["CLOSE", "RECORD_MOVED"],
        True,
        id="one that was lost after it was taken is the target's to start",
    ),
    pytest.param({**GONE, "targetTakenTimestamp": AT, "completed": True}, ["CLOSE"], True, id="nothing is left to do"),
]


@pytest.mark.parametrize(("state", "steps", "left"), SOURCE)
def test_what_a_source_does_about_a_guest_of_another_box(state: dict[str, Any], steps: list[str], left: bool) -> None:
    assert plan_of_source(state) == (steps, left)


def test_a_target_that_does_not_take_the_guest_has_it_stay() -> None:
    refused = {**BEGUN, "targetState": {"syncAddress": PLACE, "failed": True, "reason": "no room"}}
    seen = SourceSeen(pb.OUTGOING_ACTIVE, connected=True, alive=True)
    assert plan_source(leaving(**refused), HERE, seen).steps == (SourceStep.ABORT,)
    kept = plan_source(leaving(**refused), HERE, SourceSeen(pb.OUTGOING_KEPT, connected=True, alive=True))
    assert kept.steps == (SourceStep.RECORD_STAY, SourceStep.CLOSE)
    assert "the other box does not take the guest: no room" in kept.reason


TARGET = [
    pytest.param({"sourceNode": "", "sourceState": {}}, pb.INCOMING_EMPTY, [], id="nothing is prepared unheard"),
    pytest.param(HEARD, pb.INCOMING_EMPTY, ["PREPARE"], id="what is heard of is"),
    pytest.param(
        {**HEARD, "targetNodeAddress": PLACE, "startTimestamp": AT, "sourceNodeDomainGoneTimestamp": AT},
        pb.INCOMING_COMPLETE,
        ["TAKE"],
        id="that it is this box's is written before it runs",
    ),
    pytest.param(
        {**HEARD, "startTimestamp": AT, "sourceNodeDomainGoneTimestamp": AT, "targetTakenTimestamp": AT},
        pb.INCOMING_COMPLETE,
        ["RELEASE"],
        id="and then it runs",
    ),
    pytest.param({**HEARD, "startTimestamp": AT}, pb.INCOMING_COMPLETE, ["EXPECT", "ANNOUNCE"], id="not before"),
    pytest.param({**HEARD, "abortRequested": True}, pb.INCOMING_EMPTY, ["REFUSE"], id="a cancel before it may come"),
    pytest.param(
        {**HEARD, "abortRequested": True, "targetNodeAddress": PLACE},
        pb.INCOMING_READY,
        [],
        id="then it waits",
    ),
]


@pytest.mark.parametrize(("state", "word", "steps"), TARGET)
def test_what_a_target_does_about_a_guest_of_another_box(state: dict[str, Any], word: int, steps: list[str]) -> None:
    found = plan_target(coming(**state), THERE, TargetSeen(word, address="*:9185"))  # type: ignore[arg-type]
    assert [step.name for step in found.steps] == steps
    assert TargetStep.ADOPT not in found.steps


def test_a_target_tells_its_source_what_its_vmi_says() -> None:
    vmi = coming(**HEARD, targetNodeAddress="*:9185", targetTakenTimestamp=AT)
    assert vmi.status.migration_state is not None
    found = words_of_target(vmi, vmi.status.migration_state, THERE)
    assert (found.node, found.uid, found.ready, found.taken) == (THERE, "u-1", True, AT)
    assert (found.failed, found.unwanted, found.heard_end) == (False, False, False)
