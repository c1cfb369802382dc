"""A VM's state comes out of its archive as it was put in, and a damaged or hostile archive is refused within bounds."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvedge.storage import state_archive
from kvedge.storage.state_archive import NVRAM, TPM, BadState, is_archive, names_in, pack, unpack

VARIABLES = os.urandom(200_000) + bytes(300_000)
SECRETS = os.urandom(9000)


def packed(directory: Path, files: Mapping[str, bytes]) -> Path:
    opened = {}
    for name, content in files.items():
        (directory / f"in-{name}").write_bytes(content)
        opened[name] = os.open(directory / f"in-{name}", os.O_RDONLY)
    path = directory / "archive"
    with path.open("wb") as target:
        assert pack(opened, target.fileno()) == os.fstat(target.fileno()).st_size
    for file in opened.values():
        os.close(file)
    return path


def unpacked(archive: Path) -> dict[str, bytes]:
    source = os.open(archive, os.O_RDONLY)
    targets = {name: os.memfd_create(name) for name in state_archive.NAMES}
    try:
        names = names_in(source)
        unpack(source, targets)
        found = {name: os.pread(targets[name], 1 << 21, 0) for name in state_archive.NAMES}
    finally:
        for each in (source, *targets.values()):
            os.close(each)
    assert {name for name, content in found.items() if content} <= names
    return {name: content for name, content in found.items() if name in names}


@pytest.mark.parametrize(
    "files",
    [{NVRAM: VARIABLES, TPM: SECRETS}, {TPM: SECRETS}, {NVRAM: VARIABLES}, {NVRAM: b""}, {}],
    ids=["both", "a TPM", "variables", "an empty file", "nothing"],
)
def test_what_is_put_in_comes_out(tmp_path: Path, files: dict[str, bytes]) -> None:
    archive = packed(tmp_path, files)
    # As a disk's image it is copied, and may be resized.
    assert archive.stat().st_size % (1 << 20) == 0
    os.truncate(archive, archive.stat().st_size + (5 << 20))
    assert unpacked(archive) == files


def test_an_archive_is_known_by_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(bytes(5000))
    for path, expected in ((packed(tmp_path, {TPM: SECRETS}), True), (tmp_path / "disk", False)):
        source = os.open(path, os.O_RDONLY)
        assert is_archive(source) is expected
        os.close(source)


@pytest.mark.parametrize("at", [0, 9, 4096, 4096 + 8000])
def test_a_byte_that_has_changed_is_noticed(tmp_path: Path, at: int) -> None:
    archive = packed(tmp_path, {TPM: SECRETS})
    content = bytearray(archive.read_bytes())
    content[at] ^= 0x55
    archive.write_bytes(content)
    with pytest.raises(BadState):
        unpacked(archive)


def test_one_that_ends_too_early_is_noticed(tmp_path: Path) -> None:
    archive = packed(tmp_path, {TPM: SECRETS})
    os.truncate(archive, 4096 + 1000)
    with pytest.raises(BadState, match="ends before its end"):
        unpacked(archive)


def forged(directory: Path, data: bytes, *members: Any) -> Path:
    path = directory / "archive"
    path.write_bytes((b"KVSTATE1" + json.dumps({"files": members}).encode()).ljust(4096, b"\0") + data)
    return path


def member(**more: Any) -> dict[str, Any]:
    return {"name": TPM, "size": 10, "packed": 100, "digest": "0" * 64, **more}


@pytest.mark.parametrize(
    "members",
    [
        [member(name="../passwd")],
        [member(), member()],
        [member(size=1 << 40)],
        [member(packed=-1)],
        [member(size="10")],
        ["tpm"],
        [None],
    ],
    ids=["another name", "twice", "too large", "negative", "a text", "no member", "nothing"],
)
def test_a_head_that_says_anything_else_is_refused(tmp_path: Path, members: list[Any]) -> None:
    with pytest.raises(BadState):
        unpacked(forged(tmp_path, bytes(100), *members))


def test_no_more_is_written_than_the_head_says(tmp_path: Path) -> None:
    bomb = zlib.compress(bytes(64 << 20), 9)
    with pytest.raises(BadState, match="longer than it says"):
        unpacked(forged(tmp_path, bomb, member(size=1000, packed=len(bomb))))


def test_what_is_too_large_for_a_state_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_archive, "LARGEST", 1000)
    with pytest.raises(BadState, match="larger than 1000 bytes"):
        packed(tmp_path, {TPM: SECRETS})
