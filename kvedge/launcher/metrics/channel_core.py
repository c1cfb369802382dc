"""What a guest asks on the serial port of its metrics, without I/O: lines like those of HTTP, one request at a time.

Used by `metrics_channel`. The guest may send anything: what is kept of it is bounded, each byte is looked at twice at
most, and one request a second is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Of a request that has not ended; vm-dump-metrics sends 18 bytes.
LONGEST_REQUEST: Final = 1024
PAUSE_SECONDS: Final = 1.0
# As KubeVirt answers.
INVALID: Final = b"INVALID REQUEST\n\n"
_PATH: Final = b"/metrics/XML"


class MetricsChannel:
    """One connection of a guest's port."""

    def __init__(self, report: Callable[[], bytes]) -> None:
        """`report()` is the answer to a request for metrics; it is called from :meth:`advance`."""
        self._report = report
        self._heard = b""
        self._unsent = b""
        self._next = 0.0

    @property
    def unsent(self) -> bytes:
        """What the guest is still to get."""
        return self._unsent

    def is_listening(self, now: float) -> bool:
        """Whether the guest is to be heard: not before it has its answer, and a second has passed."""
        return not self._unsent and now >= self._next

    @property
    def next_seconds(self) -> float:
        """From when on it is heard."""
        return self._next

    def receive(self, data: bytes, now: float) -> None:
        """The guest has sent this."""
        self._heard += data
        self.advance(now)

    def advance(self, now: float) -> None:
        """Answer the next request, if there is one and it is time."""
        if not self.is_listening(now):
            return
        answer = self._answer()
        if answer:
            self._unsent, self._next = answer, now + PAUSE_SECONDS

    def note_sent(self, count: int) -> None:
        """The guest's port has taken so many bytes."""
        self._unsent = self._unsent[count:]

    def _answer(self) -> bytes:
        line, ended, rest = self._heard.partition(b"\n")
        blank, complete, left = rest.partition(b"\n")
        if not (ended and complete):
            if len(self._heard) <= LONGEST_REQUEST:
                return b""
            self._heard = b""
            return INVALID
        if len(line) + len(blank) > LONGEST_REQUEST or blank.removesuffix(b"\r"):
            # What follows belongs to it, as far as anybody can tell.
            self._heard = b""
            return INVALID
        self._heard = left
        return self._report() if _asks_for_metrics(line.removesuffix(b"\r")) else INVALID


def _asks_for_metrics(line: bytes) -> bool:
    method, _, target = line.partition(b" ")
    return method == b"GET" and target.partition(b"?")[0] == _PATH
