"""A sparse disk over HTTPS: what is read of it, and how it goes on after the connection broke."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.errors import ClientError, RefusedError, UsageError
from kvedge.client.exports.remote_disk import CHUNK, ExportAddress, RemoteDisk
from tests.support.played_exports import PlayedExports, played_exports

PATH = "/volumes/root/disk.img"
SIZE = 12 * CHUNK + 1536
DATA = {0: b"first", 3 * CHUNK - 2048: os.urandom(4096), 9 * CHUNK: os.urandom(2 * CHUNK), SIZE - 4: b"last"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlayedExports]:
    with (tmp_path / "disk.img").open("wb") as file:
        file.truncate(SIZE)
        for place, data in DATA.items():
            file.seek(place)
            file.write(data)
    with played_exports(tmp_path) as exports:
        exports.files[PATH] = tmp_path / "disk.img"
        yield exports


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def disk(server: PlayedExports, waits: list[float]) -> Iterator[RemoteDisk]:
    disk = RemoteDisk(ExportAddress(server.url(PATH), server.ca, "secret"), waits.append)
    yield disk
    disk.close()


def read(disk: RemoteDisk) -> dict[int, bytes]:
    return {place: data for start, end in disk.find_ranges() for place, data in disk.read_chunks(start, end)}


def expected(server: PlayedExports, *places: int) -> dict[int, bytes]:
    content = server.files[PATH].read_bytes()
    return {place: content[place : place + CHUNK] for place in places}


PLACES = (0, 2 * CHUNK, 3 * CHUNK, 9 * CHUNK, 10 * CHUNK, 12 * CHUNK)


def test_only_what_is_no_hole_is_fetched(server: PlayedExports, disk: RemoteDisk) -> None:
    assert read(disk) == expected(server, *PLACES)
    ranges = [call[2] for call in server.calls if call[2]]
    assert ranges == [
        f"bytes=0-{CHUNK - 1}",
        f"bytes={2 * CHUNK}-{4 * CHUNK - 1}",
        f"bytes={9 * CHUNK}-{11 * CHUNK - 1}",
        f"bytes={12 * CHUNK}-{SIZE - 1}",
    ]


def test_a_server_without_maps_is_read_whole(server: PlayedExports, disk: RemoteDisk) -> None:
    server.has_maps = False
    found = read(disk)
    assert list(found) == list(range(0, SIZE, CHUNK))
    assert b"".join(found.values()) == server.files[PATH].read_bytes()


def test_it_goes_on_where_the_connection_broke(server: PlayedExports, disk: RemoteDisk, waits: list[float]) -> None:
    server.breaks, server.breaks_after = 3, CHUNK + CHUNK // 2
    assert read(disk) == expected(server, *PLACES)
    assert len(waits) == 3


def test_a_chunk_that_is_complete_is_not_fetched_again(server: PlayedExports, disk: RemoteDisk) -> None:
    server.breaks, server.breaks_after = 1, 2 * CHUNK + CHUNK // 2
    assert read(disk) == expected(server, *PLACES)
    ranges = [call[2] for call in server.calls if call[2]]
    assert ranges[1:3] == [f"bytes={2 * CHUNK}-{4 * CHUNK - 1}", f"bytes={3 * CHUNK}-{4 * CHUNK - 1}"]


def test_a_server_that_is_not_there_yet_is_waited_for(
    server: PlayedExports, disk: RemoteDisk, waits: list[float]
) -> None:
    server.statuses = [503, 503]
    assert disk.read_size() == SIZE
    assert waits == [0.5, 1.0]


def test_one_that_stays_away_is_given_up(server: PlayedExports, disk: RemoteDisk, waits: list[float]) -> None:
    server.statuses = [503] * 20
    with pytest.raises(ClientError, match="cannot be reached: HTTP 503"):
        disk.read_size()
    assert waits == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_disk_that_has_changed_meanwhile_is_refused(server: PlayedExports, disk: RemoteDisk) -> None:
    chunks = disk.read_chunks(*next(disk.find_ranges()))
    next(chunks)
    server.state = "another"
    with pytest.raises(RefusedError, match="the disk has changed while it was read: its VM was started"):
        list(disk.read_chunks(0, SIZE))


def test_a_wrong_token_is_refused(server: PlayedExports) -> None:
    disk = RemoteDisk(ExportAddress(server.url(PATH), server.ca, "guessed"), pytest.fail)
    with pytest.raises(RefusedError, match="HTTP 401"):
        disk.read_size()


def test_a_server_of_another_authority_is_refused(server: PlayedExports) -> None:
    disk = RemoteDisk(ExportAddress(server.url(PATH), "", "secret"), pytest.fail)
    with pytest.raises(RefusedError, match="not to be trusted"):
        disk.read_size()


def test_a_link_without_tls_is_refused() -> None:
    with pytest.raises(UsageError, match="is not https"):
        RemoteDisk(ExportAddress("http://127.0.0.1/x", "", "secret"), pytest.fail)


PART = {"offset": 0, "length": 512}


@pytest.mark.parametrize(
    ("page", "says"),
    [
        pytest.param({"size": 1, "extents": [], "next_offset": None}, "of another disk", id="another-size"),
        pytest.param({"size": SIZE, "extents": [PART], "next_offset": 0}, "does not get on", id="circle"),
        pytest.param({"size": SIZE, "extents": [PART], "next_offset": SIZE}, "does not get on", id="behind-the-end"),
        pytest.param({"size": SIZE, "extents": [PART, PART], "next_offset": None}, "not in order", id="twice"),
        pytest.param(
            {"size": SIZE, "extents": [{"offset": 0, "length": SIZE + 1}], "next_offset": None}, "outside", id="outside"
        ),
        pytest.param({"size": SIZE, "extents": [{"offset": 0}], "next_offset": None}, "cannot be read", id="half"),
        pytest.param({"size": SIZE, "extents": [{"offset": "0", "length": 1}]}, "cannot be read", id="text"),
        pytest.param([], "cannot be read", id="list"),
        pytest.param({"size": SIZE, "extents": [PART] * 5000}, "cannot be read", id="too-many"),
    ],
)
def test_a_map_that_cannot_be_is_refused(server: PlayedExports, disk: RemoteDisk, page: Any, says: str) -> None:
    server.pages = [page]
    with pytest.raises(RefusedError, match=says):
        list(disk.find_ranges())
