# Tests: kvedge/launcher/libvirt/tracked_disks.py
"""What a backup takes, and which notes of changes stay."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.copies.backup_plan import (
    MOST_CHECKPOINTS,
    WantedBackup,
    check_backup,
    check_count,
    find_useless,
    why_full,
)
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.tracked_disks import TrackedDisk, bitmap_name, read_disks

GIB = 1 << 30


def wanted(**more: Any) -> WantedBackup:
    return WantedBackup(**{"target": "t", "directory": "web/b-2026-11-27_06-28-26", "name": "b", "base": "b-1", **more})


def disk(*checkpoints: str, size: int = GIB, more: tuple[str, ...] = ()) -> TrackedDisk:
    names = frozenset({*(bitmap_name(each, size) for each in checkpoints), *more})
    return TrackedDisk("node", size, frozenset(checkpoints), names)


def test_changes_are_enough_when_those_of_each_disk_are_known() -> None:
    assert why_full(wanted(), ["a", "b"], {"a": disk("b-1"), "b": disk("b-1", "b-0")}) == ""
    assert why_full(wanted(base=""), ["a"], {"a": disk()}) == ""


def test_one_disk_without_its_changes_has_all_taken_and_is_named() -> None:
    said = why_full(wanted(), ["a", "b"], {"a": disk("b-1"), "b": disk("b-0")})
    assert "disk b since checkpoint b-1 is not known" in said
    assert "disks a, b" in why_full(wanted(), ["a", "b"], {})


def test_notes_that_nobody_needs_go() -> None:
    disks = {"a": disk("b-1", "b-0", "other", more=("kvedge-served",))}
    found = set(find_useless(wanted(keep=frozenset({"other"})), disks))
    assert found == {("a", bitmap_name("b-0", GIB)), ("a", "kvedge-served")}


def test_there_is_a_most_of_checkpoints() -> None:
    names = [f"c{number}" for number in range(MOST_CHECKPOINTS)]
    check_count(["a"], {"a": disk(*names[1:])})
    with pytest.raises(BadRequest, match="delete trackers"):
        check_count(["a"], {"a": disk(*names)})


@pytest.mark.parametrize(
    "bad",
    [
        {"target": "../t"},
        {"directory": "../../etc"},
        {"directory": "web//b"},
        {"directory": "/etc"},
        {"directory": "a/b/c/d/e"},
        {"name": "b/c"},
        {"checkpoint": "c:1"},
        {"keep": frozenset({"a b"})},
    ],
)
def test_a_name_that_is_a_way_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        check_backup(wanted(**bad))


def test_plain_names_are_taken() -> None:
    check_backup(wanted(checkpoint="b-2026-11-27_06-28-26"))


def block(qdev: str, *bitmaps: dict[str, Any], size: int = GIB) -> dict[str, Any]:
    inserted = {"node-name": "libvirt-1-format", "image": {"virtual-size": size}, "dirty-bitmaps": list(bitmaps)}
    return {"qdev": qdev, "inserted": inserted}


def test_disks_are_known_by_their_aliases_and_bitmaps_by_checkpoint_and_size() -> None:
    good = {"name": bitmap_name("c1", GIB), "recording": True}
    broken = {"name": bitmap_name("c2", GIB), "recording": True, "inconsistent": True}
    grown = {"name": bitmap_name("c3", GIB // 2), "recording": True}
    stands = {"name": "kvedge-served", "recording": False}
    blocks = [
        block("/machine/peripheral/ua-root/virtio-backend", good, broken, grown, stands, {"name": "libvirt-x"}),
        block("ua-data"),
        {"qdev": "/machine/peripheral/ua-empty"},
        block("/machine/unattached/device[3]"),
    ]
    found = read_disks(blocks)
    assert found.keys() == {"root", "data"}
    assert found["root"].checkpoints == {"c1"}
    assert found["root"].bitmaps == {good["name"], broken["name"], grown["name"], "kvedge-served"}
    assert found["data"] == TrackedDisk("libvirt-1-format", GIB)
    assert read_disks(None) == {}
