"""What the launcher's main thread waits for: a signal that asks for the end, or the end itself."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterable


class StopBell:
    """Made and waited for by the main thread.

    Python runs what was set for a signal in the main thread alone, and an Event's wait does not end for it when the
    kernel has given the signal to another thread, or gave it just before the wait began. A byte in a socket stays
    there, whichever thread wrote it, and whenever it did.
    """

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        # A full one has rung already, and a signal's handler must not wait.
        self._rung.setblocking(False)
        # Whether a signal asked for the end.
        self.is_asked = False

    def listen(self, numbers: Iterable[signal.Signals]) -> None:
        """Take these signals for a wish that the launcher stops."""
        for number in numbers:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._rung.fileno(), warn_on_full_buffer=False)

    def ring(self) -> None:
        """End the wait; from any thread, any number of times."""
        with contextlib.suppress(BlockingIOError):
            self._rung.send(b"\0")

    def wait(self) -> None:
        """Until it has rung, or a signal was heard."""
        self._heard.recv(1)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.is_asked = True
