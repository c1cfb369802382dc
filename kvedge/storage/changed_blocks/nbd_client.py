"""Reads a disk over NBD on a unix socket: what of it holds data or has changed, and its bytes.

Made by backup_worker.py; the other end is QEMU, which the guest may have taken: every length it says is checked. The
protocol's newstyle handshake, structured replies, and one request at a time.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

ALLOCATION: Final = "base:allocation"
_SECONDS: Final = 60.0
_MAGIC, _OPTION, _REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
_GO, _STRUCTURED, _SET_CONTEXT = 7, 8, 10
_ACK, _INFO, _CONTEXT, _REFUSED = 1, 3, 4, 1 << 31
_REQUEST, _CHUNK = 0x25609513, 0x668E33EF
_READ, _STATUS, _END = 0, 7, 2
_DONE: Final = 1
_NONE, _DATA, _HOLE, _EXTENTS, _FAILED = 0, 1, 2, 5, 1 << 15
# Of an answer to an option, and of one list of extents: QEMU sends no more.
_LONGEST_REPLY: Final = 64 << 10
_LONGEST_LIST: Final = 2 << 20
# One question's range: fewer than 2**32 bytes, and whole clusters.
_MOST_ASKED: Final = 1 << 30


class NbdError(OSError):
    """The server refuses, or what it says is no NBD."""


class NbdClient:
    """One export of one server, for one thread; `context` says what its extents tell of."""

    def __init__(self, path: str, export: str, context: str = ALLOCATION) -> None:
        """Connect. Raises OSError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.size = 0
        self._context = 0
        self._handle = 0
        try:
            self._socket.settimeout(_SECONDS)
            self._socket.connect(path)
            self._greet()
            self._ask(_STRUCTURED, b"")
            name = export.encode()
            query = context.encode()
            wanted = struct.pack(">I", len(name)) + name + struct.pack(">II", 1, len(query)) + query
            for kind, body in self._ask(_SET_CONTEXT, wanted):
                if kind == _CONTEXT and body[4:] == query:
                    self._context = int.from_bytes(body[:4], "big") + 1
            for kind, body in self._ask(_GO, struct.pack(">I", len(name)) + name + struct.pack(">H", 0)):
                if kind == _INFO and body[:2] == b"\0\0" and len(body) == 12:
                    self.size = int.from_bytes(body[2:10], "big")
            if not self._context:
                raise NbdError(f"export {export} does not tell {context}")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave. Never raises."""
        try:
            self._send(_END, 0, 0)
        except OSError:
            pass
        finally:
            self._socket.close()

    def extents(self) -> Iterator[tuple[int, int, int]]:
        """Offset, length and flags of all of the disk, in order, as the context has it. Raises OSError."""
        offset = 0
        while offset < self.size:
            before = offset
            for length, flags in self._ask_extents(offset, min(_MOST_ASKED, self.size - offset)):
                length = min(length, self.size - offset)
                yield offset, length, flags
                offset += length
            if offset == before:
                raise NbdError("the server tells of no extents")

    def read(self, offset: int, length: int) -> bytearray:
        """Bytes of the disk. Raises OSError."""
        found = bytearray(length)
        seen = 0
        for kind, body in self._request(_READ, offset, length):
            if kind not in (_DATA, _HOLE):
                continue
            at = int.from_bytes(body[:8], "big") - offset
            count = len(body) - 8 if kind == _DATA else int.from_bytes(body[8:12], "big")
            if not 0 <= at <= at + count <= length:
                raise NbdError("the server answers with bytes that nobody asked for")
            if kind == _DATA:
                found[at : at + count] = memoryview(body)[8:]
            seen += count
        if seen != length:
            raise NbdError(f"the server sent {seen} of {length} bytes")
        return found

    def _ask_extents(self, offset: int, length: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for kind, body in self._request(_STATUS, offset, length):
            if kind == _EXTENTS and len(body) % 8 == 4 and int.from_bytes(body[:4], "big") == self._context - 1:
                found += struct.iter_unpack(">II", body[4:])
        return found

    def _request(self, command: int, offset: int, length: int) -> Iterator[tuple[int, bytearray]]:
        self._handle += 1
        self._send(command, offset, length)
        flags = 0
        while not flags & _DONE:
            magic, flags, kind, handle, size = struct.unpack(">IHHQI", self._receive(20))
            if magic != _CHUNK or handle != self._handle or size > max(length + 8, _LONGEST_LIST):
                raise NbdError("the server answers in no protocol that is known")
            body = self._receive(size)
            if kind & _FAILED:
                words = body[6:].decode("utf-8", "replace")
                raise NbdError(int.from_bytes(body[:4], "big"), f"the disk cannot be read: {words}"[:500])
            yield kind, body

    def _send(self, command: int, offset: int, length: int) -> None:
        self._socket.sendall(struct.pack(">IHHQQI", _REQUEST, 0, command, self._handle, offset, length))

    def _greet(self) -> None:
        first, second, flags = struct.unpack(">QQH", self._receive(18))
        if (first, second) != (_MAGIC, _OPTION) or not flags & 1:
            raise NbdError("no NBD server listens there")
        # Without 124 bytes of zeros, where the server can leave them out.
        self._socket.sendall(struct.pack(">I", flags & 3))

    def _ask(self, option: int, body: bytes) -> list[tuple[int, bytearray]]:
        self._socket.sendall(struct.pack(">QII", _OPTION, option, len(body)) + body)
        found: list[tuple[int, bytearray]] = []
        while True:
            magic, asked, kind, size = struct.unpack(">QIII", self._receive(20))
            if magic != _REPLY or asked != option or size > _LONGEST_REPLY or len(found) > 64:
                raise NbdError("the server answers in no protocol that is known")
            said = self._receive(size)
            if kind & _REFUSED:
                words = said.decode("utf-8", "replace")
                raise NbdError(f"the server refuses option {option} ({kind:#x}): {words}"[:500])
            if kind == _ACK:
                return found
            found.append((kind, said))

    def _receive(self, size: int) -> bytearray:
        found = bytearray(size)
        view = memoryview(found)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise NbdError("the server has closed the connection")
            view = view[count:]
        return found
