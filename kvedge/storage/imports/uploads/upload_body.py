"""The body of a pushed upload, piece by piece, off a blocking connection.

Called by upload_server.py. Reads the connection and nothing else. Each piece has a megabyte at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from typing import Final

PIECE: Final = 1 << 20
# Of a chunk's length with what may stand behind it.
_LONGEST_LINE: Final = 1024


class BodyBroken(Exception):
    """The connection ended before the body did."""


class BodyMalformed(Exception):
    """The body is not framed as HTTP frames it."""


def body_pieces(stream: BufferedIOBase, headers: Mapping[str, str]) -> Iterator[bytes]:
    """The body that these headers announce.

    Raises:
        BodyBroken: in the middle of it.
        BodyMalformed: it says neither its length nor its chunks, or says it wrongly.
    """
    known = {name.lower(): value for name, value in headers.items()}
    coding, length = known.get("transfer-encoding"), known.get("content-length")
    if coding is not None:
        if coding.strip().lower() != "chunked" or length is not None:
            raise BodyMalformed("Transfer-Encoding may be chunked alone, and then without Content-Length")
        yield from _chunks(stream)
    elif length is not None:
        yield from _read_exactly(stream, _number(length, 10))
    else:
        raise BodyMalformed("the body has no length: send Content-Length or chunks")


def _chunks(stream: BufferedIOBase) -> Iterator[bytes]:
    while size := _number(_line(stream).partition(b";")[0].decode("latin-1"), 16):
        yield from _read_exactly(stream, size)
        if _line(stream):
            raise BodyMalformed("a chunk is longer than it says")
    # Trailers mean nothing here; there is one line at least.
    while _line(stream):
        continue


def _read_exactly(stream: BufferedIOBase, size: int) -> Iterator[bytes]:
    left = size
    while left:
        # As much as is there now: the rest may never come, and these bytes need not be sent again.
        piece = stream.read1(min(left, PIECE))
        if not piece:
            raise BodyBroken(f"{left} bytes are missing")
        left -= len(piece)
        yield piece


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        if len(line) == _LONGEST_LINE:
            raise BodyMalformed("a line among the chunks is too long")
        raise BodyBroken("the next chunk is missing")
    return line.rstrip(b"\r\n")


def _number(text: str, base: int) -> int:
    text = text.strip()
    digits = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    if not text or len(text) > 16 or any(digit not in digits for digit in text):
        raise BodyMalformed(f"{text[:20]!r} is no length")
    return int(text, base)
