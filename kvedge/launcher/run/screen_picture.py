"""A picture of the guest's screen: PPM, as QEMU draws it, becomes PNG on the way.

Called by `screenshots`. Pure: pieces come in, pieces go out, and only a few of them are in memory at any time. QEMU
draws what the guest has put on its screen; its size is checked all the same.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Final

PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
# Twice that of an 8K screen, in each direction.
MOST_PIXELS: Final = 16384
# Of the PNG file; a screen full of noise in 4K has 25 MB.
LARGEST: Final = 32 << 20
# A picture goes out in pieces of this size.
PIECE: Final = 64 << 10

# "P6", width, height and the largest value, divided by white space; one character of that ends the header.
_HEADER: Final = re.compile(rb"P6\s+(\d{1,5})\s+(\d{1,5})\s+255\s")
_LONGEST_HEADER: Final = 64
_TRUE_COLOUR: Final = 2
# Little CPU: the picture is compressed while the guest runs beside it.
_LEVEL: Final = 3


class BadPicture(Exception):
    """The data are no picture, or too large a one."""


def png_pieces(source: Iterator[bytes]) -> Iterator[bytes]:
    """The picture as PNG: passed on if it is one, made from PPM if it is that; in pieces of limited size.

    Raises:
        BadPicture: when it is neither, when it ends early, or when it is too large.
    """
    head = _read_first(source, len(PNG_MAGIC))
    made = _join(head, source) if head.startswith(PNG_MAGIC) else _convert(head, source)
    size = 0
    for piece in made:
        size += len(piece)
        if size > LARGEST:
            raise BadPicture(f"the picture is larger than {LARGEST >> 20} MiB")
        for start in range(0, len(piece), PIECE):
            yield piece[start : start + PIECE]


def _read_first(source: Iterator[bytes], size: int) -> bytes:
    head = b""
    while len(head) < size:
        piece = next(source, b"")
        if not piece:
            raise BadPicture("the picture is empty")
        head += piece
    return head


def _join(head: bytes, source: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from source


def _convert(head: bytes, source: Iterator[bytes]) -> Generator[bytes, None, None]:
    while not (found := _HEADER.match(head)):
        if len(head) >= _LONGEST_HEADER or not (piece := next(source, b"")):
            raise BadPicture("the picture is neither PNG nor PPM")
        head += piece
    width, height = int(found[1]), int(found[2])
    if not (0 < width <= MOST_PIXELS and 0 < height <= MOST_PIXELS):
        raise BadPicture(f"the picture has {width} by {height} pixels")
    yield PNG_MAGIC + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _TRUE_COLOUR, 0, 0, 0))
    compressor = zlib.compressobj(_LEVEL)
    for row in _rows(_join(head[found.end() :], source), width * 3, height):
        # Each row is preceded by its filter: none.
        if data := compressor.compress(b"\0" + row):
            yield _chunk(b"IDAT", data)
    yield _chunk(b"IDAT", compressor.flush()) + _chunk(b"IEND", b"")


def _rows(source: Iterable[bytes], size: int, count: int) -> Iterator[bytes]:
    kept = bytearray()
    for piece in source:
        kept += piece
        while len(kept) >= size:
            if count == 0:
                return
            yield bytes(kept[:size])
            del kept[:size]
            count -= 1
    if count:
        raise BadPicture("the picture ends early")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
