"""SPDY as kubectl speaks it: what bytes mean however they are cut, and what makes no sense."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.wire.spdy_frames import (
    DICTIONARY,
    LARGEST_FRAME,
    LARGEST_HEADERS,
    Opened,
    Pinged,
    Received,
    SpdyError,
    SpdyReader,
    SpdyWriter,
    WasReset,
    data_frame,
    pong_frame,
    reset_frame,
)


def control(kind: int, body: bytes, *, version: int = 3) -> bytes:
    return (0x8000 | version).to_bytes(2) + kind.to_bytes(2) + len(body).to_bytes(4) + body


def headers(**texts: str) -> bytes:
    made = len(texts).to_bytes(4)
    for text in (text for pair in texts.items() for text in pair):
        made += len(text.encode()).to_bytes(4) + text.encode()
    return made


class Client:
    """Its compression goes on from one stream to the next."""

    def __init__(self) -> None:
        self._compress = zlib.compressobj(zdict=DICTIONARY)

    def opening(self, stream: int, block: bytes) -> bytes:
        packed = self._compress.compress(block) + self._compress.flush(zlib.Z_SYNC_FLUSH)
        return control(1, stream.to_bytes(4) + bytes(6) + packed)


def test_the_dictionary_is_the_drafts() -> None:
    # Every client names it by this sum.
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(st.integers(1, 40))
def test_frames_mean_the_same_however_they_are_cut(size: int) -> None:
    client, reader = Client(), SpdyReader()
    sent = client.opening(1, headers(StreamType="error", port="80", requestID="0"))
    sent += client.opening(3, headers(streamtype="data", port="80", requestid="0"))
    sent += data_frame(3, b"hello") + data_frame(3, b"", ends=True) + control(4, bytes(4)) + pong_frame(7)
    sent += reset_frame(3, 5) + control(7, bytes(8))
    events = [event for at in range(0, len(sent), size) for event in reader.receive(sent[at : at + size])]
    assert events == [
        Opened(1, {"streamtype": "error", "port": "80", "requestid": "0"}),
        Opened(3, {"streamtype": "data", "port": "80", "requestid": "0"}),
        Received(3, b"hello", False),
        Received(3, b"", True),
        Pinged(7),
        WasReset(3),
    ]


def test_a_reply_has_no_headers_and_is_read_by_the_same_compression() -> None:
    writer, unpacking = SpdyWriter(), zlib.decompressobj(zdict=DICTIONARY)
    for stream in (1, 3):
        made = writer.reply(stream)
        assert made[:4] == b"\x80\x03\x00\x02"
        assert int.from_bytes(made[4:8]) == len(made) - 8
        assert int.from_bytes(made[8:12]) == stream
        assert unpacking.decompress(made[12:]) == bytes(4)


BAD: dict[str, tuple[bytes, str]] = {
    "another version": (control(1, bytes(10), version=2), "version 2"),
    "a frame that is too large": (data_frame(1, b"")[:5] + (LARGEST_FRAME + 1).to_bytes(3), "a frame of"),
    "a stream of the server's": (Client().opening(2, headers()), "stream 2 cannot be opened"),
    "a stream for the second time": (Client().opening(1, headers()) * 2, "stream 1 cannot be opened"),
    "an opening that is cut off": (control(1, b"\0\0\0\1"), "too short"),
    "what is not compressed": (control(1, bytes([0, 0, 0, 1]) + bytes(6) + b"hello"), "compressed"),
    "a bomb": (Client().opening(1, bytes(LARGEST_HEADERS * 20)), "too large"),
    "a header that is cut off": (Client().opening(1, headers(port="80")[:-1]), "cut off"),
    "too many headers": (Client().opening(1, (1 << 30).to_bytes(4)), "too many headers"),
    "what is no text": (Client().opening(1, bytes([0, 0, 0, 1, 0, 0, 0, 1, 0xFF, 0, 0, 0, 0])), "cannot be read"),
    "a reply": (SpdyWriter().reply(1), "unexpected"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_makes_no_sense_ends_the_tunnel(case: str) -> None:
    data, words = BAD[case]
    with pytest.raises(SpdyError, match=words):
        SpdyReader().receive(data)


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    try:
        SpdyReader().receive(data)
    except SpdyError:
        return
