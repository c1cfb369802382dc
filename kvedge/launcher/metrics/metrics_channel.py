"""The socket behind the serial port by which a guest asks for metrics: QEMU listens, and this side connects.

Used by `metrics_keeper`'s thread. Touches the one socket. A guest that does not read its answer keeps nobody waiting:
the socket does not block, and no more is read meanwhile.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable
from typing import Final

from kvedge.launcher.metrics.channel_core import LONGEST_REQUEST, MetricsChannel


class MetricsSocket:
    """The connection to one guest's port; made again when QEMU has closed it. Used by one thread."""

    def __init__(self, path: str, report: Callable[[], bytes]) -> None:
        """`report()` is the answer to a request."""
        self._path = path
        self._report = report
        self._socket: socket.socket | None = None
        self._channel = MetricsChannel(report)

    def serve(self, until: float) -> None:
        """Answer what is asked, until this time of the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            if self._socket is None and not self._connect():
                # It comes with QEMU, and has one place, which another launcher may just be leaving.
                time.sleep(left)
                return
            try:
                self._take_turn(left)
            except OSError:
                self.close()

    def close(self) -> None:
        """Give the connection up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> bool:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        made.setblocking(False)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            return False
        self._socket, self._channel = made, MetricsChannel(self._report)
        return True

    def _take_turn(self, seconds: float) -> None:
        assert self._socket is not None
        now, channel = time.monotonic(), self._channel
        channel.advance(now)
        listening = channel.is_listening(now)
        events = (select.POLLOUT if channel.unsent else 0) | (select.POLLIN if listening else 0)
        if not channel.unsent and not listening:
            seconds = min(seconds, channel.next_seconds - now)
        poll = select.poll()
        poll.register(self._socket, events)
        for _, happened in poll.poll(max(0.0, seconds) * 1000):
            if happened & select.POLLOUT and channel.unsent:
                with contextlib.suppress(BlockingIOError):
                    channel.note_sent(self._socket.send(channel.unsent))
            elif happened & select.POLLIN:
                self._hear()
            elif happened & (select.POLLHUP | select.POLLERR):
                raise ConnectionError("QEMU has closed the port")

    def _hear(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_PIECE)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("QEMU has closed the port")
        self._channel.receive(data, time.monotonic())


_PIECE: Final = LONGEST_REQUEST
