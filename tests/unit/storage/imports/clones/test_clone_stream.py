"""A disk that is sent: what arrives, and what a sender may not do."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import pytest

from kvedge.resources.types.import_job import ImportJob
from kvedge.storage.imports.clones.clone_stream import CloneSink, read_disk_stream
from kvedge.storage.imports.import_errors import ImportFailure, TooSmall
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.import_target import FileTarget, open_target

MIB = 1 << 20
HEAD = struct.Struct(">8sQ")
FRAME = struct.Struct(">QI")


@pytest.fixture
def target(tmp_path: Path) -> FileTarget:
    (tmp_path / "claim").mkdir()
    opened = open_target(ImportJob(name="disk", size=32 * MIB), tmp_path / "claim", tmp_path / "none")
    assert isinstance(opened, FileTarget)
    return opened


def sent(path: Path, *, block: bool = False) -> bytes:
    opened = os.open(path, os.O_RDONLY)
    try:
        return b"".join(read_disk_stream(opened, os.fstat(opened).st_size, block=block))
    finally:
        os.close(opened)


@pytest.mark.parametrize("block", [False, True], ids=["a file", "a device"])
def test_data_arrives_at_its_place_and_zeros_are_not_sent(tmp_path: Path, target: FileTarget, block: bool) -> None:
    source = tmp_path / "source.img"
    with source.open("wb") as disk:
        # What a guest may write: no image is seen in it.
        disk.write(b"QFI\xfb" + b"\x01" * 5000)
        disk.seek(20 * MIB + 17)
        disk.write(b"\x02" * 3 * MIB)
        disk.truncate(30 * MIB)
    stream = sent(source, block=block)
    assert len(stream) < 4 * MIB
    sink = CloneSink(target, ImportProgress())
    sink.take(io.BytesIO(stream))
    assert sink.finish() == 32 * MIB
    arrived = (tmp_path / "claim/disk.img").read_bytes()
    assert arrived == source.read_bytes() + bytes(2 * MIB)
    assert (tmp_path / "claim/disk.img").stat().st_blocks * 512 < 5 * MIB


def head(size: int, magic: bytes = b"KVCLONE1") -> bytes:
    return HEAD.pack(magic, size)


HOSTILE = {
    "nothing comes": (b"", "ended before the disk did"),
    "something else comes": (head(MIB, b"GET / HT"), "no disk of a claim"),
    "it ends in its head": (head(MIB)[:-1], "ended before the disk did"),
    "it ends between pieces": (head(MIB) + FRAME.pack(0, 1) + b"x", "ended before the disk did"),
    "it ends in a piece": (head(MIB) + FRAME.pack(0, 9) + b"x", "ended before the disk did"),
    "a piece is too long": (head(8 * MIB) + FRAME.pack(0, MIB + 1) + bytes(MIB + 1), "outside of it"),
    "a piece lies behind the end": (head(MIB) + FRAME.pack(MIB - 1, 2) + b"xx", "outside of it"),
    "a piece lies far behind the end": (head(MIB) + FRAME.pack((1 << 64) - 1, 2) + b"xx", "outside of it"),
    "pieces overlap": (head(MIB) + FRAME.pack(5, 2) + b"xx" + FRAME.pack(6, 1) + b"x", "outside of it"),
    "the end comes early": (head(MIB) + FRAME.pack(5, 0), "ends before its end"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_sender_that_lies_fills_nothing(target: FileTarget, case: str) -> None:
    stream, told = HOSTILE[case]
    sink = CloneSink(target, ImportProgress())
    with pytest.raises(ImportFailure, match=told):
        sink.take(io.BytesIO(stream))
    sink.discard()
    assert list(target.directory.iterdir()) == []


def test_a_disk_that_does_not_fit_is_refused_before_it_is_sent(target: FileTarget) -> None:
    with pytest.raises(TooSmall):
        CloneSink(target, ImportProgress()).take(io.BytesIO(head(33 * MIB)))
