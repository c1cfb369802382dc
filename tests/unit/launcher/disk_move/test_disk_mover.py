# Tests: kvedge/launcher/disk_move/, kvedge/handler/disk_move/
"""Disks that move in place, with the launcher's and the handler's real parts, real words beside real images, and a QEMU
and an API that are played.

Whoever is killed at whatever step: a power cut at any moment finds, on the claim that the VMI names, all that the guest
was told is written, or a word that it is no disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.disk_move.disk_move_plan import LEASE_SECONDS
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_DONE,
)
from tests.unit.launcher.disk_move.disk_move_play import Play, run
from tests.unit.launcher.disk_move.disk_move_world import BYTES, DEVICES, VOLUMES, Killed, World


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_move_without_trouble(devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, devices=devices)
    play = Play(world, monkeypatch)
    run(play)
    assert (world.stale, world.refused) == ([], [])
    assert [disk.claim for disk in world.disks.values()] == ["root-new", "data-new"]
    assert (world.paused, play.status().disk_move.state) == (False, DISK_MOVE_DONE)
    assert not world.vmi.metadata.annotations
    for name in set(VOLUMES) - set(devices):
        assert [path.name for path in world.directory(name).iterdir()] == ["disk.img"]
        assert world.image(name).stat().st_size == BYTES


def _count_steps(tmp_path: Path, devices: tuple[str, ...]) -> int:
    (tmp_path / "count").mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        world = World(tmp_path / "count", devices=devices)
        run(Play(world, monkeypatch))
        assert world.steps > 11
        return world.steps


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_whoever_is_killed_at_any_step(
    devices: tuple[str, ...], is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_count = _count_steps(tmp_path, devices)
    for number in range(1, step_count + 1):
        root = tmp_path / str(number)
        root.mkdir()
        with monkeypatch.context() as patched:
            world = World(root, dies_at=number, is_done=is_done, devices=devices)
            play = Play(world, patched)
            # Long enough for a second attempt after a pause.
            run(play, rounds=40)
            assert (number, world.stale, world.refused) == (number, [], [])
            claims = [disk.claim for disk in world.disks.values()]
            assert (number, claims, world.paused) == (number, ["root-new", "data-new"], False)


@pytest.mark.parametrize("devices", DEVICES, ids="-".join)
def test_a_guest_that_nobody_comes_back_to_goes_on_with_what_its_vmi_names_or_is_refused(
    devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_count = _count_steps(tmp_path, devices)
    for number in range(1, step_count + 1):
        root = tmp_path / str(number)
        root.mkdir()
        with monkeypatch.context() as patched:
            world = World(root, dies_at=number, is_done=True, devices=devices)
            play = Play(world, patched)
            for _ in range(8):
                try:
                    play.handler_pass()
                    play.launcher_pass()
                    play.copy()
                except Killed:
                    break
                world.now += 1.0
            play.launcher = play.start_launcher()
            world.now += LEASE_SECONDS + 1
            for _ in range(3):
                play.launcher_pass()
            # No handler for longer than the lease: the guest runs, or waits where a device has no room for a word, and
            # nothing old is taken for its disk.
            assert (number, world.stale) == (number, [])
            assert devices or not world.paused
            # Once there is one again, all is brought to its end.
            run(play, rounds=40)
            assert (number, world.stale) == (number, [])
            assert (number, [disk.claim for disk in world.disks.values()]) == (number, ["root-new", "data-new"])
