"""The file that remembers a Pod's network."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvedge.network.binding.binding_record import read_record, write_record
from kvedge.network.binding.binding_state import Record
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Route

RECORD = Record(
    netns="boot/4:1",
    index=2,
    name="eth0",
    mac="52:54:00:aa:bb:cc",
    mtu=1450,
    addresses=(Address(2, "10.42.0.7", 24), Address(2, "fd00::7", 64, 6)),
    routes=(Route("0.0.0.0/0", "10.42.0.1", 2, metric=100),),
    sysctls={"ipv4/conf/all/arp_ignore": "0"},
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "eth0.json"
    write_record(path, RECORD)
    assert read_record(path) == RECORD
    assert os.listdir(path.parent) == ["eth0.json"]


def test_a_record_that_was_cut_short_never_gets_its_name(tmp_path: Path) -> None:
    path = tmp_path / "eth0.json"
    (tmp_path / "eth0.json.new").write_text('{"netns": "boot/4:1", "ind')
    assert read_record(path) is None
    write_record(path, RECORD)
    assert read_record(path) == RECORD


def test_what_a_later_version_added_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "eth0.json"
    write_record(path, RECORD)
    later = json.loads(path.read_text()) | {"invented": True}
    later["routes"][0]["realm"] = 7
    path.write_text(json.dumps(later))
    assert read_record(path) == RECORD


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "7", '{"netns": "x"}', '{"addresses": [3], "routes": []}'])
def test_what_is_no_record_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "eth0.json"
    path.write_text(text)
    assert read_record(path) is None


def test_a_record_that_cannot_be_read_or_written_is_an_error_and_not_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "eth0.json"
    with pytest.raises(NetworkError, match="cannot read"):
        read_record(path)
    with pytest.raises(NetworkError, match="cannot write"):
        write_record(path, RECORD)


def test_a_damaged_record_is_put_aside_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "eth0.json"
    path.write_text('{"netns": "x", "index": [')
    assert read_record(path) is None
    path.mkdir()
    assert read_record(path) is None
    assert caplog.text.count(f"{path} is damaged and was put aside as eth0.json.damaged-") == 2
    assert len(list(tmp_path.glob("eth0.json.damaged-*"))) == 2
    write_record(path, RECORD)
    assert read_record(path) == RECORD
