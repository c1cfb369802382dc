"""Volumes in thin pools, by a played lvm2: what is made, found again, refused and left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.storage.volumes.thin_driver import ThinDriver
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.volume_driver import (
    MAKING_STEPS,
    NAMED,
    PUT_AWAY,
    NewVolume,
    PlaceMissing,
    VolumeDriverError,
    ignore_step,
)
from tests.support.played_lvm import PlayedLvm

MIB = 1 << 20
UID = "6a0e8a0c-8a5d-47d1-b2c4-0a4d6a3f0001"
OTHER = "6a0e8a0c-8a5d-47d1-b2c4-0a4d6a3f0002"
SNAPSHOT = f"snapshot-{OTHER}"


class PowerCut(BaseException):
    """The driver ends here."""


def cut_at(step: str) -> Callable[[str], None]:
    def stepped(now: str) -> None:
        if now == step:
            raise PowerCut

    return stepped


def driver(lvm: PlayedLvm, place: Path, stepped: Callable[[str], None] = ignore_step) -> ThinDriver:
    identity = ThinIdentity("ssd", "thin", place / "memory")
    made = ThinDriver(identity, place / "devices", place / "mounts", lvm, stepped)
    made.prepare()
    return made


def a_disk(name: str = UID, size: int = 8 * MIB) -> NewVolume:
    return NewVolume(name, size, block=True)


def test_a_device_is_the_logical_volume_itself_and_has_the_claims_name(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    made.make(a_disk())
    made.make(a_disk())
    assert list(lvm.rows) == ["thin", "foreign", f"kvedge-{UID}"]
    link, node = made.attach(UID), f"/dev/mapper/ssd-kvedge--{UID.replace('-', '--')}"
    assert (link, str(link.readlink())) == (tmp_path / "devices" / UID, node)
    assert made.describe(UID) == (8 * MIB, True)
    made.detach(UID)
    assert lvm.rows[f"kvedge-{UID}"]["lv_kernel_minor"] == "-1"
    assert not link.is_symlink()
    # By its name, as the number may be another volume's by now.
    assert str(made.attach(UID).readlink()) == node


def test_a_pool_that_is_not_active_is_made_so(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    lvm.rows["thin"]["lv_kernel_minor"] = "-1"
    driver(lvm, tmp_path)
    assert (lvm.ran[0][0], *lvm.ran[0][-3:-1]) == ("lvchange", "--activate", "y")


@pytest.mark.parametrize("step", MAKING_STEPS)
def test_a_volume_is_whole_or_not_there_wherever_a_power_cut_comes(tmp_path: Path, step: str) -> None:
    lvm = PlayedLvm.with_pool()
    with pytest.raises(PowerCut):
        driver(lvm, tmp_path, cut_at(step)).make(a_disk())
    again = driver(lvm, tmp_path)
    assert list(again.names()) == ([UID] if step == NAMED else [])
    assert not [name for name in lvm.rows if "-new-" in name]
    again.make(a_disk())
    assert list(again.names()) == [UID]


def test_a_removal_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    driver(lvm, tmp_path).make(a_disk())
    with pytest.raises(PowerCut):
        driver(lvm, tmp_path, cut_at(PUT_AWAY)).remove(UID)
    again = driver(lvm, tmp_path)
    again.remove(UID)
    again.remove(UID)
    assert list(lvm.rows) == ["thin", "foreign"]


@pytest.mark.parametrize("name", [f"kvedge-{UID}", f"kvedge-new-{UID}"], ids=["its name", "its name before"])
def test_a_volume_of_somebody_else_is_neither_taken_nor_removed(tmp_path: Path, name: str) -> None:
    lvm = PlayedLvm.with_pool()
    lvm.add(name, MIB, pool="thin")
    made = driver(lvm, tmp_path)
    with pytest.raises(VolumeDriverError, match=f"ssd/{name} was not made by kvedge"):
        made.make(a_disk())
    made.remove(UID)
    assert (name in lvm.rows, list(made.names()), lvm.ran) == (True, [], [])


def test_a_volume_grows_and_says_so_after_it_has_grown(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    made.make(a_disk())
    made.grow(UID, 16 * MIB)
    made.grow(UID, 4 * MIB)
    assert [words[0] for words in lvm.ran[-2:]] == ["lvextend", "lvchange"]
    assert made.usage(UID).size == 16 * MIB
    # A kill came before it was said: the same growth is asked for again.
    row = lvm.rows[f"kvedge-{UID}"]
    row.update(lv_size=str(32 * MIB), lv_tags=f"kvedge,kvedge.block,kvedge.size={16 * MIB}")
    made.grow(UID, 32 * MIB)
    assert made.usage(UID).size == 32 * MIB


def test_a_snapshot_has_no_device_and_becomes_a_larger_volume(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    made.make(a_disk())
    lvm.rows[f"kvedge-{UID}"]["data_percent"] = "50.00"
    assert (made.shares_blocks(), made.snapshots_at_once(UID)) == (True, True)
    made.snapshot(UID, SNAPSHOT, lambda: None, at_once=True)
    facts = made.snapshot_facts(SNAPSHOT)
    assert (facts.size, facts.block, facts.taken > 0) == (8 * MIB, True, True)
    assert str(facts.path) == f"/dev/ssd/kvedge-{SNAPSHOT}"
    assert made.space().snapshots == 4 * MIB
    made.clone(SNAPSHOT, a_disk(OTHER, 16 * MIB), lambda: None)
    assert made.describe(OTHER) == (16 * MIB, True)
    made.remove(UID)
    assert sorted(made.names()) == sorted([OTHER, SNAPSHOT])


def test_a_device_is_as_large_as_its_extents_and_so_is_what_is_made_of_it(tmp_path: Path) -> None:
    made = driver(PlayedLvm.with_pool(), tmp_path)
    made.make(a_disk(size=9 * MIB))
    assert (made.usage(UID).size, made.describe(UID)) == (12 * MIB, (12 * MIB, True))
    made.snapshot(UID, SNAPSHOT, lambda: None, at_once=True)
    assert made.snapshot_facts(SNAPSHOT).size == 12 * MIB
    # By the size that its source was asked for, which gives it the same extents.
    made.clone(SNAPSHOT, a_disk(OTHER, 9 * MIB), lambda: None)
    assert made.describe(OTHER) == (12 * MIB, True)
    made.grow(UID, 11 * MIB)
    assert made.usage(UID).size == 12 * MIB


def test_a_volume_with_files_holds_what_was_asked_and_takes_more(tmp_path: Path) -> None:
    made = driver(PlayedLvm.with_pool(), tmp_path)
    assert made.room_for(64 * MIB, block=False) == 84 * MIB
    assert made.room_for(64 * MIB, block=True) == 64 * MIB
    assert made.takes_all_at_once() is True


def test_a_clone_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    made.make(a_disk())

    def give_up() -> None:
        raise VolumeDriverError("not wanted any more")

    with pytest.raises(VolumeDriverError, match="not wanted"):
        made.clone(UID, a_disk(OTHER), give_up)
    assert list(lvm.rows) == ["thin", "foreign", f"kvedge-{UID}"]


@pytest.mark.parametrize(
    ("volume", "word"),
    [(NewVolume(OTHER, 8 * MIB), "the volume mode of its source"), (a_disk(OTHER, MIB), "at least as large")],
    ids=["another mode", "a smaller one"],
)
def test_a_clone_is_like_its_source(tmp_path: Path, volume: NewVolume, word: str) -> None:
    made = driver(PlayedLvm.with_pool(), tmp_path)
    made.make(a_disk())
    with pytest.raises(VolumeDriverError, match=word):
        made.clone(UID, volume, lambda: None)


@pytest.mark.parametrize(
    ("data", "metadata", "remedy"),
    [("95.10", "5.00", "lvextend --size"), ("10.00", "95.00", "lvextend --poolmetadatasize")],
    ids=["of data", "of metadata"],
)
def test_nothing_new_is_put_into_a_pool_that_is_full(tmp_path: Path, data: str, metadata: str, remedy: str) -> None:
    lvm = PlayedLvm.with_pool(data, metadata)
    made = driver(lvm, tmp_path)
    with pytest.raises(VolumeDriverError, match=remedy):
        made.make(a_disk())
    assert lvm.ran == []
    assert made.space().index_percent == int(float(metadata))


def test_another_group_of_the_same_name_is_found_out_before_anything_is_written(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    lvm.group["uuid"] = "another"
    with pytest.raises(PlaceMissing, match="another"):
        made.make(a_disk())
    with pytest.raises(PlaceMissing, match="there is another volume group of that name"):
        driver(lvm, tmp_path)
    assert lvm.ran == []


def test_another_pool_of_the_same_name_is_found_out(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    driver(lvm, tmp_path)
    lvm.rows["thin"]["lv_uuid"] = "made anew"
    with pytest.raises(PlaceMissing, match="another pool has its name"):
        driver(lvm, tmp_path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"lv_layout": "linear"}, "ssd/thin is no thin pool: make it"),
        (
            {"lv_check_needed": "check needed"},
            "damaged .needs a check.: stop its VMs and run lvconvert --repair ssd/thin",
        ),
        ({"lv_health_status": "metadata_read_only"}, "damaged .metadata_read_only."),
        ({"vg_missing_pv_count": "1"}, "lacks 1 of its disks"),
    ],
    ids=["no pool", "not checked", "read-only", "a disk away"],
)
def test_a_pool_that_cannot_be_used_is_told_with_what_to_do(tmp_path: Path, change: dict[str, str], word: str) -> None:
    lvm = PlayedLvm.with_pool()
    lvm.rows["thin"].update(change)
    with pytest.raises(PlaceMissing, match=word):
        driver(lvm, tmp_path)


def test_a_pool_that_does_not_clear_its_blocks_takes_nothing_new(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    lvm.rows["thin"]["zero"] = ""
    with pytest.raises(VolumeDriverError, match="others have written: lvchange --zero y ssd/thin"):
        made.make(a_disk())


def test_a_disk_that_has_another_name_since_is_found_again(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    made = driver(lvm, tmp_path)
    lvm.group["device"] = "/dev/sdc"
    made.make(a_disk())
    assert list(made.names()) == [UID]


def test_what_a_killed_program_left_suspended_goes_on(tmp_path: Path) -> None:
    lvm = PlayedLvm.with_pool()
    driver(lvm, tmp_path).make(a_disk())
    lvm.rows[f"kvedge-{UID}"]["lv_suspended"] = "suspended"
    driver(lvm, tmp_path)
    assert lvm.rows[f"kvedge-{UID}"]["lv_suspended"] == ""


def test_a_volume_that_is_not_there_is_told(tmp_path: Path) -> None:
    made = driver(PlayedLvm.with_pool(), tmp_path)
    with pytest.raises(VolumeDriverError, match=f"volume {UID} is not in thin pool ssd/thin"):
        made.attach(UID)
    with pytest.raises(VolumeDriverError, match="no name of a volume"):
        made.make(a_disk("../foreign"))
