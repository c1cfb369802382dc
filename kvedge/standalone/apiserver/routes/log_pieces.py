"""A log as the event loop reads it: a thread of its own goes through the source's blocking iterator.

Used by `pod_routes` and `exec_routes`. Few pieces wait for a slow client, and the thread ends with its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from typing import Final

from kvedge.runtime.background import passing_thread
from kvedge.standalone.apiserver.routes.log_source import LogRequest, LogSource, NoLog

# So many pieces of a log may wait for a slow client.
_PIECES: Final = 64


class LogPieces:
    """Carries a log from the source's blocking iterator into the event loop."""

    def __init__(self, source: LogSource, wanted: LogRequest) -> None:
        self._source = source
        self._wanted = wanted
        self._stopped = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_PIECES)
        # Why there is no log, once the first piece was None.
        self.failure: NoLog | None = None

    def start(self) -> None:
        """Begin to read."""
        passing_thread(f"kvedge-log-{self._wanted.pod}", self._read)

    def stop(self) -> None:
        """Nobody reads any more."""
        self._stopped.set()

    async def read(self) -> bytes | None:
        """The next piece; None at the end."""
        while True:
            try:
                return self._pieces.get_nowait()
            except queue.Empty:
                await self._filled.wait()
                self._filled.clear()

    def _read(self) -> None:
        left = self._wanted.limit_bytes
        try:
            with contextlib.suppress(_Gone):
                for piece in self._source.read_log(self._wanted, self._stopped):
                    kept = piece if left is None else piece[:left]
                    self._put(kept)
                    left = None if left is None else left - len(kept)
                    if left == 0 or self._stopped.is_set():
                        break
        except NoLog as error:
            self.failure = error
        finally:
            with contextlib.suppress(_Gone):
                self._put(None)

    def _put(self, piece: bytes | None) -> None:
        while True:
            if self._stopped.is_set():
                raise _Gone
            try:
                self._pieces.put(piece, timeout=0.5)
            except queue.Full:
                # The client reads slowly, or has gone without a word yet.
                continue
            break
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._filled.set)


class _Gone(Exception):
    """Nobody reads any more."""
