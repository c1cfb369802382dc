"""Gives the parts of an image to one `qemu-img`, read-only, by the NBD protocol over a pair of sockets.

So qemu-img reads what a server has, without a copy and without speaking to the network; and it knows no path, beside
which it could look for other files. Only what QEMU's client asks for is answered. Reads the socket and the parts.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from kvedge.storage.imports.image_parts import Parts

_HANDSHAKE: Final = b"NBDMAGIC" + b"IHAVEOPT"
_FIXED_NEWSTYLE: Final = 1
_NO_ZEROES: Final = 2
_OPTION: Final = struct.Struct(">8sII")
_OPTION_REPLY: Final = struct.Struct(">QIII")
_OPTION_MAGIC: Final = 0x3E889045565A9
_OPTION_ABORT, _OPTION_INFO, _OPTION_GO = 2, 6, 7
_ACK, _INFO, _UNSUPPORTED = 1, 3, (1 << 31) + 1
# An option holds a name; QEMU's are some bytes.
_LONGEST_OPTION: Final = 4096
_EXPORT_INFO: Final = struct.Struct(">HQH")
_HAS_FLAGS, _READ_ONLY = 1, 2
_REQUEST: Final = struct.Struct(">IHHQQI")
_REQUEST_MAGIC: Final = 0x25609513
_REPLY: Final = struct.Struct(">IIQ")
_REPLY_MAGIC: Final = 0x67446698
_READ, _DISCONNECT, _FLUSH = 0, 2, 3
_EIO, _EINVAL = 5, 22
# QEMU's own limit of a request.
_LONGEST_READ: Final = 32 << 20


class ClientGone(Exception):
    """The other end has closed the connection."""


class NbdServer:
    """Serves one connection; :meth:`serve` returns when the client has gone.

    `failure` is what the parts raised: the client hears of an I/O error only.
    """

    # What the client is told of the export.
    flags = _HAS_FLAGS | _READ_ONLY

    def __init__(self, connection: socket.socket, parts: Parts) -> None:
        self._connection = connection
        self._parts = parts
        self.failure: Exception | None = None

    def serve(self) -> None:
        """Answer until the client goes."""
        try:
            if self._agree():
                while self._answer():
                    continue
        except (ClientGone, OSError):
            return
        finally:
            self._connection.close()

    def _agree(self) -> bool:
        """The handshake; False when the client wanted no more than that."""
        self._connection.sendall(_HANDSHAKE + struct.pack(">H", _FIXED_NEWSTYLE | _NO_ZEROES))
        self._read_exactly(4)
        while True:
            magic, option, length = _OPTION.unpack(self._read_exactly(_OPTION.size))
            if magic != b"IHAVEOPT" or length > _LONGEST_OPTION:
                return False
            self._read_exactly(length)
            if option in (_OPTION_INFO, _OPTION_GO):
                info = _EXPORT_INFO.pack(0, self._parts.size, self.flags)
                self._reply(option, _INFO, info)
                self._reply(option, _ACK)
                if option == _OPTION_GO:
                    return True
            elif option == _OPTION_ABORT:
                self._reply(option, _ACK)
                return False
            else:
                self._reply(option, _UNSUPPORTED)

    def _reply(self, option: int, kind: int, data: bytes = b"") -> None:
        self._connection.sendall(_OPTION_REPLY.pack(_OPTION_MAGIC, option, kind, len(data)) + data)

    def _answer(self) -> bool:
        """One request; False at the end."""
        magic, _, kind, handle, position, length = _REQUEST.unpack(self._read_exactly(_REQUEST.size))
        if magic != _REQUEST_MAGIC or kind == _DISCONNECT:
            return False
        if kind == _FLUSH:
            self._connection.sendall(_REPLY.pack(_REPLY_MAGIC, 0, handle))
            return True
        if kind != _READ or length > _LONGEST_READ or position + length > self._parts.size:
            self._connection.sendall(_REPLY.pack(_REPLY_MAGIC, _EINVAL, handle))
            return int(kind) == _READ
        try:
            data = self._parts.read_at(position, length)
        except Exception as error:  # noqa: BLE001 - told to the caller of the conversion
            self.failure = error
            self._connection.sendall(_REPLY.pack(_REPLY_MAGIC, _EIO, handle))
            return True
        data += bytes(length - len(data))
        self._connection.sendall(_REPLY.pack(_REPLY_MAGIC, 0, handle))
        self._connection.sendall(data)
        return True

    def _read_exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._connection.recv(size - len(found))
            if not part:
                raise ClientGone
            found += part
        return found
