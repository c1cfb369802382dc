"""What an upload sends: a file, a part of one, or what is made when it is asked for."""

from __future__ import annotations

import io
import os
from pathlib import Path

from kvedge.client.uploads.upload_source import FileSource, RangedReader


def test_a_part_of_a_file_is_read_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(b"before" + b"the image" + b"after")
    source = FileSource(path, 6, 9)
    with source.open() as stream:
        assert stream.read() == b"the image"
        stream.seek(4)
        assert stream.read(2) == b"im"
    assert source.size == 9


def test_files_of_the_same_size_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"one")
    os.utime(path, (1, 1))
    first = FileSource(path).identity()
    assert FileSource(path).identity() == first
    path.write_bytes(b"two")
    os.utime(path, (1, 1))
    assert FileSource(path).identity() != first
    path.write_bytes(b"one")
    os.utime(path, (2, 2))
    assert FileSource(path).identity() != first


def test_a_reader_goes_where_it_is_told_to_and_closes_what_it_reads() -> None:
    data, closed = b"0123456789", []
    reader = RangedReader(10, lambda position, size: data[position : position + min(size, 3)], lambda: closed.append(1))
    assert reader.read(5) == b"012"
    assert reader.tell() == 3
    assert reader.seek(-2, io.SEEK_END) == 8
    assert reader.read() == b"89"
    assert reader.read() == b""
    reader.seek(1)
    assert reader.seek(1, io.SEEK_CUR) == 2
    reader.close()
    reader.close()
    assert closed == [1]
