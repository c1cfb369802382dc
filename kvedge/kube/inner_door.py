"""A way to an API server of this same process: sockets that the server itself hands out, instead of TLS.

One box runs its API and its roles in one process. :mod:`kvedge.kube.live_connection` makes connections of such a door
where it is given one. The two ends of a pair of sockets have no name that somebody else could connect to, and the
server knows whose a socket is, as it made it for them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from msgspec import Struct


class InnerDoor(Struct, frozen=True):
    """One identity at one server: `open` gives a socket whose other end the server reads as that identity's.

    `host` is the server's address for everybody else. `open` raises `OSError` when the server does not serve.
    """

    host: str
    open: Callable[[], socket.socket]
