"""What the keepers of CPUs and of memory have in common: how much of it the VMI wants, and one trouble at most.

Base of `cpu_keeper` and `memory_keeper`. What there is is read from libvirt each time, so that a launcher that was
started again goes on where the one before was killed.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvedge.launcher.hotplug.device_keeper import LOOK_AGAIN_SECONDS, DeviceKeeper, Step

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class AmountKeeper(DeviceKeeper[Step]):
    """An amount of one thing that a domain has; every public method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_change()` is called after a change, and for what there is to tell; nothing is changed while
        `is_leaving()`.
        """
        super().__init__(session, on_change, clock)
        self._is_leaving = is_leaving
        self._wants = 0

    @abstractmethod
    def _plan(self, facts: DomainFacts) -> Sequence[Step]:
        """The steps that bring the domain to what is wanted."""

    @abstractmethod
    def _take(self, step: Step) -> None:
        """Try one of them."""

    def trouble(self) -> str:
        """What is in the way, for those who watch; empty when nothing is."""
        return next((facts["message"] for _, facts in self._describe_troubles()), "")

    def look(self) -> float:
        """Do what can be done now; after how many seconds to look again."""
        facts = None if self._is_leaving() else self._read_domain()
        if facts is None:
            return LOOK_AGAIN_SECONDS
        with self._acting:
            steps = self._plan(facts)
            for step in self._choose_due(steps):
                self._take(step)
                self._on_change()
        return self._pause_before(steps)

    def _want(self, amount: int, present: DomainFacts | None) -> None:
        """Want so much. Raises Unanswered when a change is under way that does not end."""
        with self._handing_over():
            self._wants = amount
            if present is not None and self._plan(present):
                self.start()
        self.look_soon()
