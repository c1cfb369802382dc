"""What a target's handler does next, from the VMI and the word of the launcher that awaits its guest."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.migration.target_plan import TargetPlan, TargetSeen, TargetStep, plan_target
from kvedge.rpc import launcher_pb2 as pb
from tests.support.migration_world import ADDRESS, HERE, THERE, copying_vmi, exchanged_vmi, moving_vmi

TOLD: dict[str, Any] = {"targetNodeAddress": ADDRESS}
BEGUN: dict[str, Any] = {**TOLD, "startTimestamp": "2026-05-01T00:00:00Z"}
LEFT: dict[str, Any] = {**BEGUN, "sourceNodeDomainGoneTimestamp": "2026-05-01T00:00:05Z"}
OFF: dict[str, Any] = {**BEGUN, "sourcePodGoneTimestamp": "2026-05-01T00:00:05Z"}
STAYS: dict[str, Any] = {**BEGUN, "failed": True, "completed": True, "failureReason": "no"}
CANCELLED: dict[str, Any] = {"abortRequested": True}
EMPTY, READY, ARRIVING = pb.INCOMING_EMPTY, pb.INCOMING_READY, pb.INCOMING_ARRIVING
COMPLETE, OWNED, BROKEN = pb.INCOMING_COMPLETE, pb.INCOMING_OWNED, pb.INCOMING_FAILED


def plan(state: dict[str, Any], word: int | None, status: dict[str, Any] | None = None, **seen: Any) -> TargetPlan:
    deleted = seen.pop("deleted", None)
    found = TargetSeen(word, address=seen.pop("address", ADDRESS), **seen)  # type: ignore[arg-type]
    return plan_target(moving_vmi(status=status, deleted=deleted, **state), THERE, found)


STEPS = [
    pytest.param({}, None, {}, [], id="a launcher that does not answer yet is waited for"),
    pytest.param({}, EMPTY, {}, ["PREPARE"], id="an empty one is prepared"),
    pytest.param({}, READY, {}, ["EXPECT", "ANNOUNCE"], id="who is let in is known before the address is told"),
    pytest.param({}, READY, {"address": ""}, ["EXPECT"], id="a relay that does not serve yet is not announced"),
    pytest.param(TOLD, READY, {}, ["EXPECT"], id="a new handler lets the guest in again"),
    pytest.param(BEGUN, READY, {"address": "x:1"}, ["EXPECT", "ANNOUNCE"], id="and tells its new address"),
    pytest.param(BEGUN, ARRIVING, {}, ["EXPECT", "DETECT"], id="a guest that arrives is told of"),
    pytest.param({**BEGUN, "targetNodeDomainDetected": True}, ARRIVING, {}, ["EXPECT"], id="once"),
    pytest.param(
        {**BEGUN, "targetNodeDomainDetected": True}, COMPLETE, {}, ["EXPECT"], id="a silent source proves nothing"
    ),
    pytest.param(LEFT, ARRIVING, {}, ["EXPECT", "DETECT"], id="what has not come whole does not run"),
    pytest.param(LEFT, COMPLETE, {}, ["RELEASE"], id="a guest whose source has let go runs here"),
    pytest.param({**OFF, **LEFT}, COMPLETE, {}, ["RELEASE"], id="also when its Pod has gone meanwhile"),
    pytest.param({**LEFT, **CANCELLED}, COMPLETE, {}, ["RELEASE"], id="a cancel comes too late"),
    pytest.param(LEFT, COMPLETE, {"deleted": "2026-05-01T00:00:00Z"}, ["RELEASE"], id="so does a deletion"),
    pytest.param(LEFT, OWNED, {}, ["ADOPT"], id="a guest that was released is this node's"),
    pytest.param(LEFT, BROKEN, {}, ["RECORD_LOSS"], id="a guest that is nowhere is lost"),
    pytest.param(OFF, None, {"gone": True}, ["RECORD_LOSS"], id="so is one whose launchers are both gone"),
    pytest.param({**OFF, **LEFT}, None, {}, [], id="a launcher that is silent may have it"),
    pytest.param({**OFF, **LEFT}, READY, {}, ["GIVE_UP"], id="nothing comes from a source that is off"),
    pytest.param(LEFT, EMPTY, {}, ["GIVE_UP"], id="nor to a launcher that lost its preparation"),
    pytest.param(STAYS, COMPLETE, {}, ["DISCARD"], id="a guest that stays is ended here"),
    pytest.param(STAYS, None, {}, [], id="a launcher that is silent may have something to end"),
    pytest.param(STAYS, None, {"gone": True}, ["FORGET"], id="one that is gone has not"),
    pytest.param(STAYS, BROKEN, {}, ["DISCARD"], id="one that has ended it is let go"),
    pytest.param(BEGUN, BROKEN, {}, ["DISCARD"], id="half a guest is the source's to tell of"),
    pytest.param(CANCELLED, EMPTY, {}, [], id="nothing is prepared for a cancelled one"),
    pytest.param({**BEGUN, **CANCELLED}, ARRIVING, {}, ["EXPECT", "DETECT"], id="a cancel is the source's to obey"),
    pytest.param({}, EMPTY, {"stuck": "no disk"}, ["DISCARD"], id="what cannot be prepared is let go"),
    pytest.param({}, READY, {"stuck": "no way", "address": ""}, ["DISCARD"], id="nor what nobody can come to"),
    pytest.param(TOLD, READY, {"stuck": "no way", "address": ""}, ["EXPECT"], id="unless it was told before"),
    pytest.param(TOLD, EMPTY, {"stuck": "no disk"}, ["PREPARE"], id="unless the source may have begun"),
]


def test_a_guest_on_other_claims_runs_only_once_its_vmi_names_them() -> None:
    for vmi, step in ((copying_vmi(**LEFT), TargetStep.EXCHANGE), (exchanged_vmi(**LEFT), TargetStep.RELEASE)):
        assert plan_target(vmi, THERE, TargetSeen(COMPLETE, address=ADDRESS)).steps == (step,)
    # Nor is it exchanged before it is known that the source is off.
    assert plan_target(copying_vmi(**BEGUN), THERE, TargetSeen(COMPLETE, address=ADDRESS)).steps != (
        TargetStep.EXCHANGE,
    )


def test_a_guest_whose_state_came_to_another_claim_runs_only_once_its_vmi_says_so() -> None:
    moved = {"sourcePersistentStatePVCName": "old", "targetPersistentStatePVCName": "new"}
    taken = {**moved, "targetTakenTimestamp": "2026-05-01T00:00:06Z"}
    assert plan({**LEFT, **moved}, COMPLETE).steps == (TargetStep.TAKE,)
    assert plan({**LEFT, **taken}, COMPLETE).steps == (TargetStep.RELEASE,)
    # Nor is it said before the source is known to be off, or of a guest that has not come whole.
    for state, word in (({**BEGUN, **moved}, COMPLETE), ({**LEFT, **moved}, ARRIVING), ({**OFF, **moved}, COMPLETE)):
        assert TargetStep.TAKE not in plan(state, word).steps


@pytest.mark.parametrize(("state", "word", "seen", "steps"), STEPS)
def test_what_a_target_does_next(
    state: dict[str, Any], word: int | None, seen: dict[str, Any], steps: list[str]
) -> None:
    assert [step.name for step in plan(state, word, **seen).steps] == steps


def test_a_vmi_that_has_ended_leaves_nothing_here() -> None:
    assert plan(LEFT, COMPLETE, {"phase": "Succeeded"}).steps == (TargetStep.DISCARD,)


def test_a_guest_that_is_this_nodes_or_goes_elsewhere_is_none_that_comes() -> None:
    seen = TargetSeen(COMPLETE, address=ADDRESS)
    adopted = moving_vmi(THERE, **LEFT, completed=True)
    for vmi, node in ((adopted, THERE), (moving_vmi(**LEFT), "node-c"), (moving_vmi(**LEFT), HERE)):
        assert plan_target(vmi, node, seen).steps == (TargetStep.FORGET,)


@pytest.mark.parametrize("word", [None, EMPTY, READY, ARRIVING, COMPLETE, BROKEN])
def test_a_source_that_went_without_a_word_may_have_gone_on_meanwhile(word: int | None) -> None:
    found = plan(OFF, word)
    assert found.steps == (TargetStep.RECORD_LOSS,)
    assert ("of an earlier moment" in found.reason) is (word not in (None, BROKEN))


def test_the_word_of_a_source_that_has_just_gone_may_yet_be_told() -> None:
    found = plan(OFF, COMPLETE, hears=True)
    assert TargetStep.RECORD_LOSS not in found.steps
    assert found.again == 1.0
    assert plan({**OFF, **LEFT}, COMPLETE, hears=True).steps == (TargetStep.RELEASE,)


def test_why_a_guest_was_lost_is_told() -> None:
    assert "disk full" in plan(LEFT, BROKEN, said="disk full").reason
    assert "has gone" in plan(LEFT, None, gone=True).reason
