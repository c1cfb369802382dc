# Tests: kvedge/storage/exports/export_calls.py
"""What clients get of a backup: its map and its data, and nothing beside."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

import pytest

from kvedge.resources.types.protection.export_job import ServedBackup
from kvedge.storage.changed_blocks.backup_worker import write_image
from kvedge.storage.changed_blocks.block_runs import CLUSTER, BlockRuns, Run
from kvedge.storage.exports.backup_answers import answer_backup
from kvedge.storage.exports.export_calls import Call, Denied

SIZE = 8 * CLUSTER


class Reader:
    """A client that keeps what it gets."""

    def __init__(self) -> None:
        self.body = b""
        self.length: int | None = None

    def begin(self, status: int, headers: dict[str, str], length: int | None) -> bool:
        assert status == 200
        self.length = length
        return True

    def send(self, piece: bytes) -> None:
        self.body += piece

    def finish_body(self) -> None:
        raise AssertionError("its length was told")


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    (tmp_path / "vm" / "b-1").mkdir(parents=True)
    runs = BlockRuns((Run(1, 2), Run(4, 5)), (Run(2, 3),))
    image = tmp_path / "vm" / "b-1" / "b-root.qcow2"
    write_image(str(image), SIZE, runs, lambda offset, length: bytearray(b"x" * length), lambda percent: None)
    return tmp_path


def ask(claim: Path, target: str, *, incremental: bool = False, directory: str = "vm/b-1") -> bytes:
    client, what = Reader(), target.partition("?")[0].rsplit("/", 1)[-1]
    backup = ServedBackup(directory=directory, images={"root": "b-root.qcow2"}, incremental=incremental)
    answer_backup(client, Call.read(target, Message()), str(claim), backup, "root", what)
    assert client.length == len(client.body)
    return client.body


def test_the_map_of_a_full_backup_tells_data_from_zeros(claim: Path) -> None:
    found = json.loads(ask(claim, "/exports/root/map"))
    assert found["next_offset"] is None
    assert [
        (each["offset"] // CLUSTER, each["length"] // CLUSTER, each["description"]) for each in found["extents"]
    ] == [
        (0, 1, "hole,zero"),
        (1, 1, "data"),
        (2, 2, "hole,zero"),
        (4, 1, "data"),
        (5, 3, "hole,zero"),
    ]


def test_the_map_of_an_incremental_one_tells_what_has_changed_and_comes_in_pages(claim: Path) -> None:
    first = json.loads(ask(claim, "/exports/root/map?page_size=2", incremental=True))
    assert [each["description"] for each in first["extents"]] == ["clean", "dirty"]
    assert first["next_offset"] == 3 * CLUSTER
    rest = json.loads(ask(claim, f"/exports/root/map?offset={first['next_offset']}", incremental=True))
    assert [each["description"] for each in rest["extents"]] == ["clean", "dirty", "clean"]


def test_data_is_cut_as_asked(claim: Path) -> None:
    assert ask(claim, f"/exports/root/data?offset={CLUSTER - 2}&length=4") == b"\0\0xx"
    whole = ask(claim, "/exports/root/data")
    assert len(whole) == SIZE
    assert whole.count(b"x") == 2 * CLUSTER


def test_what_has_not_changed_is_not_made_up(claim: Path) -> None:
    assert ask(claim, f"/exports/root/data?offset={2 * CLUSTER}&length=10", incremental=True) == b"\0" * 10
    with pytest.raises(Denied, match="does not have byte 0") as denied:
        ask(claim, f"/exports/root/data?offset=0&length={2 * CLUSTER}", incremental=True)
    assert denied.value.status == 416


def test_a_number_is_a_number(claim: Path) -> None:
    with pytest.raises(Denied, match="offset must be a number"):
        ask(claim, "/exports/root/data?offset=-1")


def test_no_link_leads_out_of_the_claim(claim: Path, tmp_path: Path) -> None:
    (claim / "way").symlink_to(claim / "vm")
    with pytest.raises(Denied) as denied:
        ask(claim, "/exports/root/map", directory="way/b-1")
    assert denied.value.status == 404


def test_a_file_that_is_no_image_is_told(claim: Path) -> None:
    (claim / "vm" / "b-1" / "b-root.qcow2").write_bytes(b"QFI\xfb")
    with pytest.raises(Denied, match="not whole") as denied:
        ask(claim, "/exports/root/map")
    assert denied.value.status == 500
