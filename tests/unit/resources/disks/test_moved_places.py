"""Where the claim is in the launcher's Pod that a disk moves to."""

from __future__ import annotations

import pytest

from kvedge.resources.disks.moved_places import find_place, is_moved_place, moved_path, moved_place
from kvedge.resources.values.name_grammar import is_label


def test_a_place_is_a_volumes_name_of_its_own_for_each_claim() -> None:
    names = {moved_place("root", "new"), moved_place("root", "newer"), moved_place("data", "new")}
    assert len(names) == 3
    assert all(is_label(name) and is_moved_place(name) for name in names)
    assert not is_moved_place("kvedge-moved-disk")


@pytest.mark.parametrize("block", [True, False])
def test_a_place_is_found_by_its_path(block: bool) -> None:
    name = moved_place("root", "new")
    assert find_place(moved_path(name, block=block)) == name


@pytest.mark.parametrize("path", ["", "/dev/root", "/var/run/kubevirt/hotplug-disks/data.img"])
def test_other_disks_are_in_no_such_place(path: str) -> None:
    assert find_place(path) == ""
