"""Rules for CPUs that a guest has for itself, and for NUMA and real time on them, worded as KubeVirt words them.

Called by spec_verdict.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from kvedge.api.admission.rules.causes import Cause, required_cause, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus, is_realtime, mirrors_numa, realtime_vcpus
from kvedge.resources.types.domain import Cpu
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity
from kvedge.resources.vmi_facts import vcpu_count
from kvedge.runtime.linux.cpu_lists import CpuListError

_MOST_THREADS: Final = 2


def dedicated_cpus_are_whole(subject: Subject) -> Iterator[Cause]:
    """They are counted by topology, or by one whole number."""
    domain = subject.spec.domain
    if not has_dedicated_cpus(domain):
        return
    cpu, at = domain.cpu or Cpu(), subject.domain_at.at("resources")
    low, high = at.at("requests", "cpu"), at.at("limits", "cpu")
    request, limit = (_amount(each.get("cpu")) for each in (domain.resources.requests, domain.resources.limits))
    for here, amount, name in ((high, limit, "limits"), (low, request, "requests")):
        if amount is not None and amount.denominator != 1:
            # KubeVirt's spelling.
            yield Cause(here, f"provided resources CPU {name} must be an interger")
    if not request and not limit and not (cpu.cores or cpu.sockets or cpu.threads):
        yield required_cause(low, f"either {low} or {high} must be provided when DedicatedCPUPlacement is true ")
    if request and limit and request != limit:
        yield Cause(low, f"{low} or {high} must be equal when DedicatedCPUPlacement is true ")
    if cpu.threads > _MOST_THREADS:
        here = subject.domain_at.at("cpu", "threads")
        yield Cause(here, f"Not more than two threads must be provided at {here} when DedicatedCPUPlacement is true")


def dedicated_memory_is_whole(subject: Subject) -> Iterator[Cause]:
    """Its Pod is Guaranteed, which a smaller request of memory would prevent."""
    domain, at = subject.spec.domain, subject.domain_at.at("resources")
    if not has_dedicated_cpus(domain):
        return
    request, limit = (_amount(each.get("memory")) for each in (domain.resources.requests, domain.resources.limits))
    low, high = at.at("requests", "memory"), at.at("limits", "memory")
    if request is not None and limit is not None and request != limit:
        yield Cause(low, f"{low} or {high} must be equal when DedicatedCPUPlacement is true ")
    if domain.resources.overcommit_guest_overhead:
        here = at.at("overcommitGuestOverhead")
        yield Cause(here, f"{here} must be false when DedicatedCPUPlacement is true ")


def isolated_emulator_has_dedicated_cpus(subject: Subject) -> Iterator[Cause]:
    """Where all share, nobody is alone."""
    cpu = subject.spec.domain.cpu
    if cpu is not None and cpu.isolate_emulator_thread and not cpu.dedicated_cpu_placement:
        here = subject.domain_at.at("cpu", "isolateEmulatorThread")
        yield Cause(here, "IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement")


def numa_has_dedicated_cpus_and_huge_pages(subject: Subject) -> Iterator[Cause]:
    """A cell is made of CPUs that stay, and of memory that stays."""
    domain, at = subject.spec.domain, subject.domain_at
    if not mirrors_numa(domain):
        return
    here = at.at("cpu", "numa", "guestMappingPassthrough")
    if not has_dedicated_cpus(domain):
        needed = at.at("cpu", "dedicatedCpuPlacement")
        yield required_cause(needed, f"{needed} must be set to true when NUMA topology strategy is set in {here}")
    if domain.memory is None or domain.memory.hugepages is None:
        needed = at.at("memory", "hugepages")
        yield required_cause(needed, f"{needed} must be requested when NUMA topology strategy is set in {here}")


def realtime_has_what_it_needs(subject: Subject) -> Iterator[Cause]:
    """CPUs of its own and memory beside them; and a mask that names vCPUs of the guest."""
    domain, at = subject.spec.domain, subject.domain_at.at("cpu")
    if not is_realtime(domain):
        return
    here = at.at("realtime")
    if not has_dedicated_cpus(domain):
        needed = at.at("dedicatedCpuPlacement")
        yield required_cause(needed, f"{needed} must be set to true when {here} is used")
    if not mirrors_numa(domain):
        needed = at.at("numa", "guestMappingPassthrough")
        yield required_cause(needed, f"{needed} must be defined when {here} is used")
    vcpus = vcpu_count(domain)
    try:
        chosen = realtime_vcpus(domain, vcpus)
    except CpuListError as error:
        yield Cause(here.at("mask"), f"{here.at('mask')}: {error}")
        return
    if not chosen:
        yield Cause(here.at("mask"), f"{here.at('mask')} leaves no vCPU; remove it, and all are meant")
    elif max(chosen) >= vcpus:
        text = f"names vCPU {max(chosen)}, and the guest has {vcpus}, from 0 on"
        yield Cause(here.at("mask"), f"{here.at('mask')} {text}")


def dedicated_cpus_stay(subject: Subject) -> Iterator[Cause]:
    """No more of them come while the guest runs: a Pod keeps the CPUs that its node gave it."""
    cpu = subject.spec.domain.cpu
    if cpu is None or not cpu.dedicated_cpu_placement or cpu.max_sockets <= max(1, cpu.sockets):
        return
    here = subject.domain_at.at("cpu", "maxSockets")
    text = "a guest with dedicatedCpuPlacement keeps the CPUs of its start; remove it, or set it to the sockets"
    yield unsupported_cause(here, f"{here}: {text}")


def _amount(value: Quantity | None) -> Fraction | None:
    """None too for what cannot be read, which another rule says."""
    try:
        return None if value is None else parse_quantity(value)
    except QuantityError:
        return None


RULES: Final[tuple[Rule, ...]] = (
    dedicated_cpus_are_whole,
    dedicated_memory_is_whole,
    isolated_emulator_has_dedicated_cpus,
    numa_has_dedicated_cpus_and_huge_pages,
    realtime_has_what_it_needs,
    dedicated_cpus_stay,
)
