"""Chunks are compressed, and come back as long as they were, or not at all."""

from __future__ import annotations

import os

import pytest

from kvedge.client.errors import HostError
from kvedge.client.vm_files import zstd_chunks
from kvedge.client.vm_files.archive_errors import DamagedFile
from kvedge.client.vm_files.zstd_chunks import compress, decompress, longest_frame


def test_what_was_compressed_comes_back() -> None:
    data = os.urandom(1 << 20) + bytes(1 << 20)
    frame = compress(data)
    assert len(frame) < len(data)
    assert decompress(frame, len(data)) == data


def test_what_does_not_compress_is_hardly_longer() -> None:
    data = os.urandom(4 << 20)
    assert len(data) < len(compress(data)) < longest_frame(len(data))


@pytest.mark.parametrize("length", [99, 101])
def test_another_length_is_refused(length: int) -> None:
    with pytest.raises(DamagedFile):
        decompress(compress(bytes(100)), length)


def test_a_frame_that_was_changed_is_refused() -> None:
    frame = bytearray(compress(os.urandom(5000)))
    frame[-1] ^= 1
    with pytest.raises(DamagedFile, match="is damaged"):
        decompress(bytes(frame), 5000)


def test_a_host_without_zstd_is_told_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd_chunks, "_load_library", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="apt install zstd"):
        compress(b"data")
