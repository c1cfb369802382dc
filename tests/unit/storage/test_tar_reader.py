"""The standard library's writer is the oracle: what it writes must be read back; what is broken must be refused."""

from __future__ import annotations

import io
import struct
import tarfile
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.storage.image_errors import BadImage
from kvedge.storage.tar_reader import EntryKind, TarReader
from tests.support.small_images import directory, file, layer, link, special


class _Stream(io.RawIOBase):
    """Bytes that can only be read forward, a few at a time, as from a pipe."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, 700) if size > 0 else size)


def _all(data: bytes, *, seekable: bool = False) -> list[tuple[str, EntryKind, bytes, str]]:
    stream = cast("BinaryIO", io.BytesIO(data) if seekable else _Stream(data))
    reader = TarReader(stream)
    found = []
    for entry in reader:
        content = b""
        while part := reader.read(1000):
            content += part
        found.append((entry.name, entry.kind, content, entry.link))
    return found


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("seekable", [True, False])
def test_all_three_formats_are_read(kind: int, seekable: bool) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for info, data in (directory("etc"), file("etc/passwd", b"root" * 300), link("bin", "usr/bin")):
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

    assert _all(out.getvalue(), seekable=seekable) == [
        ("etc/", EntryKind.DIRECTORY, b"", ""),
        ("etc/passwd", EntryKind.FILE, b"root" * 300, ""),
        ("bin", EntryKind.SYMLINK, b"", "usr/bin"),
    ]


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_longer_than_a_header_are_read(kind: int) -> None:
    name = "/".join(["a" * 90] * 6)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        info, _ = link(name, name[::-1])
        archive.addfile(info)

    assert _all(out.getvalue()) == [(name, EntryKind.SYMLINK, b"", name[::-1])]


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=40).filter(
    lambda text: text not in (".", "..")
)


@settings(max_examples=60)
@given(st.dictionaries(_NAMES, st.binary(max_size=3000), max_size=5))
def test_whatever_the_standard_library_writes_is_read_back(files: dict[str, bytes]) -> None:
    data = layer([file(name, content) for name, content in files.items()])

    assert {name: content for name, _, content, _ in _all(data)} == files


@settings(max_examples=200)
@given(st.integers(0, 2047), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read_but_never_crashes(position: int, value: int) -> None:
    data = bytearray(layer([file("a", b"x" * 600), link("b", "a", hard=True)]))
    data[position] = value
    try:
        _all(bytes(data))
    except BadImage:
        return


@settings(max_examples=100)
@given(st.binary(max_size=2048))
def test_random_bytes_are_refused_or_empty(data: bytes) -> None:
    try:
        found = _all(data)
    except BadImage:
        return
    assert found == []


def test_an_archive_that_ends_in_the_middle_of_a_file_is_refused() -> None:
    data = layer([file("a", b"x" * 5000)])

    with pytest.raises(BadImage, match="ends in the middle"):
        _all(data[:2000])


def test_an_archive_that_ends_without_its_end_mark_is_read() -> None:
    data = layer([file("a", b"x" * 512)])

    assert [name for name, *_ in _all(data[:1024])] == ["a"]


def _header(name: bytes, kind: bytes, size: int) -> bytes:
    header = bytearray(
        struct.pack(
            "100s8s8s8s12s12s8sc100s6s249x",
            name,
            b"644",
            b"0",
            b"0",
            b"%o" % size,
            b"0",
            b" " * 8,
            kind,
            b"",
            b"ustar\0",
        )
    )
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def test_a_header_that_claims_gigabytes_of_attributes_is_refused_before_they_are_read() -> None:
    with pytest.raises(BadImage, match="header of 4294967296 bytes"):
        _all(_header(b"x", b"x", 4 << 30))


def test_a_sparse_file_of_gnus_is_refused_with_the_way_out() -> None:
    with pytest.raises(BadImage, match="--sparse"):
        _all(_header(b"disk", b"S", 0))


def test_devices_and_fifos_are_named_as_such() -> None:
    data = layer([special("dev/null", tarfile.CHRTYPE), special("pipe", tarfile.FIFOTYPE)])

    assert [kind for _, kind, _, _ in _all(data)] == [EntryKind.OTHER, EntryKind.OTHER]


def test_a_size_beyond_eight_gigabytes_is_read() -> None:
    info, _ = file("disk.img", b"")
    info.size = 10 << 30
    header = info.tobuf(tarfile.GNU_FORMAT)
    entry = next(iter(TarReader(cast("BinaryIO", io.BytesIO(header)))))

    assert entry.size == 10 << 30
