"""The first member of an archive: what it says is checked before it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.client.exports.remote_disk import LARGEST_DISK
from kvedge.client.vm_files.archive_errors import DamagedFile, UnknownFile
from kvedge.client.vm_files.archive_manifest import chunk_name, decode_manifest, encode_manifest, parse_chunk_name
from tests.unit.client.vm_files.archives import manifest_of


def test_a_manifest_comes_back_as_it_was() -> None:
    assert decode_manifest(encode_manifest(manifest_of(512, 1 << 40))) == manifest_of(512, 1 << 40)


def test_what_a_later_program_adds_is_passed_over() -> None:
    document = json.loads(encode_manifest(manifest_of(512))) | {"somethingNew": True}
    assert decode_manifest(json.dumps(document).encode()) == manifest_of(512)


def test_a_newer_version_is_refused_with_the_remedy() -> None:
    document = json.loads(encode_manifest(manifest_of(512))) | {"version": 2, "disks": "told otherwise"}
    with pytest.raises(UnknownFile, match=r"version 2 .* reads up to 1: upgrade kvedge here"):
        decode_manifest(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"version": 0}, "is damaged", id="version-0"),
        pytest.param({"chunkSize": 1}, "chunkSize 1 is not", id="other-chunks"),
        pytest.param({"disks": [{"volume": "a", "claim": "b", "size": 0}]}, "a size that no disk has", id="no-size"),
        pytest.param(
            {"disks": [{"volume": "a", "claim": "b", "size": LARGEST_DISK + 1}]}, "a size that no disk has", id="large"
        ),
        pytest.param({"disks": [{"volume": "a", "claim": "b", "size": 1}] * 2}, "two disks of one", id="twice"),
        pytest.param(
            {"disks": [{"volume": str(number), "claim": "b", "size": 1} for number in range(257)]}, "257", id="many"
        ),
        pytest.param({"vm": None}, "cannot be read", id="no-vm"),
    ],
)
def test_what_does_not_hold_together_is_refused(change: dict[str, Any], says: str) -> None:
    document = json.loads(encode_manifest(manifest_of(512))) | change
    with pytest.raises(DamagedFile, match=says):
        decode_manifest(json.dumps(document).encode())


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{", b"[" * 100_000])
def test_what_is_no_document_is_refused(content: bytes) -> None:
    with pytest.raises((DamagedFile, UnknownFile)):
        decode_manifest(content)


@pytest.mark.parametrize("name", ["disks/00/0000000000000000.zst", "disks/0/0.zst", "disks/0/000000000000000G.zst", ""])
def test_a_name_of_another_form_is_no_chunk(name: str) -> None:
    assert parse_chunk_name(name) is None
    assert parse_chunk_name(chunk_name(255, 1 << 45)) == (255, 1 << 45)
