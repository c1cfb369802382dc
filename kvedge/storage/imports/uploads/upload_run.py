"""One claim's upload, from the first attempt to the complete one: which attempt may bring data, and its outcome.

Made by the worker of an upload, called by upload_server.py from a thread for each connection. One upload at a time. A
broken upload is kept for its client for some minutes, when that client can go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kvedge.storage.imports.uploads.upload_attempt import Attempt, Sink

# How long a client may take to come back: as long as a token lives.
RESUME_SECONDS: Final = 300.0
# How often it is looked whether a client has not come back in this time.
_LOOK_SECONDS: Final = 5.0


class NotNow(Exception):
    """The upload cannot begin: the HTTP status, and a line for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Kept(Struct, frozen=True):
    """How much of which upload is there, to go on with."""

    identity: str = ""
    received: int = 0


class UploadRun:
    """Safe for any number of threads."""

    def __init__(self, make_sink: Callable[[], Sink], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._make_sink = make_sink
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        # Whether a connection brings data for it now; since when none does.
        self._is_fed = False
        self._since = 0.0
        self._whole = threading.Event()
        self._outcome: Attempt | None = None

    def begin(self, identity: str, offset: int) -> Attempt:
        """Bring an upload from its beginning, or one with an identity from where it was broken off.

        Raises:
            NotNow: 503 while another connection brings one, 409 after one was taken, 416 for another offset.
        """
        with self._lock:
            self._check_free()
            kept = self._attempt
            if offset:
                if kept is None or not identity or kept.identity != identity or kept.received != offset:
                    raise NotNow(416, "there is no upload that goes on at this byte: begin again")
                self._is_fed = True
                return kept
            self._drop()
            # Not before the one before has left nothing behind: both are for one claim.
            self._attempt = attempt = Attempt(self._make_sink(), identity, self._note_end)
            self._is_fed = True
            attempt.start()
            return attempt

    def leave(self, attempt: Attempt) -> None:
        """The connection broke, and brings no more."""
        with self._lock:
            if self._attempt is attempt:
                self._is_fed, self._since = False, self._monotonic()
                if not attempt.identity:
                    self._drop()

    def find_kept(self) -> Kept:
        """What there is to go on with."""
        with self._lock:
            self._expire()
            if self._attempt is None or self._is_fed or self._attempt.taken.is_set():
                return Kept()
            return Kept(self._attempt.identity, self._attempt.received)

    def wait(self, seconds: float | None = None) -> Attempt | None:
        """The attempt that was whole, once it is finished or its conversion failed; None when that takes longer."""
        if seconds is None:
            while not self._whole.wait(_LOOK_SECONDS):
                with self._lock:
                    self._expire()
        else:
            self._whole.wait(seconds)
        return self._outcome

    def close(self) -> None:
        """Take no more, and remove an upload that is not whole."""
        with self._lock:
            self._drop()

    def _check_free(self) -> None:
        if self._outcome is not None or (self._attempt is not None and self._attempt.was_taken):
            raise NotNow(409, "an upload has been taken already")
        if self._is_fed:
            raise NotNow(503, "another upload is under way; try again later")
        self._expire()

    def _expire(self) -> None:
        if self._attempt is not None and not self._is_fed and self._monotonic() - self._since >= RESUME_SECONDS:
            self._drop()

    def _drop(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None and not attempt.taken.is_set():
            attempt.give_up()

    def _note_end(self, attempt: Attempt) -> None:
        # In the taking thread; without the lock, whose owner may wait for that thread to end.
        if attempt.was_taken:
            self._outcome = attempt
            self._whole.set()
        elif self._attempt is attempt:
            self._attempt, self._is_fed = None, False
