"""By which names volumes are handed over and taken back; the rest needs real Pods, see the machine tests."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from kvedge.handler.volumes import volume_hand_over
from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.handler.volumes.volume_hand_over import (
    hand_over_device,
    hand_over_file,
    leftovers,
    present_volumes,
    take_back,
)
from kvedge.resources.disks.hotplug_places import CLAIM_PLACE, HOTPLUG_DIRECTORY
from kvedge.resources.types.vmi import ClaimInfo
from kvedge.storage.beneath import hold_directory


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a/b", ".coming-disk", "a.img", "Disk", "x" * 64])
def test_a_name_that_is_no_label_is_refused_before_anything_is_touched(name: str) -> None:
    source, launcher = Mock(), Mock()
    for call in (
        lambda: hand_over_file(name, ClaimInfo(), source, launcher),
        lambda: hand_over_device(name, (), source, launcher),
        lambda: take_back(name, launcher),
    ):
        with pytest.raises(ImageRefused, match="is no volume's name"):
            call()
    assert (source.mock_calls, launcher.mock_calls) == ([], [])


def test_a_claim_without_an_image_is_refused_where_none_is_to_be_made(tmp_path: Path) -> None:
    claim = tmp_path / CLAIM_PLACE.lstrip("/")
    claim.mkdir()
    source = Mock(root=lambda: hold_directory(tmp_path), namespace=lambda _: nullcontext(-1))
    with pytest.raises(ImageRefused, match=r"disk\.img is not in its claim"):
        hand_over_file("data", None, source, source)
    assert list(claim.iterdir()) == []


def test_what_a_launcher_puts_there_under_no_volume_s_name_is_no_volume(tmp_path: Path) -> None:
    for name in (".coming-..", ".going-A", "...img", "A.img", "data.img", ".coming-disk"):
        (tmp_path / name).touch()
    for name in ("full.img", "FULL.img", "...full.img"):
        (tmp_path / name).write_text("image")
    with hold_directory(tmp_path) as opened:
        assert leftovers(opened) == {"data", "disk"}
        assert present_volumes(opened) == {"full": False}


class Launcher:
    """A launcher's Pod whose hotplug directory has `b MAJOR:MINOR` in a file for each block device."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = root / HOTPLUG_DIRECTORY.lstrip("/")
        self.place.mkdir(parents=True)
        self.denied: list[tuple[int, list[str]]] = []
        self.process = Mock(root=lambda: hold_directory(root))
        monkeypatch.setattr(volume_hand_over, "_find_facts", self._find)
        monkeypatch.setattr(volume_hand_over, "deny_device", self._deny)

    def put(self, name: str, device: int) -> None:
        (self.place / name).write_text(f"b {device}")

    def names(self) -> list[str]:
        return sorted(os.listdir(self.place))

    def _find(self, directory: int, name: str) -> object:
        path = self.place / name
        if path.is_file() and path.read_text().startswith("b "):
            return SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=int(path.read_text()[2:]))
        return os.stat(name, dir_fd=directory, follow_symlinks=False) if os.path.lexists(path) else None

    def _deny(self, process: object, device: int) -> None:
        assert process is self.process
        self.denied.append((device, self.names()))


def test_each_rule_is_taken_while_a_node_of_its_device_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Launcher(tmp_path, monkeypatch)
    for name, device in ((".going-data", 1), (".coming-data", 2), ("data", 3), ("other", 4)):
        launcher.put(name, device)
    take_back("data", launcher.process)
    assert launcher.denied == [
        (1, [".coming-data", ".going-data", "data", "other"]),
        (2, [".going-data", "data", "other"]),
        (3, [".going-data", "other"]),
    ]
    assert launcher.names() == ["other"]


def test_the_rule_of_a_device_that_another_volume_has_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = Launcher(tmp_path, monkeypatch)
    for name, device in ((".coming-data", 2), ("data", 1), ("other", 2)):
        launcher.put(name, device)
    take_back("data", launcher.process)
    assert [device for device, _ in launcher.denied] == [1]


@pytest.mark.parametrize("prefix", [".coming-", ".going-"])
@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_what_a_launcher_has_put_in_a_node_s_place_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, kind: str
) -> None:
    launcher = Launcher(tmp_path, monkeypatch)
    place = launcher.place / f"{prefix}data"
    {"directory": place.mkdir, "file": place.touch, "link": lambda: place.symlink_to("/etc/passwd")}[kind]()
    launcher.put("data", 3)
    take_back("data", launcher.process)
    assert ([device for device, _ in launcher.denied], launcher.names()) == ([3], [])
