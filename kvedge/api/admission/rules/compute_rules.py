"""Rules for CPU, memory and the resources of a VMI, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import msgspec

from kvedge.api.admission.rules.causes import Cause, Field, required_cause, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import RESERVED_OVERHEAD
from kvedge.resources.types.domain import Cpu
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.values.huge_pages import can_be_page
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity
from kvedge.resources.vmi_facts import (
    MEMORY_LOCKED,
    MEMORY_NOT_LOCKED,
    MOST_VCPUS,
    PLUGS_CPUS,
    guest_memory_field,
    vcpu_count,
    why_memory_stays,
)

_RESOURCES: Final = ("cpu", "memory")
_POLICIES: Final = frozenset({"", "force", "require", "optional", "disable", "forbid"})
_LEAST_MEMORY: Final = 10**6


def memory_is_requested(subject: Subject) -> Iterator[Cause]:
    """A guest without memory cannot be; of a template see :func:`find_missing_memory`."""
    missing = "" if subject.is_template else find_missing_memory(subject.spec, subject.domain_at)
    if missing:
        yield required_cause(subject.domain_at, missing)


def find_missing_memory(spec: VirtualMachineInstanceSpec, at: Field) -> str:
    """What is wrong with a domain at the path `at` that asks for no memory; empty where it does.

    A template without memory is accepted with these words as a warning: a preset may give memory to its VMIs.
    """
    domain = spec.domain
    guest = domain.memory is not None and domain.memory.guest is not None
    pages = domain.memory is not None and domain.memory.hugepages is not None and domain.memory.hugepages.page_size
    if guest or pages or "memory" in domain.resources.requests or "memory" in domain.resources.limits:
        return ""
    places = [at.at("memory", "guest"), at.at("memory", "hugepages", "pageSize")]
    places.append(at.at("resources", "requests", "memory"))
    return f"no memory requested, at least one of '{places[0]}', '{places[1]}' or '{places[2]}' must be set"


def quantities_are_quantities(subject: Subject) -> Iterator[Cause]:
    """Each amount can be read and is not negative; a request of memory is at least 1M."""
    for at, value in _amounts(subject):
        amount = _amount(value)
        if amount is None:
            yield Cause(at, f"{at}: {QuantityError(value)}")
        elif amount < 0:
            yield Cause(at, f"{at} '{value}': must be greater than or equal to 0.")
        elif at.endswith(("requests.memory", "memory.guest")) and amount < _LEAST_MEMORY:
            yield Cause(at, f"{at} '{value}': must be greater than or equal to 1M.")


def huge_pages_make_up_the_memory(subject: Subject) -> Iterator[Cause]:
    """A size that processors have, of which the guest's memory is a multiple."""
    domain, at = subject.spec.domain, subject.domain_at.at("memory", "hugepages", "pageSize")
    if domain.memory is None or domain.memory.hugepages is None:
        return
    asked = domain.memory.hugepages.page_size
    page = _amount(asked)
    if page is None:
        yield Cause(at, f"{at}: {QuantityError(asked)}")
        return
    if page.denominator != 1 or not can_be_page(int(page)):
        yield Cause(at, f"{at} '{asked}' is no size of huge pages; use 2Mi or 1Gi")
        return
    said = guest_memory_field(domain)
    memory = _amount(said[1]) if said is not None else None
    if said is None or memory is None:
        return
    field = f"{subject.at}{said[0].removeprefix('spec')}"
    if memory < page:
        yield Cause(at, f"{field} '{said[1]}' must be equal to or larger than page size {at} '{asked}'")
    elif memory % page:
        yield Cause(at, f"{field} '{said[1]}' is not a multiple of the page size {at} '{asked}'")


def overhead_may_be_reserved(subject: Subject) -> Iterator[Cause]:
    """With its feature gate, and a word for locked memory that KubeVirt has."""
    memory, at = subject.spec.domain.memory, subject.domain_at.at("memory", "reservedOverhead")
    reserved = memory.reserved_overhead if memory is not None else None
    if reserved is None:
        return
    if not subject.cluster.configuration.gates.is_on(RESERVED_OVERHEAD):
        yield Cause(at, f"{at}: the feature gate {RESERVED_OVERHEAD} is not enabled in the KubeVirt object")
    if reserved.mem_lock not in ("", MEMORY_LOCKED, MEMORY_NOT_LOCKED):
        here = at.at("memLock")
        allowed = f"{MEMORY_LOCKED} {MEMORY_NOT_LOCKED}"
        yield unsupported_cause(here, f"{here} is not supported: {reserved.mem_lock} (allowed values: [{allowed}])")


def memory_can_grow_so_far(subject: Subject) -> Iterator[Cause]:
    """A guest with `maxGuest` has to be one whose memory can change while it runs."""
    domain = subject.spec.domain
    if domain.memory is None or domain.memory.max_guest is None:
        return
    at, said = subject.domain_at.at("memory", "maxGuest"), guest_memory_field(domain)
    if said is None or _amount(said[1]) is None or _amount(domain.memory.max_guest) is None:
        # Another rule says so, or a template's preset says how much.
        return
    # A request alone becomes the guest's memory.
    memory = msgspec.structs.replace(domain.memory, guest=said[1])
    fault = why_memory_stays(msgspec.structs.replace(domain, memory=memory), subject.architecture)
    if fault:
        yield Cause(at, f"{at}: {fault}; remove maxGuest, or change what stands against it")


def only_cpu_and_memory(subject: Subject) -> Iterator[Cause]:
    """No other resource can be asked for here."""
    resources = subject.spec.domain.resources
    for name, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for resource in amounts:
            if resource not in _RESOURCES:
                at = subject.domain_at.at("resources", name).key(resource)
                yield unsupported_cause(at, f"{at} is not supported: {resource} (allowed values: [cpu memory])")


def requests_fit_limits(subject: Subject) -> Iterator[Cause]:
    """A request is at most its limit, and the guest's memory fits the limit."""
    resources, at = subject.spec.domain.resources, subject.domain_at.at("resources")
    for name in _RESOURCES:
        request, limit = _amount(resources.requests.get(name)), _amount(resources.limits.get(name))
        if request is not None and limit is not None and request > limit:
            low, high = at.at("requests", name), at.at("limits", name)
            yield Cause(low, f"{low} '{resources.requests[name]}' is greater than {high} '{resources.limits[name]}'")
    memory = subject.spec.domain.memory
    guest = _amount(memory.guest) if memory is not None else None
    limit = _amount(resources.limits.get("memory"))
    if memory is not None and guest is not None and limit is not None and guest > limit:
        here, high = subject.domain_at.at("memory", "guest"), at.at("limits", "memory")
        text = f"{here} '{memory.guest}' must be equal to or less than the memory limit {high}"
        yield Cause(here, f"{text} '{resources.limits['memory']}'")


def cpu_is_possible(subject: Subject) -> Iterator[Cause]:
    """Counts, features and their policies."""
    cpu, at = subject.spec.domain.cpu, subject.domain_at.at("cpu")
    if cpu is None:
        return
    counts = {"cores": cpu.cores, "sockets": cpu.sockets, "threads": cpu.threads}
    for name, count in counts.items():
        if count < 0:
            yield Cause(at.at(name), f"{at.at(name)} '{count}': must be greater than or equal to 0.")
    vcpus = vcpu_count(subject.spec.domain)
    # A spec that names requests alone gets as many sockets: of these the scheduler says that no node has them, in words
    # that everybody knows from Pods. Here nobody would hear it, as the VMI of a VM is refused to the controller.
    if vcpus > MOST_VCPUS and vcpus != _count_requested_cpus(subject):
        yield Cause(at, f"{at}: {vcpus} vCPUs are more than the {MOST_VCPUS} that a VM can have")
    yield from _room_is_possible(subject, cpu, at)
    if cpu.threads > 1 and subject.architecture == "arm64":
        arch = subject.at.at("architecture")
        text = f"threads must not be greater than 1 at {at.at('threads')} (got {cpu.threads}) when {arch} is arm64"
        yield Cause(at.at("threads"), text)
    if subject.architecture == "arm64" and cpu.model not in ("", "host-passthrough"):
        here = at.at("model")
        yield unsupported_cause(here, f"{here}: currently, host-passthrough is the only model supported on Arm64")
    for index, feature in enumerate(cpu.features):
        here = at.at("features").item(index)
        if not feature.name:
            yield required_cause(here.at("name"), f"{here.at('name')} is a required field")
        if feature.policy not in _POLICIES:
            text = f"CPU feature {feature.name} uses policy {feature.policy} that is not supported."
            yield unsupported_cause(here.at("policy"), text)


def _room_is_possible(subject: Subject, cpu: Cpu, at: Field) -> Iterator[Cause]:
    """The sockets that the guest may get while it runs."""
    here, most = at.at("maxSockets"), cpu.max_sockets
    if most < 0:
        yield Cause(here, f"{here} '{most}': must be greater than or equal to 0.")
    if most <= 0:
        return
    if cpu.sockets > most:
        yield Cause(at.at("sockets"), "Number of sockets in CPU topology is greater than the maximum sockets allowed")
    elif most > max(1, cpu.sockets) and subject.architecture not in PLUGS_CPUS:
        text = f"CPUs cannot be plugged into guests of {subject.architecture}; remove it, or set it to the sockets"
        yield unsupported_cause(here, f"{here}: {text}")
    vcpus = most * max(1, cpu.cores) * max(1, cpu.threads)
    if vcpus > MOST_VCPUS:
        yield Cause(here, f"{here}: {vcpus} vCPUs are more than the {MOST_VCPUS} that a VM can have")


def _count_requested_cpus(subject: Subject) -> int:
    resources = subject.spec.domain.resources
    amounts = (resources.limits.get("cpu"), resources.requests.get("cpu"))
    found = next((amount for value in amounts if (amount := _amount(value)) is not None), None)
    return 0 if found is None else math.ceil(found)


def _amounts(subject: Subject) -> Iterator[tuple[Field, Quantity]]:
    domain, at = subject.spec.domain, subject.domain_at
    if domain.memory is not None and domain.memory.guest is not None:
        yield at.at("memory", "guest"), domain.memory.guest
    if domain.memory is not None and domain.memory.max_guest is not None:
        yield at.at("memory", "maxGuest"), domain.memory.max_guest
    reserved = domain.memory.reserved_overhead if domain.memory is not None else None
    if reserved is not None and reserved.added_overhead is not None:
        yield at.at("memory", "reservedOverhead", "addedOverhead"), reserved.added_overhead
    for kind, amounts in (("requests", domain.resources.requests), ("limits", domain.resources.limits)):
        for name, value in amounts.items():
            yield at.at("resources", kind, name), value


def _amount(value: Quantity | None) -> Fraction | None:
    """The amount, or None when there is none or it cannot be read, which another rule says."""
    if value is None:
        return None
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


RULES: Final[tuple[Rule, ...]] = (
    memory_is_requested,
    quantities_are_quantities,
    huge_pages_make_up_the_memory,
    memory_can_grow_so_far,
    overhead_may_be_reserved,
    only_cpu_and_memory,
    requests_fit_limits,
    cpu_is_possible,
)
