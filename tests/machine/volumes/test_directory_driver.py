"""Volumes as directories and files: whole or not there, whatever step they are interrupted at."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.storage.volumes.directory_driver import DirectoryDriver
from kvedge.storage.volumes.place_identity import IDENTITY_FILE, PlaceIdentity
from kvedge.storage.volumes.tree_copy import tree_bytes
from kvedge.storage.volumes.volume_driver import (
    MAKING_STEPS,
    NAMED,
    REMOVING_STEPS,
    NewVolume,
    PlaceMissing,
    VolumeDriverError,
    ignore_step,
)

pytestmark = pytest.mark.machine

NAME = "00000000-1111-2222-3333-444444444444"
OTHER = "99999999-1111-2222-3333-444444444444"
KEPT = f"snapshot-{OTHER}"
SIZE = 8 << 20


class Killed(BaseException):
    """Stands for a kill -9: nothing of ours cleans up."""


def driver(path: Path, killed_at: str = "") -> DirectoryDriver:
    def stepped(step: str) -> None:
        if step == killed_at:
            raise Killed(step)

    def at_once(name: str, work: Callable[..., object], *arguments: object) -> None:
        work(*arguments)

    place = PlaceIdentity(path / "volumes", path / "memory", made_here=True)
    made = DirectoryDriver(place, path / "dev", stepped if killed_at else ignore_step, at_once)
    made.prepare()
    return made


@pytest.mark.parametrize("step", MAKING_STEPS)
@pytest.mark.parametrize("block", [False, True], ids=["file system", "block"])
def test_a_volume_whose_making_is_killed_is_whole_or_not_there_and_is_made_by_a_second_call(
    step: str, block: bool, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        driver(tmp_path, step).make(NewVolume(NAME, SIZE, block))
    again = driver(tmp_path)
    assert list(again.names()) == ([NAME] if step == NAMED else [])
    assert not list((tmp_path / "volumes").glob(".new-*"))
    again.make(NewVolume(NAME, SIZE, block))
    assert again.usage(NAME).size == SIZE
    assert not block or (tmp_path / "volumes" / NAME / "block.img").stat().st_size == SIZE


@pytest.mark.parametrize("step", MAKING_STEPS)
def test_a_clone_that_is_killed_is_whole_or_not_there_and_its_source_is_untouched(step: str, tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE))
    disk = made.attach(NAME) / "disk.img"
    disk.write_bytes(os.urandom(1 << 20))
    with pytest.raises(Killed):
        driver(tmp_path, step).clone(NAME, NewVolume(OTHER, SIZE), lambda: None)
    again = driver(tmp_path)
    assert sorted(again.names()) == ([NAME, OTHER] if step == NAMED else [NAME])
    again.clone(NAME, NewVolume(OTHER, SIZE), lambda: None)
    copy = again.attach(OTHER)
    assert (copy / "disk.img").read_bytes() == disk.read_bytes()
    assert (copy.stat().st_uid, copy.stat().st_mode) == (disk.parent.stat().st_uid, disk.parent.stat().st_mode)


@pytest.mark.parametrize("step", MAKING_STEPS)
@pytest.mark.parametrize("block", [False, True], ids=["file system", "block"])
def test_a_snapshot_that_is_killed_is_whole_or_not_there_and_its_volume_is_untouched(
    step: str, block: bool, tmp_path: Path
) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE, block))
    disk = tmp_path / "volumes" / NAME / ("block.img" if block else "disk.img")
    content = os.urandom(1 << 20)
    with disk.open("r+b" if block else "wb") as file:
        file.write(content)
    with pytest.raises(Killed):
        driver(tmp_path, step).snapshot(NAME, KEPT, lambda: None, at_once=False)
    again = driver(tmp_path)
    assert sorted(again.names()) == ([NAME, KEPT] if step == NAMED else [NAME])
    assert not list((tmp_path / "volumes").glob(".new-*"))
    again.snapshot(NAME, KEPT, lambda: None, at_once=False)
    facts = again.snapshot_facts(KEPT)
    assert (facts.size, facts.block, facts.taken > 0) == (SIZE, block, True)
    assert (tmp_path / "volumes" / KEPT / disk.name).read_bytes()[: 1 << 20] == content
    assert disk.read_bytes()[: 1 << 20] == content


def test_a_snapshot_is_told_from_volumes_by_its_name_and_its_room_is_known(tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE))
    (made.attach(NAME) / "disk.img").write_bytes(os.urandom(1 << 20))
    made.snapshot(NAME, KEPT, lambda: None, at_once=False)
    space = made.space()
    assert space.snapshots >= 1 << 20
    assert space.held >= 2 * space.snapshots
    made.remove(KEPT)
    assert made.space().snapshots == 0


def test_where_blocks_are_not_shared_nothing_is_of_one_moment(tmp_path: Path) -> None:
    made = driver(tmp_path)
    if made.shares_blocks():
        pytest.skip("this file system shares blocks")
    made.make(NewVolume(NAME, SIZE))
    (made.attach(NAME) / "disk.img").write_bytes(b"data")
    assert not made.snapshots_at_once(NAME)
    with pytest.raises(VolumeDriverError, match="copying failed"):
        made.snapshot(NAME, KEPT, lambda: None, at_once=True)
    assert list(made.names()) == [NAME]


@pytest.mark.parametrize("step", REMOVING_STEPS)
def test_a_removal_that_is_killed_leaves_no_volume_and_is_finished_at_the_next_start(step: str, tmp_path: Path) -> None:
    made = driver(tmp_path, step)
    made.make(NewVolume(NAME, SIZE))
    with pytest.raises(Killed):
        made.remove(NAME)
    again = driver(tmp_path)
    assert list(again.names()) == []
    assert not list((tmp_path / "volumes").glob(".gone-*"))
    again.remove(NAME)


def test_a_volume_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE))
    (made.attach(NAME) / "disk.img").write_bytes(b"data")
    made.make(NewVolume(NAME, SIZE))
    assert (made.attach(NAME) / "disk.img").read_bytes() == b"data"


def test_a_device_grows_while_it_is_attached_and_never_shrinks(tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE, block=True))
    device = made.attach(NAME)
    try:
        for wanted, size in ((2 * SIZE, 2 * SIZE), (SIZE, 2 * SIZE)):
            made.grow(NAME, wanted)
            opened = os.open(device, os.O_RDONLY)
            assert os.lseek(opened, 0, os.SEEK_END) == size
            os.close(opened)
        assert made.usage(NAME).size == 2 * SIZE
    finally:
        made.detach(NAME)
    assert not device.is_symlink()


def test_a_sparse_disk_is_cloned_without_filling_its_holes(tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, 1 << 30))
    disk = made.attach(NAME) / "disk.img"
    disk.write_bytes(b"x" * 4096)
    os.truncate(disk, 1 << 30)
    made.clone(NAME, NewVolume(OTHER, 1 << 30), lambda: None)
    assert tree_bytes(made.attach(OTHER)) < 1 << 20


def test_a_clone_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE))

    def give_up() -> None:
        raise InterruptedError(4, "stopping")

    with pytest.raises(VolumeDriverError):
        made.clone(NAME, NewVolume(OTHER, SIZE), give_up)
    assert list(made.names()) == [NAME]


def test_a_link_in_a_volume_is_erased_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE))
    (made.attach(NAME) / "link").symlink_to(outside)
    made.remove(NAME)
    assert (outside / "precious").read_text() == "kept"


def test_a_place_without_its_disk_or_with_another_one_is_not_written_to(tmp_path: Path) -> None:
    made = driver(tmp_path)
    made.make(NewVolume(NAME, SIZE))
    place, disk = tmp_path / "volumes", tmp_path / "disk"
    place.rename(disk)
    place.mkdir()
    with pytest.raises(PlaceMissing, match="its disk is not mounted"):
        made.make(NewVolume(OTHER, SIZE))
    (place / IDENTITY_FILE).write_text('{"place": "another"}')
    with pytest.raises(PlaceMissing, match="another disk is mounted there"):
        made.remove(NAME)
    shutil.rmtree(place)
    with pytest.raises(PlaceMissing, match="mount its disk"):
        made.make(NewVolume(OTHER, SIZE))
    disk.rename(place)
    made.make(NewVolume(OTHER, SIZE))


@pytest.mark.parametrize("name", ["", ".records", "../etc", "a/b"], ids=["empty", "ours", "above", "below"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(VolumeDriverError, match="is no name of a volume"):
        driver(tmp_path).make(NewVolume(name, SIZE))


def test_a_directory_of_somebody_else_s_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    DirectoryDriver(PlaceIdentity(shared, tmp_path / "shared-memory"), tmp_path / "dev").prepare()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    assert stat.S_IMODE((shared / ".records").stat().st_mode) == 0o700
    driver(tmp_path)
    assert stat.S_IMODE((tmp_path / "volumes").stat().st_mode) == 0o700
