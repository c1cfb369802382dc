"""Pooled connections whose sockets come through an inner door; everything above them is as with any other server.

Used by :mod:`kvedge.kube.live_connection` alone. Only the way in which `urllib3` gets a socket is another one.
"""

from __future__ import annotations

import socket
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError

from kvedge.kube.inner_door import InnerDoor


class _InnerConnection(HTTPConnection):
    def __init__(self, *arguments: Any, door: InnerDoor, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._door = door

    def _new_conn(self) -> socket.socket:
        try:
            opened = self._door.open()
        except OSError as error:
            # Nothing was sent, so that any call may be repeated.
            raise NewConnectionError(self, str(error)) from error
        opened.settimeout(self.timeout)
        return opened


class _InnerPool(HTTPConnectionPool):
    ConnectionCls = _InnerConnection


class InnerSockets(urllib3.PoolManager):
    """The connections through one door, whatever address a call names."""

    def __init__(self, door: InnerDoor, maxsize: int) -> None:
        super().__init__(maxsize=maxsize)
        self._door = door
        self._maxsize = maxsize

    def _new_pool(
        self, scheme: str, host: str, port: int, request_context: dict[str, Any] | None = None
    ) -> HTTPConnectionPool:
        """What the library lets a subclass say: how connections to a server are made."""
        return _InnerPool(host, port, maxsize=self._maxsize, door=self._door)
