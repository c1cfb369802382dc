"""What a device gives back, as a /sys that is played here says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.disks.disk_facts import discard_granularity


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[int]:
    """Something open, whose device number is that of no device."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def _say(place: Path, text: str) -> None:
    place.mkdir(parents=True)
    (place / "discard_granularity").write_text(text)


def test_a_disk_tells_it_by_its_queue(tmp_path: Path, opened: int) -> None:
    _say(tmp_path / "dev/block/0:0/queue", "65536\n")
    assert discard_granularity(opened, tmp_path) == 65536


def test_a_partition_has_its_disk_s(tmp_path: Path, opened: int) -> None:
    _say(tmp_path / "devices/vda/queue", "512\n")
    (tmp_path / "devices/vda/vda1").mkdir()
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/0:0").symlink_to(tmp_path / "devices/vda/vda1")
    assert discard_granularity(opened, tmp_path) == 512


@pytest.mark.parametrize("text", ["0\n", "", "many"])
def test_a_device_that_says_nothing_of_use_gives_nothing_back(tmp_path: Path, opened: int, text: str) -> None:
    _say(tmp_path / "dev/block/0:0/queue", text)
    assert discard_granularity(opened, tmp_path) == 0


def test_without_a_queue_nothing_is_known(tmp_path: Path, opened: int) -> None:
    assert discard_granularity(opened, tmp_path) == 0
