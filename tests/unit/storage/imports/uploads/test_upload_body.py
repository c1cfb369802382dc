"""Framing of pushed bodies."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.storage.imports.uploads.upload_body import BodyBroken, BodyMalformed, body_pieces

CHUNKED = {"Transfer-Encoding": "chunked"}


def read(data: bytes, headers: dict[str, str]) -> bytes:
    return b"".join(body_pieces(io.BytesIO(data), headers))


@given(st.lists(st.binary(min_size=1, max_size=50)))
def test_chunks_are_put_together_however_they_were_cut(pieces: list[bytes]) -> None:
    sent = b"".join(b"%x;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    assert read(sent + b"0\r\nTrailer: x\r\n\r\n", CHUNKED) == b"".join(pieces)


def test_a_body_with_a_length_ends_there() -> None:
    assert read(b"disk and more", {"content-length": "4"}) == b"disk"


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (b"dis", {"Content-Length": "4"}),
        (b"4\r\ndis", CHUNKED),
        (b"4\r\ndisk\r\n", CHUNKED),
        (b"4\r\ndisk", CHUNKED),
        (b"0\r\n", CHUNKED),
    ],
    ids=["length", "inside a chunk", "before the next", "before its end", "before the last line"],
)
def test_a_connection_that_ends_too_early_is_told_from_the_end(data: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(BodyBroken):
        read(data, headers)


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (b"", {}),
        (b"disk", {"Content-Length": "-4"}),
        (b"disk", {"Content-Length": "4", "Transfer-Encoding": "chunked"}),
        (b"disk", {"Transfer-Encoding": "gzip, chunked"}),
        (b"4\r\ndiskette\r\n", CHUNKED),
        (b"-4\r\ndisk\r\n", CHUNKED),
        (b"f" * 2000, CHUNKED),
    ],
    ids=["no length", "negative", "both", "packed", "chunk too long", "negative chunk", "endless line"],
)
def test_a_body_that_is_framed_wrongly_is_refused(data: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(BodyMalformed):
        read(data, headers)
