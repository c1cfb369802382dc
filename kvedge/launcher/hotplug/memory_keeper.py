"""Gives the running domain the memory that the VMI wants, and takes it back, in a thread of its own.

Kept by `domain_run`, as `cpu_keeper` is. Reads `/proc/meminfo`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kvedge.launcher.hotplug.amount_keeper import AmountKeeper
from kvedge.launcher.hotplug.memory_plan import MemoryStep, plan_memory, refuse_growth
from kvedge.rpc.launcher_pb2 import SyncRequest
from kvedge.runtime.linux.meminfo import read_meminfo

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


def read_free_memory() -> int | None:
    """The bytes that the kernel says can still be had on the node; None when it does not say."""
    try:
        return read_meminfo()["MemAvailable"] * 1024
    except (OSError, KeyError, ValueError):
        return None


class MemoryKeeper(AmountKeeper[MemoryStep]):
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
        """`free_memory()` is how many bytes the node could still give; None when nobody knows."""
        super().__init__(session, on_change, clock, is_leaving)
        self._free_memory = free_memory

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want the memory of this VMI.

        Raises:
            Unanswered: when a change is under way that does not end.
        """
        self._want(request.memory_bytes, present)

    def _plan(self, facts: DomainFacts) -> Sequence[MemoryStep]:
        return plan_memory(self._wants, facts.memory)

    def _take(self, step: MemoryStep) -> None:
        error = step.refusal or refuse_growth(step, self._free_memory())
        if self._try_step(step, partial(self._session.request_memory, step.requested), error, asks=False):
            log.info("memory asked of the guest", extra={"facts": {"beside": step.requested}})
