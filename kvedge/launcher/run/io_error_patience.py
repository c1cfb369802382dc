"""When a guest that QEMU paused for an I/O error goes on: it is tried again and again, as a full disk may have room.

Kept by `domain_run`, asked after each look at the domain. Pure: facts and the time go in. QEMU repeats the request that
failed when the guest goes on; if it fails again, the guest is paused again and nothing is lost.
"""

from __future__ import annotations

from typing import Final

from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why

# KubeVirt's: the first try, and the longest pause between tries; each is twice as long as the one before.
FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 180.0
# A guest that has run for so long is over it.
RECOVERED_SECONDS: Final = 30.0


class IoErrorPatience:
    """What is remembered of one guest's I/O errors; asked by one thread."""

    def __init__(self) -> None:
        self._pause = FIRST_SECONDS
        self._next: float | None = None
        self._running_since: float | None = None

    def goes_on(self, facts: DomainFacts | None, now: float) -> bool:
        """Whether the guest is to go on now; `now` is on the monotonic clock."""
        if facts is None or facts.life is not Life.PAUSED or facts.why is not Why.IO_ERROR:
            self._note_running(facts, now)
            return False
        self._running_since = None
        if self._next is None:
            self._next = now + self._pause
        if now < self._next:
            return False
        self._next = None
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        return True

    def _note_running(self, facts: DomainFacts | None, now: float) -> None:
        self._next = None
        if facts is None or facts.life is not Life.RUNNING:
            self._running_since = None
            return
        if self._running_since is None:
            self._running_since = now
        if now - self._running_since >= RECOVERED_SECONDS:
            self._pause = FIRST_SECONDS
