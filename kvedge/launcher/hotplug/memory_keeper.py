"""Gives the running domain the memory that the VMI wants, and takes it back, in a thread of its own.

Kept by `domain_run`, as `cpu_keeper` is. What the guest is asked for and has is read from libvirt each time, so that a
launcher that was started again goes on where the one before was killed. Reads `/proc/meminfo`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvedge.launcher.hotplug.device_keeper import LOOK_AGAIN_SECONDS, DeviceKeeper
from kvedge.launcher.hotplug.memory_plan import MemoryStep, plan_memory, refuse_growth
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


def read_free_memory() -> int | None:
    """The bytes that the kernel says can still be had on the node; None when it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(free.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None


class MemoryKeeper(DeviceKeeper[MemoryStep]):
    """The memory of one domain; every method may be called from any thread."""

    device = "memory"

    def __init__(
        self,
        session: LibvirtSession,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        is_leaving: Callable[[], bool] = lambda: False,
        free_memory: Callable[[], int | None] = read_free_memory,
    ) -> None:
        """`on_change()` is called after a change, and for what there is to tell; nothing is changed while
        `is_leaving()`.
        """
        super().__init__(session, on_change, clock)
        self._is_leaving = is_leaving
        self._free_memory = free_memory
        self._wants = 0

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want the memory of this VMI.

        Raises:
            Unanswered: when a change is under way that does not end.
        """
        with self._handing_over():
            self._wants = request.memory_bytes
            if present is not None and plan_memory(self._wants, present.memory):
                self.start()
        self.look_soon()

    def trouble(self) -> str:
        """What is in the way, for those who watch; empty when nothing is."""
        return next((facts["message"] for _, facts in self._describe_troubles()), "")

    def look(self) -> float:
        """Do what can be done now; after how many seconds to look again."""
        facts = None if self._is_leaving() else self._read_domain()
        if facts is None:
            return LOOK_AGAIN_SECONDS
        with self._acting:
            steps = plan_memory(self._wants, facts.memory)
            for step in self._choose_due(steps):
                error = step.refusal or refuse_growth(step, self._free_memory())
                change = partial(self._session.request_memory, step.requested)
                if self._try_step(step, change, error, asks=False):
                    log.info("memory asked of the guest", extra={"facts": {"beside": step.requested}})
                self._on_change()
        return self._pause_before(steps)
