# Tests: kvedge/storage/decompress.py, kvedge/storage/qcow2_header.py, kvedge/storage/sparse_file.py
"""Sparse copies, compressed streams and qcow2 headers: properties, and what breaks them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.storage.decompress import is_compressed, open_decompressed
from kvedge.storage.image_errors import BadImage
from kvedge.storage.qcow2_header import HEADER_SIZE, check_qcow2_header
from kvedge.storage.sparse_file import copy_with_digest, write_sparse

_PIECES = st.lists(st.tuples(st.integers(0, 5 << 16), st.binary(min_size=1, max_size=300)), max_size=4)


def _written(pieces: list[tuple[int, bytes]], size: int) -> BinaryIO:
    stream = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed by the caller
    os.ftruncate(stream.fileno(), size)
    for position, data in pieces:
        os.pwrite(stream.fileno(), data, position)
    return stream


@settings(max_examples=60)
@given(_PIECES, st.integers(0, 1000))
def test_a_sparse_copy_is_equal_and_its_digest_does_not_depend_on_holes(
    pieces: list[tuple[int, bytes]], tail: int
) -> None:
    size = max((position + len(data) for position, data in pieces), default=0) + tail
    with _written(pieces, size) as sparse, tempfile.TemporaryFile() as copy, tempfile.TemporaryFile() as full:
        digest = copy_with_digest(sparse.fileno(), copy.fileno())
        content = os.pread(sparse.fileno(), size, 0)
        assert os.pread(copy.fileno(), size + 1, 0) == content
        full.write(content)
        full.flush()
        with tempfile.TemporaryFile() as again:
            assert copy_with_digest(full.fileno(), again.fileno()) == digest


@settings(max_examples=60)
@given(_PIECES.filter(bool), st.integers(0, 255))
def test_another_content_has_another_digest(pieces: list[tuple[int, bytes]], value: int) -> None:
    size = 6 << 16
    with _written(pieces, size) as one, _written(pieces, size) as two, tempfile.TemporaryFile() as sink:
        position = pieces[0][0]
        changed = bytes([value]) != os.pread(two.fileno(), 1, position)
        os.pwrite(two.fileno(), bytes([value]), position)
        first = copy_with_digest(one.fileno(), sink.fileno())
        os.ftruncate(sink.fileno(), 0)
        assert (copy_with_digest(two.fileno(), sink.fileno()) != first) == changed


def test_a_source_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as into, pytest.raises(EOFError):
        write_sparse(into.fileno(), io.BytesIO(b"abc").read, 10)


def _zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


_COMPRESSORS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress, "zstd": _zstd, "none": bytes}


def _read(data: bytes, limit: int = 1 << 20) -> bytes:
    with open_decompressed(cast("BinaryIO", io.BytesIO(data)), limit) as plain:
        parts = []
        while part := plain.read(1000):
            parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize("kind", _COMPRESSORS)
@pytest.mark.parametrize("content", [b"", b"a", b"text" * 5000])
def test_every_compression_is_recognised_by_its_first_bytes(kind: str, content: bytes) -> None:
    packed = _COMPRESSORS[kind](content)

    assert is_compressed(packed[:16]) == (kind != "none")
    assert _read(packed) == content


@pytest.mark.parametrize("kind", [kind for kind in _COMPRESSORS if kind != "none"])
def test_a_compressed_stream_that_is_cut_or_changed_is_refused(kind: str) -> None:
    packed = _COMPRESSORS[kind](os.urandom(50_000))

    with pytest.raises(BadImage):
        _read(packed[: len(packed) // 2])
    with pytest.raises(BadImage):
        _read(packed[:200] + bytes(200) + packed[400:])


@pytest.mark.parametrize("kind", _COMPRESSORS)
def test_more_than_allowed_never_comes_out(kind: str) -> None:
    with pytest.raises(BadImage, match="unpacks to more"):
        _read(_COMPRESSORS[kind](bytes(1 << 20)), limit=100_000)


def _header(
    version: int = 3, backing: int = 0, cluster: int = 16, encryption: int = 0, features: int = 0, size: int = 1 << 30
) -> bytes:
    fields = (b"QFI\xfb", version, backing, 0, cluster, size, encryption, 0, 0, 0, 0, 0, 0)
    return struct.pack(">4sIQIIQIIQQIIQ", *fields) + struct.pack(">QQQ", features, 0, 0)


def test_a_plain_header_gives_the_disk_s_size() -> None:
    assert check_qcow2_header(_header()).virtual_size == 1 << 30
    assert check_qcow2_header(_header(version=2)).version == 2


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (_header(backing=104), "backing file"),
        (_header(features=4), "another file"),
        (_header(features=2), "corrupt"),
        (_header(features=1), "not closed"),
        (_header(features=1 << 40), "newer QEMU"),
        (_header(encryption=1), "encrypted"),
        (_header(cluster=40), "cluster size"),
        (_header(version=7), "version 7"),
        (_header()[:50], "too short"),
    ],
)
def test_a_header_that_reaches_beyond_its_file_or_is_broken_is_refused(header: bytes, words: str) -> None:
    with pytest.raises(BadImage, match=words):
        check_qcow2_header(header)


@given(st.binary(min_size=HEADER_SIZE, max_size=HEADER_SIZE))
def test_any_header_is_refused_or_has_no_other_file(data: bytes) -> None:
    made = b"QFI\xfb" + data[4:]
    try:
        check_qcow2_header(made)
    except BadImage:
        return
    assert struct.unpack_from(">Q", made, 8)[0] == 0
    if struct.unpack_from(">I", made, 4)[0] == 3:
        assert not struct.unpack_from(">Q", made, 72)[0] & 4
