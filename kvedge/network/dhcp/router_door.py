"""Where a launcher takes over the raw ICMPv6 socket that it may not open itself.

The handler, as root, opens that socket in the Pod's network namespace, for one bridge, and hands it over here; then it
lives and ends with the launcher. The door is an abstract unix socket, which only who is in the Pod's network namespace
can reach, and only root is listened to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

ROOT: Final = 0
VISIT_SECONDS: Final = 1.0
# One is wanted; a visitor that brings others must not leave them open.
MOST_DESCRIPTORS: Final = 8
_PEER: Final = struct.Struct("3i")


def door_name(bridge: str) -> bytes:
    """The abstract socket's name for the guest NIC on that bridge."""
    return b"\0kvedge-router-" + bridge.encode()


def open_door(bridge: str) -> socket.socket:
    """A listening socket, in the network namespace of the caller. Raises OSError."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        door.bind(door_name(bridge))
        door.listen(1)
        door.setblocking(False)
    except OSError:
        door.close()
        raise
    return door


def hand_over(bridge: str, given: socket.socket, launcher_pid: int) -> None:
    """Gives the socket to the launcher, from within its Pod's namespace.

    Raises:
        ConnectionRefusedError: when nobody, or somebody else, is at the door.
        OSError: when it could not be sent.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(VISIT_SECONDS)
        client.connect(door_name(bridge))
        if _peer(client)[0] != launcher_pid:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "another process than the launcher listens")
        socket.send_fds(client, [b"router"], [given.fileno()])


def take_over(door: socket.socket) -> socket.socket | None:
    """The socket that somebody at the door hands over; None when it was nobody, not root, or something else.

    Raises:
        OSError: when the door itself is broken.
    """
    try:
        visitor, _ = door.accept()
    except BlockingIOError:
        return None
    with visitor:
        # The handler connects and sends at once; nobody else is waited for.
        visitor.settimeout(VISIT_SECONDS)
        if _peer(visitor)[1] != ROOT:
            return None
        try:
            _, found, _, _ = socket.recv_fds(visitor, 16, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
    return _open_raw_icmpv6(found)


def _peer(connected: socket.socket) -> tuple[int, int]:
    pid, uid, _gid = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid), int(uid)


def _open_raw_icmpv6(descriptors: list[int]) -> socket.socket | None:
    for extra in descriptors[1:]:
        os.close(extra)
    if not descriptors:
        return None
    opened = socket.socket(fileno=descriptors[0])
    if (opened.family, opened.type, opened.proto) != (socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6):
        opened.close()
        return None
    opened.setblocking(False)
    return opened
