"""What the handler does about disks that move in place, from what the VMI names and the launcher says."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.disk_move.disk_move_plan import Goal, plan_disk_move
from kvedge.resources.codec import decode
from kvedge.resources.disks.moved_places import moved_place
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb

NEW, OTHER = moved_place("root", "new"), moved_place("root", "other")
NOW = 1_000_000


def a_vmi(
    named: str = "old", to: str | None = "new", reason: str = "InPlace", **metadata: Any
) -> VirtualMachineInstance:
    info = {"sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": to, "volumeMode": "Block"}}
    status = {
        "migratedVolumes": [{"volumeName": "root", **info}] if to else [],
        "conditions": [{"type": "VolumesChange", "status": "True", "reason": reason}] if to else [],
    }
    spec = {"domain": {}, "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": named}}]}
    known = {"name": "v", "namespace": "n", "uid": "u"}
    return decode(VirtualMachineInstance, {"metadata": known | metadata, "spec": spec, "status": status})


def a_word(state: pb.DiskMoveState, move: str = "m-1", *, moved: bool = False, ended: int = 0) -> pb.DiskMove:
    copy = pb.DiskCopy(volume="root", source_claim="old", claim="new", place=NEW)
    disk = pb.MovingDisk(copy=copy, moved=moved)
    return pb.DiskMove(move_id=move, state=state, disks=[disk], ended_unix_ms=ended)


OPEN = (pb.DISK_MOVE_COPYING, pb.DISK_MOVE_READY, pb.DISK_MOVE_SETTLED)


def test_a_disk_is_copied_once_its_claim_is_there() -> None:
    assert plan_disk_move(a_vmi(), None, [], NOW).goal is Goal.NOTHING
    plan = plan_disk_move(a_vmi(), None, [NEW], NOW)
    (copy,) = plan.disks
    assert (plan.goal, copy.claim, copy.source_claim, copy.place, copy.block) == (Goal.COPY, "new", "old", NEW, True)


@pytest.mark.parametrize(
    "vmi",
    [
        a_vmi(to=None),
        a_vmi(reason=""),
        a_vmi(named="third"),
        a_vmi(deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
    ids=["not wanted", "by a migration", "on a third claim", "going"],
)
def test_nothing_is_begun_that_is_not_wanted(vmi: VirtualMachineInstance) -> None:
    assert plan_disk_move(vmi, None, [NEW], NOW).goal is Goal.NOTHING


@pytest.mark.parametrize("state", OPEN)
def test_the_vmi_decides_what_becomes_of_a_move(state: pb.DiskMoveState) -> None:
    on = Goal.NOTHING if state == pb.DISK_MOVE_COPYING else Goal.EXCHANGE
    assert plan_disk_move(a_vmi(), a_word(state), [NEW], NOW).goal is on
    # The VMI names the new claim: nothing else counts any more.
    for vmi in (a_vmi(named="new"), a_vmi(named="new", to=None)):
        assert plan_disk_move(vmi, a_word(state), [NEW], NOW).goal is Goal.FINISH
    for vmi in (a_vmi(to=None), a_vmi(to="other")):
        assert plan_disk_move(vmi, a_word(state), [NEW], NOW).goal is Goal.ABORT


def test_a_failed_move_is_begun_again_later_each_time() -> None:
    first = plan_disk_move(a_vmi(), None, [NEW], NOW).move
    word = a_word(pb.DISK_MOVE_FAILED, first, ended=NOW - 1000)
    assert plan_disk_move(a_vmi(), word, [NEW], NOW).again == 4.0
    second = plan_disk_move(a_vmi(), word, [NEW], NOW + 4000)
    assert (second.goal, second.move) == (Goal.COPY, first.replace("-1", "-2"))
    word = a_word(pb.DISK_MOVE_FAILED, second.move, ended=NOW)
    assert plan_disk_move(a_vmi(), word, [NEW], NOW).again == 10.0
    # A clock that was put back.
    assert plan_disk_move(a_vmi(), word, [NEW], NOW - 5000).goal is Goal.COPY


def test_a_disk_that_qemu_did_not_exchange_is_named_on_its_old_claim_again() -> None:
    plan = plan_disk_move(a_vmi(named="new"), a_word(pb.DISK_MOVE_FAILED), [NEW], NOW)
    assert (plan.goal, [copy.source_claim for copy in plan.disks]) == (Goal.RETURN, ["old"])
    done = plan_disk_move(a_vmi(named="new"), a_word(pb.DISK_MOVE_FAILED, moved=True), [NEW], NOW)
    assert done.goal is Goal.NOTHING


@pytest.mark.parametrize("to", [None, "other"])
def test_what_is_left_of_a_failed_move_goes_with_its_claim(to: str | None) -> None:
    word = a_word(pb.DISK_MOVE_FAILED)
    assert plan_disk_move(a_vmi(to=to), word, [NEW, OTHER], NOW).goal is Goal.ABORT
    taken_back = plan_disk_move(a_vmi(to=to), word, [OTHER], NOW).goal
    assert taken_back is (Goal.COPY if to else Goal.NOTHING)


def test_a_guest_that_stands_goes_on_once_the_vmi_names_its_old_claims() -> None:
    word = a_word(pb.DISK_MOVE_FAILED)
    word.stands = True
    assert plan_disk_move(a_vmi(named="new"), word, [NEW], NOW).goal is Goal.RETURN
    # Also when the same move is wanted still: it is begun again after that.
    for vmi in (a_vmi(), a_vmi(to=None), a_vmi(to="other")):
        plan = plan_disk_move(vmi, word, [NEW], NOW)
        assert (plan.goal, plan.move, [copy.claim for copy in plan.disks]) == (Goal.ABORT, word.move_id, ["new"])
