"""One gRPC call with one message each way, as a core without I/O: bytes in, bytes out.

For `launcher_call`, whose users live for a single call, and some are started every few seconds beside each guest: grpc
itself takes 0.1 seconds of CPU and 20 MB to load. It knows as much of HTTP/2 (RFC 9113) and HPACK (RFC 7541) as an
answer of grpc's own server takes: no table of headers, as it asks for none, and no Huffman coding, which grpc does not
use. Imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OK = 0
# gRPC's code for what makes no sense.
_INTERNAL = 13
_UNAVAILABLE = 14

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_TABLE_SIZE, _WINDOW_SIZE = 1, 4
_STREAM = 1
# The bytes that a peer must take without having been asked: in one frame, and on one stream.
_FRAME = 16 << 10
_WINDOW = (64 << 10) - 1
# The most bytes of a whole answer, with its frames, unless the caller says so; our server sends some kilobytes.
LONGEST_ANSWER = 60 << 10


class UnaryCall:
    """A call of one method; done when `status` is a number, 0 for success with the reply's bytes in `reply`."""

    def __init__(self, path: str, message: bytes, timeout_seconds: int, longest_answer: int = LONGEST_ANSWER) -> None:
        """`path` is `/package.Service/Method`, `message` the request, encoded.

        A server may send an answer of `longest_answer` bytes without having to ask for room.

        Raises:
            ValueError: when the message is longer than can be sent at once.
        """
        if len(message) + 5 > _WINDOW:
            raise ValueError("the message is too long")
        self.status: int | None = None
        self.detail = ""
        self._body = bytearray()
        self._longest = longest_answer
        self._block = b""
        self._received = b""
        self._total = 0
        settings = _TABLE_SIZE.to_bytes(2) + bytes(4)
        if longest_answer > _WINDOW:
            settings += _WINDOW_SIZE.to_bytes(2) + longest_answer.to_bytes(4)
        self._to_send = _PREFACE + _frame(_SETTINGS, 0, 0, settings)
        if longest_answer > _WINDOW:
            # The setting speaks of a stream; this is the connection's.
            self._to_send += _frame(_WINDOW_UPDATE, 0, 0, (longest_answer - _WINDOW).to_bytes(4))
        self._to_send += _frame(_HEADERS, _END_HEADERS, _STREAM, _request_headers(path, timeout_seconds))
        body = b"\0" + len(message).to_bytes(4) + message
        pieces = [body[at : at + _FRAME] for at in range(0, len(body), _FRAME)]
        for piece in pieces[:-1]:
            self._to_send += _frame(_DATA, 0, _STREAM, piece)
        self._to_send += _frame(_DATA, _END_STREAM, _STREAM, pieces[-1])

    def to_send(self) -> bytes:
        """The bytes to send to the server now."""
        sent, self._to_send = self._to_send, b""
        return sent

    def receive(self, data: bytes) -> None:
        """Bytes from the server; none when it has closed the connection."""
        if self.status is not None:
            return
        if not data:
            self._end(_UNAVAILABLE, "the launcher closed the connection")
            return
        self._total += len(data)
        if self._total > self._longest:
            self._end(_INTERNAL, "the launcher's answer is too long")
            return
        self._received += data
        while self.status is None and len(self._received) >= 9:
            end = 9 + int.from_bytes(self._received[:3])
            if len(self._received) < end:
                return
            head, payload = self._received[:9], self._received[9:end]
            self._received = self._received[end:]
            self._take(head[3], head[4], payload)

    @property
    def reply(self) -> bytes:
        """The reply's bytes; only after a success."""
        return bytes(self._body[5:])

    def _take(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._to_send += _frame(_SETTINGS, _ACK, 0, b"")
        elif kind == _PING and not flags & _ACK:
            self._to_send += _frame(_PING, _ACK, 0, payload)
        elif kind == _DATA:
            self._body += _unpad(flags, payload)
        elif kind in (_HEADERS, _CONTINUATION):
            self._block += _header_block(kind, flags, payload)
            if flags & _END_HEADERS:
                self._take_headers()
        elif kind in (_RST_STREAM, _GOAWAY):
            self._end(_UNAVAILABLE, "the launcher refused the call")
            return
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM and self.status is None:
            self._end(_INTERNAL, "the launcher's answer has no status")

    def _take_headers(self) -> None:
        block, self._block = self._block, b""
        try:
            headers = dict(_decode_headers(block))
        except IndexError:
            self._end(_INTERNAL, "the launcher's answer makes no sense")
            return
        status = headers.get(b"grpc-status")
        if status is None:
            # The first of two: the trailers tell.
            return
        code = int(status) if status.isdigit() else _INTERNAL
        if code == OK and int.from_bytes(self._body[1:5]) != len(self._body) - 5:
            self._end(_INTERNAL, "the launcher's answer is not whole")
            return
        self._end(code, _decode_percent(headers.get(b"grpc-message", b"")))

    def _end(self, status: int, detail: str) -> None:
        self.status, self.detail = status, detail


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _request_headers(path: str, timeout_seconds: int) -> bytes:
    # By number of the static table: method POST, scheme http; then authority and content-type, whose names are there.
    made = bytes((0x83, 0x86))
    made += b"\x04" + _text(path.encode())
    made += b"\x01" + _text(b"localhost")
    made += b"\x0f\x10" + _text(b"application/grpc")
    for name, value in ((b"te", b"trailers"), (b"grpc-timeout", b"%dS" % timeout_seconds)):
        made += b"\x00" + _text(name) + _text(value)
    return made


def _text(data: bytes) -> bytes:
    if len(data) < 0x7F:
        return bytes((len(data),)) + data
    rest, length = b"", len(data) - 0x7F
    while length >= 0x80:
        rest += bytes((length & 0x7F | 0x80,))
        length >>= 7
    return b"\x7f" + rest + bytes((length,)) + data


def _unpad(flags: int, payload: bytes) -> bytes:
    return payload[1 : len(payload) - payload[0]] if flags & _PADDED and payload else payload


def _header_block(kind: int, flags: int, payload: bytes) -> bytes:
    if kind == _CONTINUATION:
        return payload
    block = _unpad(flags, payload)
    return block[5:] if flags & _PRIORITY else block


def _decode_headers(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The headers that are spelled out; of others, which stand in the static table, nothing is wanted.

    Raises:
        IndexError: when the block ends in the middle.
    """
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            _, at = _integer(block, at, 7)
            continue
        if first & 0xE0 == 0x20:
            # A new size of the table that is not used.
            _, at = _integer(block, at, 5)
            continue
        index, at = _integer(block, at, 6 if first & 0x40 else 4)
        name = b""
        if index == 0:
            name, at = _string(block, at)
        value, at = _string(block, at)
        if name:
            yield name, value


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        value += (block[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not block[at - 1] & 0x80:
            return value, at


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    packed = block[at] & 0x80
    length, at = _integer(block, at, 7)
    if at + length > len(block):
        raise IndexError("a header ends in the middle")
    # A packed one would need Huffman's table; it is left out.
    return (b"" if packed else block[at : at + length]), at + length


def _decode_percent(text: bytes) -> str:
    first, *rest = text.split(b"%")
    made = first
    for part in rest:
        try:
            made += bytes.fromhex(part[:2].decode()) + part[2:]
        except ValueError:
            made += b"%" + part
    return made.decode(errors="replace")
