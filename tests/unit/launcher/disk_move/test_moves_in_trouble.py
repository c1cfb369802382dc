# Tests: kvedge/launcher/disk_move/, kvedge/handler/disk_move/
"""What a move of disks does when a user, QEMU or the API is in its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.disk_move.disk_move_plan import LEASE_SECONDS
from kvedge.launcher.launcher_errors import Postponed, WrongState
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_FAILED,
    DISK_MOVE_GOAL_SETTLE,
    DISK_MOVE_READY,
    MoveDisksRequest,
)
from kvedge.storage.arriving_mark import ARRIVING
from tests.unit.launcher.disk_move.disk_move_play import Play, run
from tests.unit.launcher.disk_move.disk_move_world import DEVICES, VOLUMES, World


def test_a_user_who_takes_it_back_has_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    assert play.status().disk_move.state == DISK_MOVE_READY
    world.vmi.status.migrated_volumes, world.vmi.status.conditions = [], []
    run(play)
    assert (world.stale, world.refused, world.paused) == ([], [], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-old", "data-old"]
    assert [list(world.directory(name).iterdir()) for name in VOLUMES] == [[], []]


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_disk_that_qemu_does_not_exchange_stays_and_the_vmi_says_so(
    devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, fails={"pivot"}, devices=devices)
    play = Play(world, monkeypatch)
    for _ in range(4 if devices else 3):
        play.handler_pass()
        play.copy()
        play.launcher_pass()
        world.now += 1
    assert play.status().disk_move.state == DISK_MOVE_FAILED
    assert [claim_of(volume) for volume in world.vmi.spec.volumes] == ["root-old", "data-old"]
    assert (world.stale, world.paused) == ([], False)
    world.fails.clear()
    run(play, rounds=40)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


@pytest.mark.parametrize("failure", ["begin", "alike"])
def test_what_fails_is_tried_again_later(failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, fails={failure})
    play = Play(world, monkeypatch)
    run(play)
    assert (world.stale, world.refused, world.paused) == ([], [], False)
    assert [disk.claim for disk in world.disks.values()] == ["root-old", "data-old"]
    world.fails.clear()
    run(play, rounds=400)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_a_guest_whose_vmi_may_not_be_written_goes_on_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, fails={"write"})
    play = Play(world, monkeypatch)
    for _ in range(4):
        play.handler_pass()
        play.copy()
        play.launcher_pass()
        assert not world.paused
    assert (world.stale, world.refused, play.status().disk_move.state) == ([], [], DISK_MOVE_READY)
    world.fails.clear()
    run(play)
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_a_copy_that_qemu_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    for disk in world.disks.values():
        disk.mirror = ""
    play.launcher_pass()
    word = play.status().disk_move
    assert word.state == DISK_MOVE_FAILED
    assert "QEMU has ended a copy" in word.message
    # A copy keeps its word until the handler knows what the VMI names.
    assert all((world.directory(name) / ARRIVING).exists() for name in VOLUMES)


def test_a_guest_that_a_user_has_paused_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.paused = True
    play = Play(world, monkeypatch)
    run(play)
    assert world.paused
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]


def test_orders_wait_while_the_cpus_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    word = play.status().disk_move
    play.launcher.order(MoveDisksRequest(move_id=word.move_id, goal=DISK_MOVE_GOAL_SETTLE))
    assert (play.launcher.holds_guest, world.paused) == (True, True)
    with pytest.raises(WrongState, match="being exchanged"):
        play.launcher.refuse_while_holding()
    world.now += LEASE_SECONDS + 1
    play.launcher_pass()
    play.launcher.refuse_while_holding()
    assert (play.launcher.holds_guest, world.paused) == (False, False)


def test_a_guest_that_somebody_let_go_on_is_settled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    play = Play(world, monkeypatch)
    play.handler_pass()
    play.copy()
    play.launcher_pass()
    order = MoveDisksRequest(move_id=play.status().disk_move.move_id, goal=DISK_MOVE_GOAL_SETTLE)
    play.launcher.order(order)
    world.paused = False
    world.write()
    with pytest.raises(Postponed, match="went on"):
        play.launcher.order(order)
    assert all((world.directory(name) / ARRIVING).exists() for name in VOLUMES)
    run(play)
    assert (world.stale, [disk.claim for disk in world.disks.values()]) == ([], ["root-new", "data-new"])


def test_a_move_that_cannot_begin_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    for name in VOLUMES:
        world.image(name).write_bytes(b"somebody's data")
    play = Play(world, monkeypatch)
    play.handler_pass()
    word = play.status().disk_move
    assert word.state == DISK_MOVE_FAILED
    assert "holds data" in word.message
    assert world.image("root").read_bytes() == b"somebody's data"
