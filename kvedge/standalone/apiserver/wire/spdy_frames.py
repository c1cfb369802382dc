"""SPDY/3.1 as clients of `kubectl port-forward` and `exec` speak it: bytes become events, and answers become bytes.

Used by `forward_tunnel` and `spdy_channels`. No I/O. Flow control by windows is not part of it, as the clients have
none. Source: the draft draft-mbelshe-httpbis-spdy-00, and what KEP-4006 makes of it in a websocket.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, TypeAlias

from msgspec import Struct

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
REFUSED_STREAM, CANCEL = 3, 5
_FIN: Final = 1
_VERSION: Final = 3
_CONTROL: Final = 0x8000
_HEAD: Final = struct.Struct("!HHI")
_DATA_HEAD: Final = struct.Struct("!II")
_NUMBER: Final = struct.Struct("!I")
_PAIR: Final = struct.Struct("!II")
_STREAM: Final = 0x7FFFFFFF
# kubectl's pieces have 32 KiB. Some of each connection wait in memory.
LARGEST_FRAME: Final = 64 << 10
# Of a stream: its kind, its port and a number.
LARGEST_HEADERS: Final = 8 << 10
_MOST_HEADERS: Final = 32
# The text that both sides' compression begins with: words with their lengths, then text.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative"
    " Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500"
    " Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec"
    " 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _make_dictionary() -> bytes:
    words = (word.replace("_", " ").encode() for word in _WORDS.split())
    return b"".join(_NUMBER.pack(len(word)) + word for word in words) + _TEXT.encode()


DICTIONARY: Final = _make_dictionary()


class SpdyError(Exception):
    """The other side does not keep to the protocol; nothing that it sends can be read any more."""


class Opened(Struct, frozen=True):
    """A stream of the client's, with its headers by their names in lower case."""

    stream: int
    headers: dict[str, str]


class Received(Struct, frozen=True):
    """Bytes of a stream; with `ends` the last ones."""

    stream: int
    data: bytes
    ends: bool


class WasReset(Struct, frozen=True):
    """The client wants no more of a stream."""

    stream: int


class Pinged(Struct, frozen=True):
    """The client asks for an answer with this number."""

    number: int


Event: TypeAlias = Opened | Received | WasReset | Pinged


class SpdyReader:
    """What one client sends, in its order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)
        self._last = 0

    def receive(self, data: bytes) -> list[Event]:
        """The events of what has come by now.

        Raises:
            SpdyError: it makes no sense, or is too large.
        """
        self._buffer += data
        found: list[Event] = []
        start = 0
        while len(self._buffer) - start >= _HEAD.size:
            _, flags_and_length = _DATA_HEAD.unpack_from(self._buffer, start)
            length = flags_and_length & 0xFFFFFF
            if length > LARGEST_FRAME:
                raise SpdyError(f"a frame of {length} bytes")
            end = start + _HEAD.size + length
            if len(self._buffer) < end:
                break
            event = self._read_frame(start, bytes(self._buffer[start + _HEAD.size : end]))
            if event is not None:
                found.append(event)
            start = end
        del self._buffer[:start]
        return found

    def _read_frame(self, start: int, body: bytes) -> Event | None:
        first, kind, flags_and_length = _HEAD.unpack_from(self._buffer, start)
        ends = bool((flags_and_length >> 24) & _FIN)
        if not first & _CONTROL:
            return Received(first << 16 | kind, body, ends)
        if first & ~_CONTROL != _VERSION:
            raise SpdyError(f"version {first & ~_CONTROL}")
        if kind == SYN_STREAM:
            return self._read_opening(body)
        if kind == RST_STREAM:
            return WasReset(_numbers(body)[0] & _STREAM)
        if kind == PING:
            return Pinged(_NUMBER.unpack(body)[0]) if len(body) == _NUMBER.size else None
        if kind in (SYN_REPLY, HEADERS):
            # They would have to be read for the sake of the compression, and no client has a reason to send them.
            raise SpdyError(f"an unexpected frame of type {kind}")
        # Settings, windows and farewells change nothing here.
        return None

    def _read_opening(self, body: bytes) -> Opened:
        stream = _numbers(body)[0] & _STREAM
        if len(body) < 10 or stream % 2 == 0 or stream <= self._last:
            raise SpdyError(f"stream {stream} cannot be opened")
        self._last = stream
        try:
            block = self._headers.decompress(body[10:], LARGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers that are not compressed as they should be: {error}") from error
        if self._headers.unconsumed_tail:
            raise SpdyError("headers that are too large")
        return Opened(stream, _read_headers(block))


def _numbers(body: bytes) -> tuple[int, int]:
    if len(body) < _PAIR.size:
        raise SpdyError("a frame that is too short")
    first, second = _PAIR.unpack_from(body)
    return first, second


def _read_headers(block: bytes) -> dict[str, str]:
    try:
        count = _NUMBER.unpack_from(block)[0]
        if count > _MOST_HEADERS:
            raise SpdyError("too many headers")
        texts, at = [], _NUMBER.size
        for _ in range(2 * count):
            size = _NUMBER.unpack_from(block, at)[0]
            at += _NUMBER.size
            if at + size > len(block):
                raise SpdyError("a header that is cut off")
            texts.append(block[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError) as error:
        raise SpdyError("headers that cannot be read") from error
    return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


class SpdyWriter:
    """Makes what is sent to one client; what it makes is sent in this order."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """That a stream is open."""
        block = self._headers.compress(_NUMBER.pack(0)) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, _NUMBER.pack(stream) + block)


def data_frame(stream: int, data: bytes, *, ends: bool = False) -> bytes:
    """Bytes of a stream; with `ends` nothing comes after them."""
    return _DATA_HEAD.pack(stream, (_FIN if ends else 0) << 24 | len(data)) + data


def reset_frame(stream: int, status: int) -> bytes:
    """That nothing comes of a stream any more, and nothing is taken."""
    return _control(RST_STREAM, _PAIR.pack(stream, status))


def pong_frame(number: int) -> bytes:
    """The answer to a ping."""
    return _control(PING, _NUMBER.pack(number))


def _control(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION, kind, len(body)) + body
