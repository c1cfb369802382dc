"""One attempt to fill a claim with what is pushed: a thread that takes, and the connections that bring.

Made by upload_run.py. The taking thread reads a stream as it would read a file; behind it are one or, after a broken
connection, several connections one after the other. A megabyte is held between them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol, cast

# Pieces between the connection and the disk: TLS gives 16 KiB at a time.
_PIECES: Final = 64
# How often a side looks whether the other one has given up.
_LOOK_SECONDS: Final = 0.2
_END: Final = b""


class Sink(Protocol):
    """The place that an image goes into."""

    def take(self, stream: BinaryIO) -> None:
        """Read the stream to its end; afterwards everything is in the claim, and looks valid."""

    def finish(self) -> int:
        """Convert what has to be, and have all on disk; the size of the guest's disk."""

    def discard(self) -> None:
        """Leave nothing behind; allowed at any time."""


class GivenUp(Exception):
    """The client will not bring the rest of this upload."""


class Attempt:
    """Takes one upload; `received` counts the bytes that were brought."""

    def __init__(self, sink: Sink, identity: str, on_end: Callable[[Attempt], None]) -> None:
        """`on_end` is called in the taking thread once it is finished, or has failed and left nothing behind."""
        self.identity = identity
        self.received = 0
        self.size = 0
        self.error: Exception | None = None
        # Whether all was in the claim: a later failure does not concern the client.
        self.was_taken = False
        # Everything is in the claim; and: it is converted, too. Both also when it failed.
        self.taken = threading.Event()
        self.ended = threading.Event()
        self._sink = sink
        self._on_end = on_end
        self._pieces: queue.Queue[bytes] = queue.Queue(_PIECES)
        self._given_up = threading.Event()
        self._rest = b""
        self._at_end = False
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    def start(self) -> None:
        """Begin to take."""
        self._thread.start()

    def bring(self, piece: bytes) -> bool:
        """Hand the next piece over, waiting while the disk is slow; false when nobody takes it any more."""
        if self._hand_over(piece):
            self.received += len(piece)
            return True
        return False

    def finish(self) -> None:
        """That was all."""
        self._hand_over(_END)

    def give_up(self) -> None:
        """The rest does not come; returns when nothing is left behind."""
        self._given_up.set()
        self._thread.join()

    def read(self, size: int = -1) -> bytes:
        """For the taking thread: up to `size` bytes, empty at the end."""
        if not self._rest and not self._at_end:
            self._rest = self._next_piece()
            self._at_end = not self._rest
        if size < 0:
            size = len(self._rest)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _hand_over(self, piece: bytes) -> bool:
        while not self.taken.is_set():
            try:
                self._pieces.put(piece, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def _next_piece(self) -> bytes:
        while True:
            if self._given_up.is_set():
                raise GivenUp("the upload was broken off")
            try:
                return self._pieces.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue

    def _run(self) -> None:
        try:
            # `read` is all that a sink asks of a stream.
            self._sink.take(cast("BinaryIO", self))
            if not self._at_end and self.read(1):
                raise ValueError("the sink did not take all of the upload")
            self.was_taken = True
            self.taken.set()
            self.size = self._sink.finish()
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for the outcome
            self.error = error
            self._sink.discard()
        finally:
            self._on_end(self)
            self.taken.set()
            self.ended.set()
