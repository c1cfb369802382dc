# Tests: kvedge/controller/snapshots/driver_plan.py, kvedge/controller/snapshots/driver_snapshots.py
# Tests: kvedge/controller/snapshots/snapshot_deadline.py
# Tests: kvedge/resources/types/protection/volume_snapshots.py
"""Snapshots whose disks a storage driver keeps: when, in which order, and what comes of them."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.controller.snapshots.snapshot_actions import Freeze, Thaw
from kvedge.controller.snapshots.snapshot_plan import plan_letting_go
from kvedge.controller.snapshots.snapshot_sights import find_unfilled
from kvedge.controller.snapshots.snapshot_view import DriverClasses, FreezeCall
from kvedge.resources.data_volume_names import PRE_POPULATED
from kvedge.resources.disks.snapshot_names import FROZEN_UNTIL, HELD_BY, METHOD, RUN
from kvedge.resources.meta import Condition
from kvedge.resources.types.protection.snapshots import SnapshotError
from kvedge.resources.types.vmi import GuestOsInfo
from kvedge.runtime.clock import rfc3339
from tests.support.builders import a_claim
from tests.unit.controller.snapshots.snapshot_world import COPIES, NEW, World

DOUBT = "2 matching VolumeSnapshotClasses for disks: annotate one of fast, slow with x=true"


def a_world(*holds: str, disks: int = 2, **spec: Any) -> World:
    """A VM whose claims' driver takes snapshots; it runs if something is said of its guest."""
    world = World(**spec)
    world.use_driver()
    assert world.vm is not None
    assert world.vm.spec.template is not None
    if disks == 1:
        volumes = world.vm.spec.template.spec.volumes
        world.vm.spec.template.spec.volumes = [each for each in volumes if each.name != "data"]
    if holds:
        world.run()
        assert world.vmi is not None
        world.vmi.status.conditions = [
            Condition(type=each, status="True") for each in holds if each in ("AgentConnected", "Paused")
        ]
        if "Windows" in holds:
            world.vmi.status.guest_os_info = GuestOsInfo(id="mswindows")
    return world


def status(world: World) -> Any:
    assert world.snapshot is not None
    return world.snapshot.status


def content_of(world: World) -> Any:
    assert world.content is not None
    return world.content


def is_locked(world: World) -> bool:
    assert world.vm is not None
    return bool(world.vm.status.snapshot_in_progress)


def waits_for(world: World) -> str:
    return next(each.message for each in status(world).conditions if each.type == "Progressing")


def test_a_stopped_vm_is_let_go_when_all_are_taken_and_is_kept_when_all_are_ready() -> None:
    world = a_world()
    world.settle()
    assert content_of(world).metadata.annotations == {METHOD: "volume-snapshots"}
    assert world.guest_orders == ["snapshot web-root", "snapshot web-data"]
    assert list(world.volumes) == ["web-root"]
    made = world.driver_snapshots[COPIES["root"]]
    assert made.spec.volume_snapshot_class_name == "fast"
    assert [each.name for each in made.metadata.owner_references] == [content_of(world).metadata.name]
    world.drive(COPIES["root"])
    world.settle()
    assert is_locked(world)
    assert waits_for(world) == f"VolumeSnapshot {COPIES['data']} is not taken yet"
    world.drive(COPIES["data"])
    world.settle()
    assert not is_locked(world)
    assert (status(world).phase, status(world).creation_time) == ("InProgress", "2026-01-02T03:04:05Z")
    world.wait(3600)
    # The VM may go now: its disks are taken.
    world.vm = None
    world.settle()
    assert status(world).phase == "InProgress"
    world.drive(ready_to_use=True)
    world.settle()
    assert (status(world).phase, status(world).ready_to_use, status(world).error) == ("Succeeded", True, None)
    assert status(world).indications == []
    assert content_of(world).status.ready_to_use
    assert [each.ready_to_use for each in content_of(world).status.volume_snapshot_status] == [True, True]
    assert status(world).snapshot_volumes.excluded_volumes == ["tools"]


def test_a_guest_that_runs_is_frozen_before_the_first_and_thawed_after_the_last() -> None:
    world = a_world("AgentConnected")
    world.settle()
    assert world.guest_orders == ["freeze 60", "snapshot web-root", "snapshot web-data"]
    annotations = content_of(world).metadata.annotations
    assert (annotations[HELD_BY], bool(annotations[RUN])) == ("agent", True)
    world.wait(5)
    world.drive()
    world.settle()
    assert world.guest_orders[3:] == ["thaw"]
    assert FROZEN_UNTIL not in content_of(world).metadata.annotations
    assert not is_locked(world)
    assert status(world).indications == ["GuestAgent", "Online"]


def test_nothing_is_taken_while_the_agent_does_not_freeze() -> None:
    world = a_world("AgentConnected")
    world.freezes = False
    world.settle()
    assert waits_for(world) == "the guest's agent is asked to freeze its file systems"
    world.freeze = FreezeCall(True, world.now, world.now, "the guest agent does not answer")
    world.freezes = True
    world.wait(4)
    world.settle()
    assert world.driver_snapshots == {}
    assert waits_for(world) == "the guest agent does not answer"
    world.wait(2)
    world.settle()
    assert world.guest_orders == ["freeze 60", "snapshot web-root", "snapshot web-data"]


def test_a_guest_counts_as_frozen_from_when_its_agent_was_asked() -> None:
    world = a_world("AgentConnected")
    world.freezes = False
    world.settle()
    begun = world.now
    world.wait(40)
    world.freeze = FreezeCall(True, begun, world.now)
    assert world.vmi is not None
    world.vmi.status.fs_freeze_status = "frozen"
    world.settle()
    assert content_of(world).metadata.annotations[FROZEN_UNTIL] == rfc3339(begun + timedelta(seconds=60))


def test_a_freeze_that_goes_on_for_another_snapshot_is_waited_for_and_left_alone() -> None:
    world = a_world("AgentConnected")
    world.freeze = FreezeCall(False, world.now)
    assert not any(isinstance(each, (Freeze, Thaw)) for each in world.settle().actions)
    assert world.guest_orders == []
    world.delete("snapshot")
    world.settle()
    assert world.guest_orders == []


@pytest.mark.parametrize("content", ["there", "gone"])
def test_a_snapshot_that_is_deleted_while_its_guest_is_asked_to_freeze_has_it_thawed(content: str) -> None:
    world = a_world("AgentConnected")
    world.freezes = False
    world.settle()
    if content == "gone":
        world.content = None
    world.delete("snapshot")
    world.settle()
    assert world.guest_orders == ["thaw"]
    assert not is_locked(world)


def test_a_guest_that_has_nothing_to_freeze_is_not_taken_for_frozen() -> None:
    world = a_world("AgentConnected")
    world.settle()
    assert world.driver_snapshots is not None
    world.driver_snapshots.clear()
    assert world.vmi is not None
    world.vmi.status.fs_freeze_status = ""
    world.settle()
    assert world.driver_snapshots == {}
    assert "stop or pause the VM" in waits_for(world)
    world.wait(61)
    world.settle()
    assert world.guest_orders[3:] == ["freeze 60", "snapshot web-root", "snapshot web-data"]


@pytest.mark.parametrize("how", ["too late", "thawed by somebody"])
def test_several_disks_of_a_guest_that_thawed_meanwhile_are_no_snapshot(how: str) -> None:
    world = a_world("AgentConnected")
    world.settle()
    assert world.vmi is not None
    if how == "too late":
        world.wait(61)
    else:
        world.vmi.status.fs_freeze_status = ""
    world.drive(ready_to_use=True)
    world.settle()
    assert status(world).phase == "Failed"
    assert "the guest wrote while its disks were taken" in status(world).error.message
    assert world.guest_orders[-1] == "thaw"
    assert not is_locked(world)
    assert world.content is None


def test_one_disk_of_a_guest_that_thawed_meanwhile_is_like_a_disk_after_a_power_cut() -> None:
    world = a_world("AgentConnected", "Windows", disks=1)
    world.settle()
    world.wait(11)
    world.drive(ready_to_use=True)
    world.settle()
    assert status(world).phase == "Succeeded"
    assert status(world).indications == ["Online", "QuiesceTimeout"]


@pytest.mark.parametrize(
    ("holds", "disks", "indications"),
    [
        (("Paused", "AgentConnected"), 2, ["Online", "Paused"]),
        (("nothing",), 1, ["NoGuestAgent", "Online"]),
    ],
    ids=["paused", "without an agent, one disk"],
)
def test_a_guest_that_is_not_to_be_frozen_is_left_alone(
    holds: tuple[str, ...], disks: int, indications: list[str]
) -> None:
    world = a_world(*holds, disks=disks)
    world.settle()
    world.drive(ready_to_use=True)
    world.settle()
    assert [each for each in world.guest_orders if not each.startswith("snapshot")] == []
    assert (status(world).phase, status(world).indications) == ("Succeeded", indications)


@pytest.mark.parametrize(
    "why",
    ["no agent holds several disks", "Windows with several disks", "a claim without a driver", "asked for"],
)
def test_our_own_copies_are_made_where_drivers_could_not_take_one_moment(why: str) -> None:
    match why:
        case "no agent holds several disks":
            world = a_world("nothing")
        case "Windows with several disks":
            world = a_world("AgentConnected", "Windows")
        case "a claim without a driver":
            world = a_world()
            world.classes = DriverClasses({"web-root": "fast"})
        case _:
            world = a_world()
            assert world.snapshot is not None
            world.snapshot.metadata.annotations = {METHOD: "claim-copies"}
    world.settle()
    expected = "live-copies" if world.vmi is not None else "claim-copies"
    assert content_of(world).metadata.annotations[METHOD] == expected
    assert world.driver_snapshots == {}


def test_two_classes_without_a_default_are_told_and_nothing_is_locked() -> None:
    world = a_world()
    world.classes = DriverClasses({"web-root": "fast"}, {"web-data": DOUBT})
    world.settle()
    assert world.content is None
    remedy = "or the snapshot with kvedge.io/snapshot-method=claim-copies"
    assert world.reason() == f"Source not locked {DOUBT}, {remedy}"
    assert not is_locked(world)
    world.use_driver()
    world.settle()
    assert content_of(world).metadata.annotations[METHOD] == "volume-snapshots"


@pytest.mark.parametrize("why", ["another claim has no driver", "asked for", "no agent", "Windows", "another VM's"])
def test_two_classes_hold_up_no_snapshot_that_needs_no_driver(why: str) -> None:
    world = a_world(*{"no agent": ["NoAgent"], "Windows": ["AgentConnected", "Windows"]}.get(why, []))
    unclear = {"another claim has no driver": ["web-data"], "another VM's": ["other"]}.get(
        why, ["web-root", "web-data"]
    )
    world.classes = DriverClasses({}, dict.fromkeys(unclear, DOUBT))
    if why == "asked for":
        assert world.snapshot is not None
        world.snapshot.metadata.annotations = {METHOD: "claim-copies"}
    world.settle()
    expected = "live-copies" if world.vmi is not None else "claim-copies"
    assert content_of(world).metadata.annotations[METHOD] == expected
    assert is_locked(world)


def test_classes_that_became_two_once_it_had_begun_are_why_it_fails() -> None:
    world = a_world("AgentConnected")
    world.freezes = False
    world.settle()
    world.classes = DriverClasses(doubts={"web-root": DOUBT, "web-data": DOUBT})
    world.freeze = FreezeCall(True, world.now, world.now)
    assert world.vmi is not None
    world.vmi.status.fs_freeze_status = "frozen"
    world.settle()
    assert status(world).phase == "Failed"
    assert DOUBT in status(world).error.message
    assert world.guest_orders == ["thaw"]


def test_an_error_of_the_driver_is_told_and_ends_with_the_deadline() -> None:
    world = a_world()
    world.settle()
    fault = SnapshotError(message="the pool is full", time="2026-01-02T03:04:06Z")
    world.drive(COPIES["root"], error=fault, creation_time=None)
    world.settle()
    told = content_of(world).status
    assert told.error.message == f"VolumeSnapshot {COPIES['root']} error: the pool is full"
    assert told.volume_snapshot_status[0].error == fault
    assert waits_for(world) == told.error.message
    world.wait(301)
    world.settle()
    assert status(world).phase == "Failed"
    assert "the pool is full" in status(world).error.message
    assert world.content is None


def test_an_error_long_after_the_moment_has_time_to_pass() -> None:
    world = a_world()
    world.settle()
    world.drive()
    world.settle()
    world.wait(3600)
    world.drive(error=SnapshotError(message="the object has been modified"))
    world.settle()
    assert status(world).phase == "InProgress"
    world.drive(ready_to_use=True)
    world.settle()
    assert status(world).phase == "Succeeded"


def test_an_error_after_the_moment_ends_with_the_deadline_too() -> None:
    world = a_world()
    world.settle()
    world.drive(error=SnapshotError(message="upload failed"))
    world.settle()
    assert status(world).phase == "InProgress"
    world.wait(301)
    world.settle()
    assert status(world).phase == "Failed"


@pytest.mark.parametrize("when", ["before the moment", "after it", "when it is complete"])
def test_a_volume_snapshot_that_goes_takes_the_snapshot_along(when: str) -> None:
    world = a_world("AgentConnected")
    world.settle()
    assert world.driver_snapshots is not None
    if when != "before the moment":
        world.drive(ready_to_use=when == "when it is complete")
        world.settle()
    gone = world.driver_snapshots.pop(COPIES["root"])
    if when == "when it is complete":
        # One that somebody makes under its name is another one.
        gone.metadata.owner_references = []
        world.driver_snapshots[COPIES["root"]] = gone
    world.settle()
    if when == "when it is complete":
        assert (status(world).phase, status(world).ready_to_use) == ("Succeeded", False)
        assert status(world).error.message == f"VolumeSnapshots ({COPIES['root']}) missing"
        assert world.told[-1].reason == "VolumeSnapshotMissing"
    else:
        assert status(world).phase == "Failed"
        assert world.guest_orders[-1] == "thaw"


def test_what_is_there_is_not_taken_for_gone_while_it_is_not_listed() -> None:
    world = a_world()
    world.settle()
    world.drive(ready_to_use=True)
    world.settle()
    kept, world.driver_snapshots = world.driver_snapshots, None
    world.settle()
    assert status(world).ready_to_use
    world.ask_restore()
    world.settle_restore()
    assert world.reason("restore") == "VolumeSnapshots are not listed yet"
    world.driver_snapshots = kept
    world.settle_restore()
    assert NEW["root"] in world.volumes


def test_a_snapshot_of_another_owner_is_not_ours() -> None:
    world = a_world()
    other = a_world()
    other.settle()
    assert other.driver_snapshots is not None
    foreign = other.driver_snapshots[COPIES["root"]]
    foreign.metadata.owner_references[0].uid = "another"
    assert world.driver_snapshots is not None
    world.driver_snapshots[COPIES["root"]] = foreign
    world.settle()
    assert status(world).phase == "Failed"
    assert "exists already, and is none of this snapshot" in status(world).error.message


@pytest.mark.parametrize("what", ["started", "ended", "unlocked", "class gone", "claim gone"])
def test_what_changes_before_the_moment_makes_it_fail(what: str) -> None:
    world = a_world("AgentConnected") if what == "ended" else a_world()
    world.settle()
    assert world.vm is not None
    match what:
        case "started":
            world.run()
        case "ended":
            world.vmi = None
        case "unlocked":
            world.vm.status.snapshot_in_progress = None
        case _:
            assert world.driver_snapshots is not None
            world.driver_snapshots.clear()
            if what == "class gone":
                world.classes = DriverClasses()
            else:
                del world.claims["web-root"]
    world.settle()
    assert status(world).phase == "Failed"


def test_a_snapshot_that_is_deleted_while_the_guest_is_frozen_thaws_it() -> None:
    world = a_world("AgentConnected")
    world.settle()
    world.delete("snapshot")
    world.settle()
    assert world.guest_orders[-1] == "thaw"
    assert not is_locked(world)
    assert (world.snapshot, world.content) == (None, None)


@pytest.mark.parametrize("end", ["moment", "deletion", "failure"])
def test_the_vm_stays_locked_and_its_freeze_written_down_until_the_guest_is_thawed(end: str) -> None:
    world = a_world("AgentConnected")
    world.settle()
    world.thaws = False
    match end:
        case "moment":
            world.drive(ready_to_use=True)
        case "deletion":
            world.delete("snapshot")
        case "failure":
            assert world.driver_snapshots is not None
            del world.driver_snapshots[COPIES["root"]]
    assert world.settle().again_after == 1
    assert is_locked(world)
    assert world.content is not None
    assert FROZEN_UNTIL in world.content.metadata.annotations
    # The controller was started again, and what it had asked is forgotten.
    world.freeze, world.thaws = None, True
    world.settle()
    assert world.guest_orders.count("thaw") == 1
    assert not is_locked(world)
    assert world.content is None or FROZEN_UNTIL not in world.content.metadata.annotations


def take(world: World) -> None:
    world.settle()
    world.drive(ready_to_use=True, restore_size=20 << 30)
    world.settle()
    assert status(world).phase == "Succeeded"


def test_disks_are_made_of_volume_snapshots_by_their_driver() -> None:
    world = a_world()
    take(world)
    world.ask_restore()
    world.settle_restore()
    made = world.volumes[NEW["root"]].spec
    assert made.source is None
    assert made.pvc is not None
    assert made.pvc.data_source == {
        "apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot",
        "name": COPIES["root"],
    }
    assert made.pvc.storage_class_name == "disks"
    assert made.pvc.resources.requests == {"storage": str(20 << 30)}
    world.fill(*NEW.values())
    world.settle_restore()
    assert world.restore is not None
    assert world.restore.status.complete
    assert world.volumes[NEW["root"]].metadata.annotations[PRE_POPULATED] == NEW["root"]


def test_a_claim_that_its_driver_fills_once_it_is_used_is_waited_for_by_nobody() -> None:
    world = a_world()
    take(world)
    world.ask_restore()
    world.settle_restore()
    for name in NEW.values():
        world.volumes[name].status.phase = "PendingPopulation"
    world.settle_restore()
    assert world.restore is not None
    assert not world.restore.status.complete
    world.binds_late = set(NEW.values())
    world.settle_restore()
    assert world.restore.status.complete


def test_what_is_filled_after_the_end_is_not_filled_again_without_a_word() -> None:
    world = a_world()
    take(world)
    world.ask_restore()
    world.settle_restore()
    world.binds_late = set(NEW.values())
    for name in NEW.values():
        world.volumes[name].status.phase = "PendingPopulation"
    world.settle_restore()
    world.fill(*NEW.values())
    world.settle_restore()
    assert world.volumes[NEW["root"]].metadata.annotations[PRE_POPULATED] == NEW["root"]


def test_a_snapshot_that_claims_are_still_to_be_filled_from_is_not_deleted() -> None:
    world = a_world()
    take(world)
    world.unfilled = [NEW["root"]]
    world.delete("snapshot")
    world.settle()
    assert content_of(world).metadata.deletion_timestamp is None
    assert "is still to be filled from it: start the VM" in waits_for(world)
    world.unfilled = []
    world.settle()
    assert world.content is None


def test_a_content_that_claims_are_still_to_be_filled_from_stays_when_it_is_deleted() -> None:
    world = a_world()
    take(world)
    world.delete("content")
    assert plan_letting_go(content_of(world), [NEW["root"]]) is None
    assert plan_letting_go(content_of(world), []) is not None


def test_claims_that_are_still_to_be_filled_are_those_of_this_content_that_are_not_bound() -> None:
    world = a_world()
    take(world)
    source = {"kind": "VolumeSnapshot", "name": COPIES["root"]}
    claims = [
        a_claim(name, phase=phase, data_source=each)
        for name, phase, each in (
            ("waits", "Pending", source),
            ("has-it", "Bound", source),
            ("of-another", "Pending", {**source, "name": "x"}),
            ("of-none", "Pending", None),
        )
    ]
    found = find_unfilled(SimpleNamespace(list=lambda: claims), world.content)  # type: ignore[arg-type]
    assert found == ["waits"]


def test_a_restore_of_volume_snapshots_that_are_gone_fails() -> None:
    world = a_world()
    take(world)
    world.ask_restore()
    assert world.driver_snapshots is not None
    del world.driver_snapshots[COPIES["root"]]
    world.settle_restore()
    assert world.reason("restore", "Failure") == f"VolumeSnapshot {COPIES['root']} is gone"


def test_the_claim_of_a_disk_is_as_large_as_before() -> None:
    world = a_world()
    world.claims["web-root"] = a_claim("web-root", storage_class_name="disks")
    world.settle()
    world.drive(ready_to_use=True)
    world.settle()
    world.ask_restore()
    world.settle_restore()
    made = world.volumes[NEW["root"]].spec.pvc
    assert made is not None
    assert made.resources.requests == {"storage": str(10 << 30)}
