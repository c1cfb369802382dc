"""What is wrong with the spec of an instance type or a preference, worded as KubeVirt words it.

Used by admission, and before a type that was kept with a VM is believed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kvedge.resources.codec import encode
from kvedge.resources.instancetypes.cpu_topology import (
    ACROSS,
    DEPRECATED,
    SPREAD,
    TOPOLOGIES,
    preferred_topology,
    spread_options,
)
from kvedge.resources.types.vm_types.instancetypes import VirtualMachineInstancetypeSpec
from kvedge.resources.types.vm_types.preferences import VirtualMachinePreferenceSpec
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity

# As many as QEMU's machines have.
_MOST_VCPUS: Final = 4096
_POSITIVE: Final = "must be greater than 0"


class Fault(NamedTuple):
    """One thing that is wrong: the path of the field, and the words."""

    at: str
    text: str


def find_faults(spec: VirtualMachineInstancetypeSpec | VirtualMachinePreferenceSpec) -> Iterator[Fault]:
    """All that is wrong with one of the two."""
    if isinstance(spec, VirtualMachineInstancetypeSpec):
        yield from _type_faults(spec)
    else:
        yield from _preference_faults(spec)


def given_topology(spec: VirtualMachinePreferenceSpec) -> str:
    """The topology in the preference's own word; empty for none."""
    return (spec.cpu.preferred_cpu_topology if spec.cpu is not None else None) or ""


def _type_faults(spec: VirtualMachineInstancetypeSpec) -> Iterator[Fault]:
    at, percent = "spec.memory.overcommitPercent", spec.memory.overcommit_percent
    if not 0 <= percent <= 100:
        yield Fault(at, f"{at} '{percent}': must be in range between 0 and 100.")
    if percent and spec.memory.hugepages is not None:
        yield Fault(at, f"{at} and spec.memory.hugepages should not be requested together.")
    if not 1 <= spec.cpu.guest <= _MOST_VCPUS:
        yield _invalid("spec.cpu.guest", spec.cpu.guest, f"must be between 1 and {_MOST_VCPUS}")
    yield from _amount_is_possible(spec.memory.guest, "spec.memory.guest")
    if spec.memory.max_guest is not None:
        yield from _amount_is_possible(spec.memory.max_guest, "spec.memory.maxGuest")


def _amount_is_possible(value: Quantity, at: str) -> Iterator[Fault]:
    try:
        if parse_quantity(value) <= 0:
            yield _invalid(at, value, _POSITIVE)
    except QuantityError as error:
        yield _invalid(at, value, str(error))


def _preference_faults(spec: VirtualMachinePreferenceSpec) -> Iterator[Fault]:
    given = given_topology(spec)
    if given and given not in (*TOPOLOGIES, *DEPRECATED):
        yield Fault("spec.cpu.preferredCPUTopology", f"unknown preferredCPUTopology {given}")
    document = encode(spec)
    ratio, across = spread_options(document)
    at = "spec.cpu.spreadOptions"
    if preferred_topology(document) == SPREAD:
        if across not in ACROSS:
            yield Fault(f"{at}.across", f"across {across} is not supported")
        elif across == "CoresThreads" and ratio != 2:
            text = "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads"
            yield Fault(f"{at}.ratio", text)
        elif ratio < 1:
            yield _invalid(f"{at}.ratio", ratio, _POSITIVE)
    elif document.get("cpu", {}).get("spreadOptions", {}).get("ratio") is not None and ratio < 1:
        # It counts once somebody prefers to spread.
        yield _invalid(f"{at}.ratio", ratio, _POSITIVE)
    needs = spec.requirements
    if needs is not None and needs.memory is not None:
        yield from _amount_is_possible(needs.memory.guest, "spec.requirements.memory.guest")


def _invalid(at: str, value: object, complaint: str) -> Fault:
    """In Kubernetes' words."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Fault(at, f"{at}: Invalid value: {shown}: {complaint}")
