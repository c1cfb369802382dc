"""Gives the running domain the CPUs that the VMI wants, in a thread of its own.

Kept by `domain_run`, as `nic_keeper` is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kvedge.launcher.hotplug.amount_keeper import AmountKeeper
from kvedge.launcher.hotplug.cpu_plan import CpuStep, plan_cpus, read_wanted_vcpus
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts

log = logging.getLogger(__name__)


class CpuKeeper(AmountKeeper[CpuStep]):
    """The vCPUs of one domain, which only grow; every method may be called from any thread."""

    device = "CPU"

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want the vCPUs of this VMI.

        Raises:
            BadRequest: when it is no VMI.
            Unanswered: when a change is under way that does not end.
        """
        self._want(read_wanted_vcpus(request.vmi_json), present)

    def _plan(self, facts: DomainFacts) -> Sequence[CpuStep]:
        return plan_cpus(self._wants, facts)

    def _take(self, step: CpuStep) -> None:
        if self._try_step(step, partial(self._session.set_vcpus, step.vcpus), step.refusal, asks=False):
            log.info("CPUs plugged in", extra={"facts": {"vcpus": step.vcpus}})
