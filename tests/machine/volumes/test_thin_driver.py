"""The driver of thin pools on a real one: in a guest, whose kernel has device-mapper, by the distribution's lvm2."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

import pytest

from tests.machine.volumes.thin_pool_script import CLONE, DISK, FILES, FILES_CLONE, FILES_KEPT, KEPT
from tests.support.lvm_guest import run_in_lvm_guest

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the guest is made for x86_64"),
    pytest.mark.skipif(
        "KVEDGE_TEST_LVM" not in os.environ, reason="KVEDGE_TEST_LVM=1 tries thin pools of LVM in an emulated guest"
    ),
]

_SCRIPT = Path(__file__).with_name("thin_pool_script.py")
_SECONDS = 600.0


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script saw, by the names that it gave."""
    said = run_in_lvm_guest(_SCRIPT, tmp_path_factory.mktemp("lvm"), _SECONDS)
    found = {name: json.loads(text) for name, text in re.findall(r"^SAW ([a-z ]+) (\S.*)$", said, re.MULTILINE)}
    assert "lvm guest: ended 0" in said, said[-4000:]
    return found


def test_a_place_that_is_not_there_is_told_and_nothing_is_written(seen: dict[str, Any]) -> None:
    assert "PlaceMissing: thin pool ssd/thin cannot be used: there is no such volume group" in seen["nothing there"]


def test_a_volume_with_files_is_that_of_the_launchers_group_and_holds_a_disk_of_its_size(seen: dict[str, Any]) -> None:
    folder, mode, user, group, room = seen["folder"]
    assert (folder, mode, user, group) == (f"/run/kvedge/volumes/fast/{FILES}/data", "0o42770", 107, 107)
    assert room >= 64


def test_a_snapshot_keeps_what_was_there_and_a_clone_of_it_may_be_larger(seen: dict[str, Any]) -> None:
    assert seen["clone"] == ["before", 48]
    content, room = seen["clone of files"]
    assert (content, room >= 96) == ("before", True)


def test_a_device_is_told_with_its_whole_extents_and_a_clone_is_equal_to_its_last_byte(seen: dict[str, Any]) -> None:
    assert seen["odd"] == [12, 12, 12, True]


def test_qemu_finds_on_what_is_restored_what_it_wrote_before_the_snapshot(seen: dict[str, Any]) -> None:
    assert seen["qemu"] == [True] * 8


def test_a_mounted_volume_grows(seen: dict[str, Any]) -> None:
    size, room = seen["grown"]
    assert (size, room >= 100) == (100, True)


def test_what_a_power_cut_left_goes_at_the_next_start_and_all_else_is_found_again(seen: dict[str, Any]) -> None:
    assert (seen["after the cut"], seen["swept"]) == (True, True)
    names, notes = seen["adopted"]
    assert names == sorted([DISK, FILES, CLONE, FILES_CLONE, KEPT, FILES_KEPT])
    assert notes == [[f"pvc-{DISK}", "whose"]]


def test_a_volume_that_is_in_use_stays_and_a_removed_one_leaves_nothing(seen: dict[str, Any]) -> None:
    assert "is in use at /run/kvedge/volumes/fast" in seen["busy"]
    assert seen["left"] == [sorted([CLONE, FILES_CLONE]), False, False]


def test_a_full_pool_stops_its_writers_and_takes_nothing_new_until_there_is_room(seen: dict[str, Any]) -> None:
    assert seen["full"] == [True, 0]
    for each in ("refused", "refused to grow"):
        assert "thin pool ssd/thin is 100 % full: lvextend --size +10G ssd/thin" in seen[each]
    assert seen["room again"] > 90


def test_a_pool_that_does_not_clear_its_blocks_takes_no_volumes(seen: dict[str, Any]) -> None:
    assert "guests would read what others have written: lvchange --zero y ssd/thin" in seen["not cleared"]


def test_what_others_have_in_the_group_is_not_touched(seen: dict[str, Any]) -> None:
    assert "was not made by kvedge" in seen["foreign"]
    assert seen["theirs"] == "theirs"


def test_the_volume_group_of_a_guest_is_not_seen_on_the_host(seen: dict[str, Any]) -> None:
    assert (seen["groups"], seen["nested"]) == ([["ssd", ["/dev/vdb"]]], [])


def test_another_pool_in_the_place_of_the_known_one_is_found_out(seen: dict[str, Any]) -> None:
    assert "there is another volume group of that name" in seen["another"]
