"""What the guests of this node have used over the last hour, day and month, for graphs without Prometheus.

Started by handler_service.py. One thread asks all launchers every ten seconds, at the same time, and writes all rings
every five minutes and at its end; the door to launchers reads them for users. A guest without figures has a gap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.launchers.node_stats import Look
from kvedge.handler.usage.usage_files import UsageFiles, ring_name
from kvedge.handler.usage.usage_point import usage_point
from kvedge.handler.usage.usage_ring import UsageRing
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.guest_history import SPANS, GuestHistory
from kvedge.resources.usage.guest_stats import GuestStats
from kvedge.runtime.clock import Clock
from kvedge.runtime.rounds import Rounds

# The finest span has a point for each look.
LOOK_SECONDS: Final = float(SPANS["hour"].step)
WRITE_SECONDS: Final = 300.0
# 2026, in seconds since 1970: no clock that is right says less.
_EARLIEST: Final = 1_767_225_600.0


class _Kept(Struct):
    ring: UsageRing
    # At the latest look, and when that was, on a clock that never goes back.
    stats: GuestStats | None = None
    looked: float = 0.0
    # Since the rings were written last.
    is_news: bool = False


class UsageKeeper:
    """The rings of the guests that run here."""

    def __init__(
        self,
        look: Callable[[], Look],
        find: Callable[[Key], VirtualMachineInstance | None],
        files: UsageFiles,
        clock: Clock,
    ) -> None:
        """`look` asks all launchers; `find` knows the VMIs of this node."""
        self._look = look
        self._find = find
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._written = clock.monotonic()
        self._rounds = Rounds("handler-usage", "keeps what guests use", LOOK_SECONDS, self.look)

    def start(self) -> None:
        """Begin."""
        self._rounds.start()

    def stop(self) -> None:
        """End, and write the rings."""
        self._rounds.stop()
        self.write()

    def failure(self) -> str | None:
        """Why nothing is kept any more."""
        return self._rounds.failure()

    def look(self) -> None:
        """One round; the service's thread does it every ten seconds."""
        looked, guests = self._look()
        for stats in guests:
            vmi = self._find((stats.namespace, stats.name))
            if vmi is not None and stats.answered:
                self._take(ring_name(vmi), stats, looked)
        if self._clock.monotonic() - self._written >= WRITE_SECONDS:
            self.write()

    def _take(self, name: str, stats: GuestStats, looked: float) -> None:
        moment = self._clock.now().timestamp()
        if moment < _EARLIEST:
            # A board without a clock, before it has asked a server: its past would be taken for void.
            return
        kept = self._kept.get(name)
        if kept is None:
            kept = _Kept(self._files.read(name) or UsageRing())
        point = usage_point(kept.stats, stats, looked - kept.looked)
        with self._lock:
            self._kept[name] = kept
            kept.ring.add(moment, point)
        kept.stats, kept.looked, kept.is_news = stats, looked, True

    def write(self) -> None:
        """Write all rings, and let go of those whose guests have ended."""
        for name, kept in list(self._kept.items()):
            if kept.is_news:
                self._rounds.beat()
                self._files.write(name, kept.ring)
                kept.is_news = False
            else:
                with self._lock:
                    del self._kept[name]
        self._files.forget_old(self._clock.now().timestamp())
        self._written = self._clock.monotonic()

    def tell(self, vmi: VirtualMachineInstance, span: str) -> GuestHistory:
        """One of `SPANS` of a guest; all gaps where nothing is known. Called by any thread; may read a file."""
        name, now = ring_name(vmi), self._clock.now().timestamp()
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                return kept.ring.tell(span, now)
        return (self._files.read(name) or UsageRing()).tell(span, now)
