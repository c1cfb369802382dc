"""What this launcher remembers of the run, whether it is over, and how it ended.

Kept by `domain_run`, shared by its parts. Touches nothing; `domain_plan` judges.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kvedge.launcher.libvirt.domain_facts import DomainFacts
from kvedge.launcher.run.domain_plan import RunMemory, Verdict, judge


class RunState:
    """One run; every method may be called from any thread."""

    def __init__(self, on_end: Callable[[], None], *, begun: bool) -> None:
        """`on_end()` is called in any thread when the run is over; `begun` says that the guest was started before."""
        self._on_end = on_end
        self._remembering = threading.Lock()
        self._memory = RunMemory(begun=begun)
        # How the run ended, once it has: later requests do not change it.
        self.outcome: Verdict | None = None
        # The warnings for the user on the disks that were made.
        self.disk_notes: tuple[str, ...] = ()
        # What the last Sync found of disks that do not grow with their claims.
        self.growth_notes: tuple[str, ...] = ()
        # The VMI's interface whose passt has ended.
        self.unserved_nic = ""
        # Set once the run is over, and once somebody has recorded that.
        self.ended = threading.Event()
        self.acknowledged = threading.Event()

    @property
    def memory(self) -> RunMemory:
        """What libvirt does not know."""
        return self._memory

    def remember(self, **changes: bool | str) -> None:
        """Change fields of the memory."""
        with self._remembering:
            self._memory = self._memory._replace(**changes)  # type: ignore[arg-type]

    def judge(self, facts: DomainFacts | None) -> Verdict:
        """What the domain's state means; the outcome once the run has one."""
        return self.outcome or judge(facts, self._memory)

    def end(self) -> None:
        """The run is over."""
        self.ended.set()
        self._on_end()
