"""Whether passt still holds its end of the connection with QEMU, as the kernel says.

Called by `passt_watch`. Asks the kernel for one established connection of the Pod's network: passt goes into namespaces
of its own, writes no file there, and outlives the launcher that has started it, so that no process can be waited for.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from kvedge.launcher.passt.passt_command import LINK_ADDRESS, LINK_PORT

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_ERROR, _DONE = 2, 3
_DUMP_REQUEST: Final = 0x301
_ESTABLISHED: Final = 1
_HEADER: Final = struct.Struct("=IHHII")
_QUERY: Final = struct.Struct("=BBBxI")
_PORTS: Final = struct.Struct("!HH")
# Addresses, interface and cookie of a connection: any.
_ANY: Final = bytes(44)
# Of a found connection: its own port and address, behind four octets.
_FOUND: Final = struct.Struct("!4xH2x4s")
_SECONDS: Final = 2.0
_LARGEST: Final = 65536
# The kernel sends the connections of that one port alone.
_MOST_PARTS: Final = 64


class UnclearAnswer(Exception):
    """The kernel cannot tell."""


def is_connected() -> bool | None:
    """Whether the connection stands; None where the kernel does not tell."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            kernel.settimeout(_SECONDS)
            kernel.send(make_query())
            for _ in range(_MOST_PARTS):
                found, is_over = read_part(kernel.recv(_LARGEST))
                if found or is_over:
                    return found
    except (OSError, UnclearAnswer):
        return None
    return None


def make_query() -> bytes:
    """Asks for the established TCP connections at passt's port."""
    body = _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED) + _PORTS.pack(LINK_PORT, 0) + _ANY
    return _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _DUMP_REQUEST, 1, 0) + body


def read_part(part: bytes) -> tuple[bool, bool]:
    """Whether this part of an answer has the connection, and whether it is the last one.

    Raises:
        UnclearAnswer: when it is no answer.
    """
    at, found = 0, False
    while at + _HEADER.size <= len(part):
        length, kind, *_ = _HEADER.unpack_from(part, at)
        if kind == _DONE:
            return found, True
        body = at + _HEADER.size
        if kind == _ERROR or not _HEADER.size <= length <= len(part) - at:
            raise UnclearAnswer
        if kind == _BY_FAMILY and body + _FOUND.size <= at + length:
            port, address = _FOUND.unpack_from(part, body)
            found = found or (port == LINK_PORT and address == socket.inet_aton(LINK_ADDRESS))
        at += (length + 3) & ~3
    return found, False
