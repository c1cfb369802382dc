# Tests: kvedge/launcher/disk_move/, kvedge/handler/disk_move/
"""What a guest may write, and when it stands, while its disk moves onto a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.launcher.disk_move import moving_disks
from kvedge.launcher.disk_move.disk_move_plan import LEASE_SECONDS
from kvedge.launcher.launcher_errors import Postponed, WrongState
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.moved_volumes import as_moved
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_DONE,
    DISK_MOVE_FAILED,
    DISK_MOVE_GOAL_ABORT,
    DISK_MOVE_GOAL_FINISH,
    DISK_MOVE_GOAL_SETTLE,
    DomainStatus,
    MoveDisksRequest,
)
from tests.unit.launcher.disk_move.disk_move_play import Play, run
from tests.unit.launcher.disk_move.disk_move_world import DEVICES, VOLUMES, Killed, World


def settle(play: Play) -> MoveDisksRequest:
    """Bring a move to where the guest stands, and no claims are exchanged yet; the order for it."""
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    order = MoveDisksRequest(move_id=play.status().disk_move.move_id, goal=DISK_MOVE_GOAL_SETTLE)
    play.launcher.order(order)
    return order


def test_a_handler_that_knows_an_old_vmi_lets_no_guest_go_on_beside_its_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    settle(play)
    old = world.vmi
    # The claims are exchanged, but the answer is lost, and the watch is late.
    world.fails.add("answer")
    with pytest.raises(Unavailable):
        play.handler_pass()
    world.fails.clear()
    play.known = old
    for _ in range(3):
        play.handler_pass()
        play.launcher_pass()
        assert (world.stale, world.paused) == ([], True)
    # Nor does it by what it believes that a user has taken back.
    old.status.migrated_volumes, old.status.conditions = [], []
    for _ in range(3):
        play.handler_pass()
        play.launcher_pass()
        assert (world.stale, world.paused) == ([], True)
    play.known = None
    run(play)
    assert (world.stale, [disk.claim for disk in world.disks.values()]) == ([], ["root-new", "data-new"])
    assert not world.paused


def test_a_copy_on_a_device_that_ends_while_the_guest_stands_has_it_wait_for_its_vmi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    order = settle(play)
    # The claims are exchanged, the handler is killed, and then the device fails.
    wanted = world.vmi.status.migrated_volumes
    world.vmi = decode(VirtualMachineInstance, encode(as_moved(world.vmi)))
    world.vmi.status.migrated_volumes = wanted
    for disk in world.disks.values():
        disk.mirror = ""
    play.launcher_pass()
    play.launcher = play.start_launcher()
    for _ in range(3):
        world.now += LEASE_SECONDS
        play.launcher_pass()
    word = play.status().disk_move
    assert (world.paused, word.state, word.stands) == (True, DISK_MOVE_FAILED, True)
    for goal in (DISK_MOVE_GOAL_SETTLE, DISK_MOVE_GOAL_FINISH):
        with pytest.raises(WrongState, match="name the old claims"):
            play.launcher.order(MoveDisksRequest(move_id=order.move_id, goal=goal))
    run(play, rounds=40)
    assert (world.stale, world.paused) == ([], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_a_guest_that_somebody_lets_go_on_beside_its_device_is_stopped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    settle(play)
    world.paused = False
    world.write()
    play.launcher_pass()
    assert (world.paused, play.status().disk_move.stands) == (True, True)
    run(play, rounds=40)
    assert (world.stale, world.paused) == ([], False)


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_guest_stands_while_qemu_still_exchanges_what_a_killed_launcher_has_told_it_to(
    devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, fails={"slow pivot"}, devices=devices)
    play = Play(world, monkeypatch)
    settle(play)
    with pytest.raises(Killed):
        play.handler_pass()
    play.launcher = play.start_launcher()
    world.fails.clear()
    for _ in range(int(LEASE_SECONDS)):
        play.launcher_pass()
        play.handler_pass()
        world.now += 2
        assert (world.stale, world.refused, world.paused) == ([], [], True)
        assert [claim_of(volume) for volume in world.vmi.spec.volumes] == ["root-new", "data-new"]
    assert "still exchanges volume root: the guest stands" in play.status().disk_move.message
    with pytest.raises(Postponed, match="being exchanged"):
        play.launcher.order(MoveDisksRequest(move_id=play.status().disk_move.move_id, goal=DISK_MOVE_GOAL_SETTLE))
    world.end_slow_pivots()
    run(play)
    assert (world.stale, world.refused, world.paused) == ([], [], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]
    assert play.status().disk_move.state == DISK_MOVE_DONE


def stand(play: Play) -> str:
    """Bring a move of two devices to where the first one was exchanged, the second was not, and the VMI says so; its
    id.
    """
    settle(play)
    play.world.fails.add("pivot data")
    for _ in range(2):
        play.handler_pass()
    assert [claim_of(volume) for volume in play.world.vmi.spec.volumes] == ["root-new", "data-old"]
    assert play.status().disk_move.stands
    return play.status().disk_move.move_id


def test_a_guest_stands_on_when_a_disk_moves_to_its_device_after_it_was_said_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    stand(play)
    world.disks["data"].claim = "data-new"
    for _ in range(6):
        play.handler_pass()
        play.launcher_pass()
        world.now += 1
        assert (world.stale, world.paused) == ([], True)
    assert "data moved to claim data-new after QEMU had refused it" in play.status().disk_move.message
    # The next launcher knows it as well.
    play.launcher = play.start_launcher()
    play.handler_pass()
    assert (world.stale, world.paused) == ([], True)


def test_no_device_is_wiped_that_the_guest_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    wiped: list[str] = []
    monkeypatch.setattr(moving_disks, "wipe_device", wiped.append)
    order = MoveDisksRequest(move_id=stand(play), goal=DISK_MOVE_GOAL_ABORT)
    # What is left is the document of the next start, which has no disk that was plugged in.
    world.has_ended, world.unseen = True, set(VOLUMES)
    for _ in range(2):
        with pytest.raises(WrongState, match="the guest has ended"):
            play.launcher.order(order)
        monkeypatch.setattr(world, "facts", lambda: None)
    assert wiped == []
    monkeypatch.undo()
    monkeypatch.setattr(moving_disks, "wipe_device", wiped.append)
    # It ends between two questions of one look: it seems to live, and not to have the disk.
    world.has_ended = False
    play.launcher.order(order)
    play.launcher.order(order)
    assert set(wiped) == {str(world.image("data"))}


@pytest.mark.parametrize("ends", ["before", "within"])
@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_guest_that_ends_while_its_disks_are_exchanged_leaves_the_new_ones_as_disks(
    devices: tuple[str, ...], ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=devices)
    play = Play(world, monkeypatch)
    order = settle(play)
    world.vmi = decode(VirtualMachineInstance, encode(as_moved(world.vmi)))
    world.has_ended = ends == "before"
    world.fails.add("qemu")
    with pytest.raises(WrongState, match="guest"):
        play.launcher.order(MoveDisksRequest(move_id=order.move_id, goal=DISK_MOVE_GOAL_FINISH))
    for _ in range(2):
        play.launcher_pass()
        world.cut_power()
        play.launcher = play.start_launcher()
    assert (world.has_ended, world.stale, world.refused) == (True, [], [])


def test_a_launcher_of_an_earlier_version_is_asked_for_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, devices=VOLUMES)
    play = Play(world, monkeypatch)
    real = play.status

    def status() -> DomainStatus:
        said = real()
        said.moves_to_devices = False
        return said

    monkeypatch.setattr(play, "status", status)
    assert "earlier version" in play.handler_pass()
    assert not any(disk.mirror for disk in world.disks.values())
