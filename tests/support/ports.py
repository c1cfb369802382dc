"""Ports for servers of tests that must be told theirs before they listen."""

from __future__ import annotations

import os
import socket
from itertools import count
from typing import Final

# Beneath those that the kernel gives to whoever connects or binds to 0, which would take one before its server does.
_FIRST: Final = 20000
_OF_ONE: Final = 1000
_PROCESSES: Final = 10
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
# Two runs on one machine begin at different places.
_serial = count(os.getpid())


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that nobody listens on now, and that no other process of this run is given.

    Raises:
        OSError: when all of them are taken.
    """
    for _ in range(_OF_ONE):
        port = _FIRST + _worker * _OF_ONE + next(_serial) % _OF_ONE
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"none of the {_OF_ONE} ports from {_FIRST + _worker * _OF_ONE} on is free")
