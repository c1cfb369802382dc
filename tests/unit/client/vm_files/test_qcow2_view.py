"""A disk of chunks as a qcow2 file: qemu-img and kvedge's own worker read from it what the chunks hold."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.vm_files.qcow2_view import Qcow2View
from kvedge.storage.imports.sinks.qcow2_stream import Qcow2Stream
from kvedge.storage.qcow2_header import HEADER_SIZE, check_qcow2_header

GIB = 1 << 30


def chunk_of(place: int, size: int) -> bytes:
    length = min(CHUNK, size - place)
    return (random.Random(place).randbytes(16) * (length // 16 + 1))[:length]


def view_of(size: int, places: list[int]) -> Qcow2View:
    return Qcow2View(
        size, places, CHUNK, lambda number: chunk_of(places[number], size)[: size - places[number]][:CHUNK]
    )


def read_streamed(view: Qcow2View) -> dict[int, bytes]:
    """What kvedge's worker makes of it, by pieces, without another way to read."""
    found: dict[int, bytes] = {}
    header = check_qcow2_header(view.read_at(0, HEADER_SIZE))
    stream = Qcow2Stream(header, lambda place, data: found.update({place: data}))
    position = 0
    while data := view.read_at(position, 300_000):
        stream.feed(data)
        position += len(data)
    assert position == view.size
    stream.end()
    return found


@settings(max_examples=25, deadline=None)
@given(
    sectors=st.integers(1, 600 * GIB // 512),
    numbers=st.sets(st.integers(0, 600 * GIB // CHUNK), max_size=4),
)
def test_the_worker_reads_what_the_chunks_hold(sectors: int, numbers: set[int]) -> None:
    size = sectors * 512
    places = sorted(number * CHUNK for number in numbers if number * CHUNK < size)
    found = read_streamed(view_of(size, places))
    for place in places:
        whole = b"".join(found[at] for at in sorted(found) if place <= at < place + CHUNK)
        assert whole == chunk_of(place, size)
    assert sum(map(len, found.values())) == sum(min(CHUNK, size - place) for place in places)


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-img")
@pytest.mark.parametrize(
    ("size", "numbers"),
    [
        pytest.param(512, [0], id="one-sector"),
        pytest.param(8 * CHUNK, [], id="empty"),
        pytest.param(8 * CHUNK, [0, 1, 5, 7], id="small"),
        pytest.param(300 * GIB + 512, [3, 40_000, 300 * GIB // CHUNK], id="three-tables"),
    ],
)
def test_qemu_img_finds_nothing_wrong(tmp_path: Path, size: int, numbers: list[int]) -> None:
    places = [number * CHUNK for number in numbers]
    view, path = view_of(size, places), tmp_path / "disk.qcow2"
    with path.open("wb") as file:
        position = 0
        while data := view.read_at(position, 1 << 20):
            position += file.write(data)
    subprocess.run(["qemu-img", "check", path], check=True, capture_output=True)
    info = subprocess.run(["qemu-img", "info", "--output=json", path], check=True, capture_output=True)
    assert json.loads(info.stdout)["virtual-size"] == size
    raw = tmp_path / "raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", path, raw], check=True)
    with raw.open("rb") as file:
        for place in places:
            file.seek(place)
            assert file.read(min(CHUNK, size - place)) == chunk_of(place, size)


def test_it_can_be_read_from_any_place() -> None:
    view = view_of(8 * CHUNK, [0, 3 * CHUNK])
    whole = bytearray()
    while data := view.read_at(len(whole), 1 << 20):
        whole += data
    for position in (0, 1, view.size - 1, view.size // 2 + 7, view.size):
        assert view.read_at(position, 100) == whole[position : position + 100]
