"""Answers of a registry whose every piece, the header's too, has to come at the pace.

Used by the registry door's connections. Reads the socket that it is handed.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from typing import Any

from kvedge.storage.images.registry_pace import Pace


class PacedStream(io.RawIOBase):
    """A socket's bytes; each read waits no longer than the pace allows."""

    def __init__(self, source: socket.socket, file: Any, pace: Pace) -> None:
        super().__init__()
        self._socket = source
        # Closes the socket once the connection has let go of it, as http.client expects it.
        self._file = file
        self._pace = pace

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As the socket; a silent one is asked again until the pace's patience ends."""
        while True:
            self._socket.settimeout(self._pace.patience())
            begun = time.monotonic()
            try:
                count = self._socket.recv_into(buffer)
            except TimeoutError:
                self._pace.note_bytes(0, time.monotonic() - begun)
                continue
            self._pace.note_bytes(count, time.monotonic() - begun)
            return count

    def close(self) -> None:
        """And let go of the socket."""
        if not self.closed:
            self._file.close()
        super().close()


class PacedAnswer(http.client.HTTPResponse):
    """http.client's answer, read at a pace."""

    @classmethod
    def at(cls, pace: Pace) -> Callable[..., PacedAnswer]:
        """What makes answers at this pace, for a connection's `response_class`."""

        def make(sock: socket.socket, *arguments: Any, **options: Any) -> PacedAnswer:
            answer = cls(sock, *arguments, **options)
            answer.fp = io.BufferedReader(PacedStream(sock, answer.fp, pace))
            return answer

        return make
