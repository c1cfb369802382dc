# Tests: kvedge/storage/changed_blocks/backup_worker.py, kvedge/storage/changed_blocks/saved_image.py
"""Images of backups: what is written is read again, by us and by qemu-img."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kvedge.storage.changed_blocks.backup_worker import write_image
from kvedge.storage.changed_blocks.block_runs import CLUSTER, BlockRuns, Run
from kvedge.storage.changed_blocks.qcow2_layout import ENTRIES, plan_layout
from kvedge.storage.changed_blocks.saved_image import SavedExtent, SavedImage

# Not whole clusters, and more than one table.
SIZE = ENTRIES * CLUSTER + 5 * CLUSTER + 512
RUNS = BlockRuns((Run(1, 3), Run(ENTRIES - 1, ENTRIES + 2), Run(ENTRIES + 5, ENTRIES + 6)), (Run(4, 6),))


def read_disk(offset: int, length: int) -> bytearray:
    """A disk of which each sector begins with its number."""
    made = bytearray()
    for sector in range(offset // 512, (offset + length) // 512):
        made += sector.to_bytes(8, "big") * 64
    return made


@pytest.fixture
def image(tmp_path: Path) -> Path:
    told: list[int] = []
    write_image(str(tmp_path / "i.qcow2"), SIZE, RUNS, read_disk, told.append)
    assert told[-1] == 100
    assert told == sorted(told)
    return tmp_path / "i.qcow2"


def extents(image: Path, offset: int = 0, end: int = SIZE) -> list[SavedExtent]:
    opened = os.open(image, os.O_RDONLY)
    try:
        return list(SavedImage(opened).extents(offset, end))
    finally:
        os.close(opened)


def test_an_image_has_what_was_taken_and_says_what_it_lacks(image: Path) -> None:
    found = extents(image)
    assert [(each.offset // CLUSTER, -(-each.length // CLUSTER), bool(each.at), each.held) for each in found] == [
        (0, 1, False, False),
        (1, 2, True, True),
        (3, 1, False, False),
        (4, 2, False, True),
        (6, ENTRIES - 7, False, False),
        (ENTRIES - 1, 3, True, True),
        (ENTRIES + 2, 3, False, False),
        (ENTRIES + 5, 1, True, True),
    ]
    assert sum(each.length for each in found) == SIZE


def test_bytes_are_those_of_the_disk(image: Path) -> None:
    opened = os.open(image, os.O_RDONLY)
    try:
        saved = SavedImage(opened)
        assert saved.size == SIZE
        for extent in saved.extents(CLUSTER + 512, SIZE):
            if extent.at:
                assert saved.read(extent, extent.offset, 512) == bytes(read_disk(extent.offset, 512))
                last = extent.offset + extent.length - 512
                assert saved.read(extent, last, 512) == bytes(read_disk(last, 512))
    finally:
        os.close(opened)


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="the host has no qemu-img")
def test_qemu_finds_no_fault_and_reads_the_same(image: Path, tmp_path: Path) -> None:
    subprocess.run(["qemu-img", "check", "-q", str(image)], check=True)
    said = subprocess.run(["qemu-img", "map", "--output=json", str(image)], check=True, capture_output=True).stdout
    held = [(each["start"], each["length"]) for each in json.loads(said) if each["data"]]
    assert held == [(each.offset, each.length) for each in extents(image) if each.at]
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(image), str(tmp_path / "raw")], check=True)
    with (tmp_path / "raw").open("rb") as raw:
        raw.seek((ENTRIES + 1) * CLUSTER)
        assert raw.read(1024) == bytes(read_disk((ENTRIES + 1) * CLUSTER, 1024))


def test_an_image_that_broke_off_is_none(tmp_path: Path) -> None:
    def fails(offset: int, length: int) -> bytearray:
        raise OSError("the server is gone")

    with pytest.raises(OSError, match="gone"):
        write_image(str(tmp_path / "i.qcow2"), SIZE, RUNS, fails, lambda percent: None)
    with pytest.raises(OSError, match="not whole"):
        extents(tmp_path / "i.qcow2")


def test_no_image_is_written_over(image: Path) -> None:
    with pytest.raises(FileExistsError):
        write_image(str(image), SIZE, RUNS, read_disk, lambda percent: None)


@pytest.mark.parametrize(
    ("at", "bytes_"),
    [
        pytest.param(8, b"\0\0\0\0\0\0\1\0", id="with a backing file"),
        pytest.param(20, b"\0\0\0\x09", id="with small clusters"),
        pytest.param(24, b"\x7f\xff\xff\xff\xff\xff\xff\xff", id="of a disk larger than its table"),
        pytest.param(72, b"\0\0\0\0\0\0\0\4", id="with a data file elsewhere"),
    ],
)
def test_an_image_of_somebody_else_is_refused(image: Path, at: int, bytes_: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(at)
        file.write(bytes_)
    with pytest.raises(OSError, match="none of a backup"):
        extents(image)


def test_the_layout_of_the_largest_disk_counts_all_of_its_clusters() -> None:
    size = 64 << 40
    clusters = size // CLUSTER
    layout = plan_layout(size, BlockRuns((Run(0, clusters),)))
    assert layout.data_clusters == clusters
    assert layout.count_blocks * (CLUSTER // 2) >= layout.clusters
    assert layout.count_tables * ENTRIES >= layout.count_blocks
