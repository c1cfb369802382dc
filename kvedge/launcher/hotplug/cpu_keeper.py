"""Gives the running domain the CPUs that the VMI wants, in a thread of its own.

Kept by `domain_run`, as `nic_keeper` is. How many there are is read from libvirt each time, so that a launcher that was
started again goes on where the one before was killed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kvedge.launcher.hotplug.cpu_plan import CpuStep, plan_cpus, read_wanted_vcpus
from kvedge.launcher.hotplug.device_keeper import LOOK_AGAIN_SECONDS, DeviceKeeper
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


class CpuKeeper(DeviceKeeper[CpuStep]):
    """The vCPUs of one domain, which only grow; every method may be called from any thread."""

    device = "CPU"

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

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want the vCPUs of this VMI.

        Raises:
            BadRequest: when it is no VMI.
            Unanswered: when a change is under way that does not end.
        """
        wanted = read_wanted_vcpus(request.vmi_json)
        with self._handing_over():
            self._wants = wanted
            if present is not None and plan_cpus(wanted, present):
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
            steps = plan_cpus(self._wants, facts)
            for step in self._choose_due(steps):
                if self._try_step(step, partial(self._session.set_vcpus, step.vcpus), step.refusal, asks=False):
                    log.info("CPUs plugged in", extra={"facts": {"vcpus": step.vcpus}})
                self._on_change()
        return self._pause_before(steps)
