"""A qcow2 image in one pass: what is written, and what is refused; images are built by hand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.storage.imports.import_errors import ImportFailure, NotStreamable
from kvedge.storage.imports.sinks.qcow2_stream import Qcow2Stream
from kvedge.storage.qcow2_header import Qcow2Header

CLUSTER = 65536
DATA = b"\x07" * CLUSTER
SIZE = 10 * CLUSTER


def table(*entries: int) -> bytes:
    return struct.pack(f">{len(entries)}Q", *entries).ljust(CLUSTER, b"\0")


def header(size: int = SIZE, l1_entries: int = 1, l1_offset: int = CLUSTER, *, is_plain: bool = True) -> Qcow2Header:
    return Qcow2Header(3, size, 16, l1_entries, l1_offset, is_plain)


def read(image: bytes, piece: int = 1 << 20, described: Qcow2Header | None = None) -> bytes:
    """The disk of an image that comes in pieces."""
    disk = bytearray(SIZE)

    def write(position: int, data: bytes) -> None:
        disk[position : position + len(data)] = data

    stream = Qcow2Stream(described or header(), write)
    for start in range(0, len(image), piece):
        stream.feed(image[start : start + piece])
    stream.end()
    return bytes(disk)


def plain_image() -> bytes:
    """Header, first table, second table, clusters 1 and 0, one that nothing refers to, and cluster 5."""
    second = table(4 * CLUSTER, 3 * CLUSTER, 0, 0, 1, 6 * CLUSTER)
    return (
        bytes(CLUSTER) + table(2 * CLUSTER) + second + b"\x01" * CLUSTER + b"\x02" * CLUSTER + DATA + b"\x03" * CLUSTER
    )


@given(st.integers(1, 3 * CLUSTER))
def test_a_disk_is_the_same_in_whatever_pieces_its_image_comes(piece: int) -> None:
    disk = read(plain_image(), max(piece, 500))
    assert disk == b"\x02" * CLUSTER + b"\x01" * CLUSTER + bytes(3 * CLUSTER) + b"\x03" * CLUSTER + bytes(4 * CLUSTER)


def test_compressed_clusters_lie_side_by_side_without_regard_to_sectors() -> None:
    packed = []
    for number in (1, 2):
        packer = zlib.compressobj(9, zlib.DEFLATED, -12)
        packed.append(packer.compress(bytes([number]) * CLUSTER) + packer.flush())
    begins = [3 * CLUSTER, 3 * CLUSTER + len(packed[0])]
    entries = [(1 << 62) | begin for begin in begins]
    image = bytes(CLUSTER) + table(2 * CLUSTER) + table(*entries) + b"".join(packed)

    assert read(image, 777)[: 2 * CLUSTER] == b"\x01" * CLUSTER + b"\x02" * CLUSTER


def test_the_last_cluster_may_be_short() -> None:
    image = bytes(CLUSTER) + table(2 * CLUSTER) + table(3 * CLUSTER) + b"\x01" * 1000
    assert read(image)[:1001] == b"\x01" * 1000 + b"\0"


@pytest.mark.parametrize("piece", [600, 1000, 1 << 20])
def test_nothing_is_written_behind_the_end_of_a_disk_whose_last_cluster_is_longer(piece: int) -> None:
    image = bytes(CLUSTER) + table(2 * CLUSTER) + table(3 * CLUSTER) + b"\x01" * CLUSTER
    assert read(image, piece, header(size=512)) == b"\x01" * 512 + bytes(SIZE - 512)


@pytest.mark.parametrize(
    "described",
    [header(l1_offset=100 * CLUSTER), header(is_plain=False)],
    ids=["first table at the end", "subclusters"],
)
def test_an_image_that_is_no_stream_is_known_by_its_header(described: Qcow2Header) -> None:
    with pytest.raises(NotStreamable):
        read(b"", described=described)


def test_a_cluster_before_its_table_is_no_stream() -> None:
    with pytest.raises(NotStreamable):
        read(bytes(CLUSTER) + table(3 * CLUSTER) + DATA + table(2 * CLUSTER), CLUSTER)


def _cut() -> bytes:
    return plain_image()[: -2 * CLUSTER]


@pytest.mark.parametrize(
    "image",
    [
        _cut,
        lambda: bytes(CLUSTER) + table(2 * CLUSTER),
        lambda: bytes(CLUSTER) + table(2 * CLUSTER + 512) + bytes(CLUSTER),
        lambda: bytes(CLUSTER) + table(2 * CLUSTER) + table(3 * CLUSTER + 512) + DATA + DATA,
        lambda: bytes(CLUSTER) + table(2 * CLUSTER) + table((1 << 62) | 3 * CLUSTER) + b"\xff" * CLUSTER,
    ],
    ids=["cut", "no second table", "table at no cluster", "cluster at no place", "broken compression"],
)
def test_a_broken_image_is_refused(image: Callable[[], bytes]) -> None:
    with pytest.raises(ImportFailure, match="broken"):
        read(image())


@pytest.mark.parametrize("described", [header(1 << 50), header(l1_entries=0), header(l1_offset=0), header(l1_offset=7)])
def test_tables_that_do_not_fit_the_size_are_refused_before_anything_is_read(described: Qcow2Header) -> None:
    with pytest.raises(ImportFailure, match="first table"):
        read(b"", described=described)


def test_clusters_that_are_strewn_about_cost_bounded_memory() -> None:
    entries = CLUSTER // 8
    size = entries * CLUSTER * 16
    tables = [table(*(((number * 7919) % 900_000 + 1000) * CLUSTER for number in range(start, start + entries)))
              for start in range(0, 16 * entries, entries)]  # fmt: skip
    first = table(*((2 + number) * CLUSTER for number in range(16)))
    with pytest.raises(NotStreamable, match="strewn"):
        read(bytes(CLUSTER) + first + b"".join(tables), described=header(size, 16))
