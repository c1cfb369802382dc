"""As much of a SPICE client as tests need: it links a channel, and lists those that a server has.

Used by tests/machine. Written from the protocol's own description; one socket for each channel, as clients do it.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_der_public_key

MAIN: Final = 1
# By the numbers that the protocol has for them.
NAMES: Final = {1: "main", 2: "display", 3: "inputs", 4: "cursor", 5: "playback", 6: "record", 9: "usbredir"}
_MAGIC: Final = b"REDQ"
_HEADER: Final = struct.Struct("<4sIII")
_LINK: Final = struct.Struct("<IBBIII")
_REPLY: Final = struct.Struct("<I162sIII")
# Serial number, type, size and sub-list of each message.
_MESSAGE: Final = struct.Struct("<QHII")
_DISPLAY: Final = 2
_CACHES: Final = struct.Struct("<BqBi")
_DISPLAY_INIT: Final = 101
_INIT: Final = 103
_ATTACH: Final = 104
_CHANNELS: Final = 104
_SECONDS: Final = 20.0


class LinkRefused(Exception):
    """The server's error of the link, or of the ticket."""


@dataclass
class Channel:
    """One linked channel; `session` joins the others to its client."""

    connection: socket.socket
    kind: int
    session: int = 0

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def message(self) -> tuple[int, bytes]:
        """The type of the next message, and what is in it."""
        _, kind, size, _ = _MESSAGE.unpack(_read(self.connection, _MESSAGE.size))
        return kind, _read(self.connection, size)

    def has_ended(self) -> bool:
        """Whether the server closes the connection, whatever else it says before."""
        try:
            while self.connection.recv(65536):
                continue
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


def link(place: str, kind: int = MAIN, session: int = 0, number: int = 0) -> Channel:
    """Open a channel of the server at a unix socket.

    Raises:
        LinkRefused: when the server does not want it.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_SECONDS)
        connection.connect(place)
        asked = _LINK.pack(session, kind, number, 0, 0, _LINK.size)
        connection.sendall(_HEADER.pack(_MAGIC, 2, 2, len(asked)) + asked)
        magic, _, _, size = _HEADER.unpack(_read(connection, _HEADER.size))
        assert magic == _MAGIC
        error, key, *_ = _REPLY.unpack_from(_read(connection, size))
        if error:
            raise LinkRefused(f"link: {error}")
        public = load_der_public_key(key)
        assert isinstance(public, RSAPublicKey)
        connection.sendall(public.encrypt(b"\0", OAEP(MGF1(SHA1()), SHA1(), None)))
        (error,) = struct.unpack("<I", _read(connection, 4))
        if error:
            raise LinkRefused(f"ticket: {error}")
    except BaseException:
        connection.close()
        raise
    if kind == _DISPLAY:
        # What its client caches. The server waits half a minute for it, and nothing else moves meanwhile.
        connection.sendall(_MESSAGE.pack(1, _DISPLAY_INIT, _CACHES.size, 0) + _CACHES.pack(1, 1 << 20, 1, 1 << 20))
    return Channel(connection, kind, session)


def list_channels(main: Channel) -> list[tuple[int, int]]:
    """Kind and number of each channel that the server has for this client; sets the session of `main`."""
    kind, body = main.message()
    assert kind == _INIT
    main.session = struct.unpack_from("<I", body)[0]
    main.connection.sendall(_MESSAGE.pack(1, _ATTACH, 0, 0))
    while kind != _CHANNELS:
        kind, body = main.message()
    (count,) = struct.unpack_from("<I", body)
    return [struct.unpack_from("<BB", body, 4 + 2 * index) for index in range(count)]


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ConnectionResetError(f"the server ended the connection after {len(found)} of {size} bytes")
        found += more
    return found
