"""A TCP connection that is used without end: each message is echoed by the other side before the next one is sent.

Used by tests that restart what stands between the two. A message that is not echoed within its time, or comes back
wrong, ends the stream for good.
"""

from __future__ import annotations

import socket
import threading
from typing import Self

from tests.support.waiting import wait_until

# A lost segment is sent again after 0.2 s, then twice as long each time.
_SECONDS = 30.0


class HeldStream:
    """Owns the socket from `__enter__` to `__exit__`."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="held-stream")
        self._echoed = 0
        self._failure = ""

    def __enter__(self) -> Self:
        self._socket.settimeout(_SECONDS)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def goes_on(self, what: str, messages: int = 20) -> None:
        """Waits until so many more messages have been echoed."""
        wanted = self._echoed + messages
        wait_until(lambda: self._failure or self._echoed >= wanted, f"the connection goes on: {what}", 60)
        assert not self._failure, f"{what}: {self._failure}"

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._exchange()
        except OSError as error:
            self._failure = f"after {self._echoed} messages: {error!r}"

    def _exchange(self) -> None:
        message = b"%063d\n" % self._echoed
        self._socket.sendall(message)
        answer = b""
        while len(answer) < len(message):
            part = self._socket.recv(len(message) - len(answer))
            if not part:
                raise OSError("the other side has ended it")
            answer += part
        if answer != message:
            raise OSError(f"{answer!r} came back")
        self._echoed += 1
        # A few a second are enough to meet whatever happens in between, and cost nothing.
        self._stop.wait(0.02)
