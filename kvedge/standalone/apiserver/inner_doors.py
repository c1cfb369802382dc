"""Connections from inside this process: pairs of sockets, one end served, the other handed to a part of kvedge.

Owned by `EmbeddedApi`, which gives each part a door for its identity. Nothing listens: a socket exists only because
:meth:`InnerDoors.open` was called here, with an identity that the caller of a request cannot choose. The sockets are
closed in every program that this process starts, as Python's are.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from functools import partial
from typing import Final

from kvedge.runtime.background_tasks import passing_task
from kvedge.standalone.apiserver.connection_gate import ConnectionGate
from kvedge.standalone.apiserver.requests.request_context import Caller

_GONE: Final = errno.ECONNREFUSED


class InnerDoors:
    """Opens connections from any thread while the server serves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate: ConnectionGate | None = None
        # The served ends that the event loop has not taken yet, so that each is closed if it ends before.
        self._coming: dict[socket.socket, Caller] = {}

    def start(self, gate: ConnectionGate) -> None:
        """Let connections in, which the running event loop serves."""
        with self._lock:
            self._loop, self._gate = asyncio.get_running_loop(), gate

    def stop(self) -> None:
        """Let no more in. Those that are open are the gate's; those that are about to be are in the next turns of the
        loop, for which the acceptor waits at its own end.
        """
        with self._lock:
            self._loop = self._gate = None
            for served in self._coming:
                served.close()
            self._coming.clear()

    def open(self, caller: Caller) -> socket.socket:
        """The client's end of a new connection of `caller`.

        Raises:
            OSError: the server does not serve, or there is no descriptor left.
        """
        with self._lock:
            if self._loop is None:
                raise OSError(_GONE, os.strerror(_GONE))
            served, ours = socket.socketpair()
            served.setblocking(False)
            self._coming[served] = caller
            try:
                self._loop.call_soon_threadsafe(self._begin)
            except RuntimeError as error:
                # A loop that ended without our stop.
                del self._coming[served]
                served.close()
                ours.close()
                raise OSError(_GONE, os.strerror(_GONE)) from error
            return ours

    def _begin(self) -> None:
        """Serve what has come, in the event loop."""
        with self._lock:
            gate, coming = self._gate, self._coming
            self._coming = {}
        for served, caller in coming.items():
            assert gate is not None
            passing_task("connection from inside", partial(_serve, gate, served, caller))


async def _serve(gate: ConnectionGate, served: socket.socket, caller: Caller) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(partial(gate.serve_own, caller), served)
    except Exception:
        served.close()
        raise
