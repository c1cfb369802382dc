# Tests: kvedge/storage/exports/exported_disk.py
"""Disks as gzip, and the map of their holes."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.protection import export_job
from kvedge.resources.types.protection.export_job import ServedVolume
from kvedge.storage.decompress import open_decompressed
from kvedge.storage.exports.exported_disk import MOST_EXTENTS, ExportedDisk, describe, hold_disk, map_page
from kvedge.storage.exports.gzip_stream import PIECE, Compressor

MIB = 1 << 20


@pytest.fixture
def compressor() -> Iterator[Compressor]:
    found = Compressor(2)
    yield found
    found.close()


def sparse(path: Path, size: int, *parts: tuple[int, bytes]) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
        for position, data in parts:
            file.seek(position)
            file.write(data)
    return path


def opened(path: Path) -> ExportedDisk:
    return describe(os.open(path, os.O_RDONLY))


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (0, ()),
        (1, ()),
        (1, ((0, b"x"),)),
        (PIECE, ()),
        (PIECE + 1, ((PIECE, b"x"),)),
        (5 * MIB + 77, ((0, b"begin"), (3 * MIB - 3, b"across"), (5 * MIB + 70, b"the end"))),
        (130 * MIB, ((129 * MIB, b"far"),)),
        (3 * MIB, ((0, bytes(3 * MIB)),)),
        (9 * MIB, ((0, os.urandom(9 * MIB)),)),
    ],
    ids=["empty", "a hole", "a byte", "a piece", "over a piece", "parts", "long hole", "written zeros", "full"],
)
def test_a_disk_comes_back_as_it_was(
    tmp_path: Path, compressor: Compressor, size: int, parts: tuple[tuple[int, bytes], ...]
) -> None:
    path = sparse(tmp_path / "disk.img", size, *parts)
    packed = b"".join(compressor.compress_disk(opened(path)))
    assert gzip.decompress(packed) == path.read_bytes()
    # The reader of the command line, which stops at garbage.
    assert subprocess.run(["gzip", "-dc"], input=packed, check=True, capture_output=True).stdout == path.read_bytes()


def test_an_import_reads_it(tmp_path: Path, compressor: Compressor) -> None:
    path = sparse(tmp_path / "disk.img", 5 * MIB, (0, b"begin"), (4 * MIB, b"end"))
    packed = b"".join(compressor.compress_disk(opened(path)))
    with open_decompressed(io.BytesIO(packed), 64 * MIB) as stream:
        assert stream.read(8 * MIB) == path.read_bytes()


def test_holes_cost_nothing(tmp_path: Path, compressor: Compressor) -> None:
    path = sparse(tmp_path / "disk.img", 64 << 30, (10 << 30, b"data"))
    begun = time.process_time()
    size = sum(len(piece) for piece in compressor.compress_disk(opened(path)))
    # Python alone would take 15 s to run over so many zeros, and minutes to compress them.
    assert time.process_time() - begun < 3
    assert size < 80 * MIB


def test_a_disk_that_becomes_shorter_is_no_whole_disk(tmp_path: Path, compressor: Compressor) -> None:
    path = sparse(tmp_path / "disk.img", 4 * MIB, (0, os.urandom(4 * MIB)))
    told = opened(path)
    # A file of which nobody knows that it has holes.
    disk = ExportedDisk(told.descriptor, told.size, True, told.tag, told.modified)
    os.truncate(path, MIB)
    with pytest.raises(EOFError):
        list(compressor.compress_disk(disk))


def test_pieces_are_packed_in_order(compressor: Compressor) -> None:
    pieces = [os.urandom(PIECE), bytes(PIECE), b"rest"]
    assert gzip.decompress(b"".join(compressor.compress_pieces(pieces))) == b"".join(pieces)
    assert gzip.decompress(b"".join(compressor.compress_pieces([]))) == b""


def test_a_map_tells_where_data_is_page_by_page(tmp_path: Path) -> None:
    count = MOST_EXTENTS + 3
    step = 128 << 10
    path = sparse(tmp_path / "disk.img", count * step, *((number * step, b"x") for number in range(count)))
    disk = opened(path)
    first = map_page(disk, 0)
    assert (first["size"], len(list(first["extents"]))) == (count * step, MOST_EXTENTS)  # type: ignore[call-overload]
    assert first["next_offset"] == MOST_EXTENTS * step
    second = map_page(disk, MOST_EXTENTS * step)
    assert second["next_offset"] is None
    assert [each["offset"] for each in second["extents"]] == [  # type: ignore[attr-defined]
        number * step for number in range(MOST_EXTENTS, count)
    ]
    assert map_page(disk, disk.size) == {"size": disk.size, "extents": [], "next_offset": None}


def test_a_disk_that_is_a_link_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the host")
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "disk.img").symlink_to(secret)
    monkeypatch.setattr(export_job, "_DIRECTORIES", str(tmp_path))
    with pytest.raises(OSError, match="symbolic"), hold_disk(ServedVolume(name="a"), 0):
        pass


def test_a_disk_that_was_written_has_another_tag(tmp_path: Path) -> None:
    path = sparse(tmp_path / "disk.img", MIB)
    before = opened(path).tag
    assert opened(path).tag == before
    path.write_bytes(b"x" * MIB)
    assert opened(path).tag != before
