"""What a source's handler does next, from the VMI and its launcher's word."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.migration.source_plan import SourcePlan, SourceSeen, SourceStep, plan_source
from kvedge.rpc import launcher_pb2 as pb
from tests.support.migration_world import ADDRESS, HERE, THERE, moving_vmi

READY: dict[str, Any] = {"targetNodeAddress": ADDRESS}
BEGUN: dict[str, Any] = {**READY, "startTimestamp": "2026-05-01T00:00:00Z"}
LEFT: dict[str, Any] = {**BEGUN, "sourceNodeDomainGoneTimestamp": "2026-05-01T00:00:05Z"}
OFF: dict[str, Any] = {"sourcePodGoneTimestamp": "2026-05-01T00:00:05Z"}
ABORTED: dict[str, Any] = {"abortRequested": True}
FAILED: dict[str, Any] = {"failed": True, "completed": True, "failureReason": "no"}
UP = {"connected": True, "alive": True}
DELETED = "2026-05-01T00:00:00Z"


def plan(state: dict[str, Any], word: int | None = pb.OUTGOING_NONE, **seen: Any) -> SourcePlan:
    deleted = seen.pop("deleted", None)
    found = SourceSeen(word, **{**UP, **seen})  # type: ignore[arg-type]
    return plan_source(moving_vmi(deleted=deleted, **state), HERE, found)


STEPS = [
    pytest.param({}, pb.OUTGOING_NONE, {}, [], id="a target that does not listen yet is waited for"),
    pytest.param(READY, pb.OUTGOING_NONE, {}, ["BEGIN"], id="that it begins is written first"),
    pytest.param(READY, None, {"connected": False, "alive": False}, [], id="nothing begins without its launcher"),
    pytest.param(READY, pb.OUTGOING_NONE, {"alive": False}, [], id="a guest that has ended does not move"),
    pytest.param(READY, pb.OUTGOING_NONE, {"deleted": DELETED}, [], id="a guest that is to end does not begin"),
    pytest.param(BEGUN, pb.OUTGOING_NONE, {}, ["MOVE"], id="once it is written the launcher is asked"),
    pytest.param(BEGUN, None, {"connected": False}, [], id="a launcher that is away may have been asked"),
    pytest.param(
        BEGUN,
        None,
        {"connected": False, "alive": False, "gone": True},
        ["RECORD_STAY", "CLOSE"],
        id="one that has ended without a word has let go of nothing",
    ),
    pytest.param(BEGUN, pb.OUTGOING_ACTIVE, {}, [], id="a guest that moves is watched"),
    pytest.param(BEGUN, pb.OUTGOING_ACTIVE, {"overrun": "slow"}, ["ABORT"], id="one that takes too long is kept"),
    pytest.param(BEGUN, pb.OUTGOING_ACTIVE, {"slow": True}, ["HOLD"], id="one that may stand still is stopped"),
    pytest.param({**BEGUN, "mode": "Paused"}, pb.OUTGOING_ACTIVE, {"slow": True}, [], id="and that once"),
    pytest.param(BEGUN, pb.OUTGOING_ACTIVE, {"slow": True, "overrun": "slow"}, ["ABORT"], id="and kept in the end"),
    pytest.param(BEGUN, pb.OUTGOING_ACTIVE, {"deleted": DELETED}, ["ABORT"], id="one that is to end is kept"),
    pytest.param(BEGUN, pb.OUTGOING_RESUMING, {"overrun": "slow"}, [], id="one that goes on here is waited for"),
    pytest.param(BEGUN, pb.OUTGOING_GONE, {"alive": False}, ["RECORD_LEFT"], id="that nothing is left is written"),
    pytest.param(
        BEGUN, pb.OUTGOING_GONE, {"alive": False, "connected": False}, ["RECORD_LEFT"], id="also by a last word"
    ),
    pytest.param(BEGUN, pb.OUTGOING_KEPT, {}, ["RECORD_STAY", "CLOSE"], id="that it stays is written"),
    pytest.param({**BEGUN, **OFF}, pb.OUTGOING_KEPT, {}, ["CLOSE"], id="unless the other node decides by now"),
    pytest.param({**READY, **OFF}, pb.OUTGOING_NONE, {"alive": False}, [], id="which has not got what never began"),
    pytest.param({**BEGUN, **OFF}, pb.OUTGOING_GONE, {}, ["RECORD_LEFT"], id="which may yet hear that it has left"),
    pytest.param(LEFT, pb.OUTGOING_GONE, {"alive": False}, ["ACKNOWLEDGE", "CLOSE"], id="and then acknowledged"),
    pytest.param(LEFT, None, {"connected": False, "alive": False}, ["CLOSE"], id="unless the launcher has gone"),
    pytest.param(ABORTED, pb.OUTGOING_NONE, {}, ["RECORD_STAY"], id="a cancel before it begins needs no launcher"),
    pytest.param({**BEGUN, **ABORTED}, pb.OUTGOING_NONE, {}, ["ABORT"], id="afterwards its launcher has to hear of it"),
    pytest.param({**BEGUN, **ABORTED}, pb.OUTGOING_ACTIVE, {}, ["ABORT"], id="a cancel ends what moves"),
    pytest.param({**BEGUN, **ABORTED}, pb.OUTGOING_GONE, {}, ["RECORD_LEFT"], id="a cancel may come too late"),
    pytest.param(BEGUN, pb.OUTGOING_NONE, {"refused": "no"}, ["ABORT"], id="a launcher that refuses is asked no more"),
    pytest.param({**BEGUN, **FAILED}, pb.OUTGOING_ACTIVE, {}, ["ABORT"], id="what others gave up is ended here"),
    pytest.param({**BEGUN, **FAILED}, pb.OUTGOING_KEPT, {}, ["CLOSE"], id="what failed has no way"),
    pytest.param(READY, pb.OUTGOING_NONE, {"migrates": False}, ["RECORD_STAY"], id="an old launcher moves nothing"),
]


@pytest.mark.parametrize(("state", "word", "seen", "steps"), STEPS)
def test_what_a_source_does_next(
    state: dict[str, Any], word: int | None, seen: dict[str, Any], steps: list[str]
) -> None:
    assert [step.name for step in plan(state, word, **seen).steps] == steps


def test_a_guest_whose_leaving_is_written_is_not_cared_for_here() -> None:
    assert plan(LEFT, pb.OUTGOING_GONE, alive=False).left
    assert not plan(BEGUN, pb.OUTGOING_GONE, alive=False).left


def test_other_nodes_and_vmis_that_have_ended_have_no_way_here() -> None:
    seen = SourceSeen(pb.OUTGOING_ACTIVE, connected=True, alive=True)
    for vmi, node in ((moving_vmi(**BEGUN), THERE), (moving_vmi(status={"phase": "Failed"}, **BEGUN), HERE)):
        assert plan_source(vmi, node, seen).steps == (SourceStep.CLOSE,)


@pytest.mark.parametrize(
    ("state", "seen", "reason", "status"),
    [
        pytest.param({}, {"said": "libvirt: no"}, "libvirt: no", "", id="libvirt's words"),
        pytest.param({}, {"refused": "it did not begin"}, "it did not begin", "", id="why it never began"),
        pytest.param(ABORTED, {"said": "x"}, "Live migration has been aborted", "Succeeded", id="a cancel"),
        pytest.param(
            {}, {"overrun": "too slow"}, "Live migration has been aborted: too slow", "Succeeded", id="a limit by name"
        ),
    ],
)
def test_why_a_guest_stays_is_told(state: dict[str, Any], seen: dict[str, Any], reason: str, status: str) -> None:
    found = plan({**BEGUN, **state}, pb.OUTGOING_KEPT, **seen)
    assert (found.reason, found.abort_status) == (reason, status)


def test_a_cancel_that_came_too_late_is_said_to_have_failed() -> None:
    assert plan({**BEGUN, **ABORTED}, pb.OUTGOING_GONE).abort_status == "Failed"
