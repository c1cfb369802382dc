"""Whether an instance type or a preference may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. An object of before that nobody changes is not judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode, encode
from kvedge.resources.instancetypes.cpu_topology import (
    ACROSS,
    DEPRECATED,
    SPREAD,
    TOPOLOGIES,
    preferred_topology,
    spread_options,
)
from kvedge.resources.types.vm_types.instancetypes import (
    VirtualMachineClusterInstancetype,
    VirtualMachineInstancetype,
    VirtualMachineInstancetypeSpec,
)
from kvedge.resources.types.vm_types.preferences import (
    VirtualMachineClusterPreference,
    VirtualMachinePreference,
    VirtualMachinePreferenceSpec,
)
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity

_KINDS: Final[Mapping[str, type]] = {
    kind.KIND.plural: kind
    for kind in (
        VirtualMachineInstancetype,
        VirtualMachineClusterInstancetype,
        VirtualMachinePreference,
        VirtualMachineClusterPreference,
    )
}
_SPEC: Final = Field("spec")
# As many as QEMU's machines have.
_MOST_VCPUS: Final = 4096
_POSITIVE: Final = "must be greater than 0"


def judge_type(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of an instance type or a preference."""
    if request.old_object is not None and request.old_object.get("spec") == document.get("spec"):
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    kind = _KINDS[request.resource.resource]
    causes = list(unknown_fields(kind, body_of(document), Field("")))
    try:
        typed: Any = decode(kind, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    spec = typed.spec
    if isinstance(spec, VirtualMachineInstancetypeSpec):
        causes += _type_causes(spec)
        warnings = _type_warnings(spec)
    else:
        causes += _preference_causes(spec)
        warnings = _preference_warnings(spec)
    return Verdict(tuple(distinct(causes)), tuple(warnings))


def _type_causes(spec: VirtualMachineInstancetypeSpec) -> Iterator[Cause]:
    memory, percent = _SPEC.at("memory"), spec.memory.overcommit_percent
    at = memory.at("overcommitPercent")
    if not 0 <= percent <= 100:
        yield Cause(at, f"{at} '{percent}': must be in range between 0 and 100.")
    if percent and spec.memory.hugepages is not None:
        yield Cause(at, f"{at} and {memory.at('hugepages')} should not be requested together.")
    if not 1 <= spec.cpu.guest <= _MOST_VCPUS:
        yield invalid_value(_SPEC.at("cpu", "guest"), spec.cpu.guest, f"must be between 1 and {_MOST_VCPUS}")
    yield from _amount_is_possible(spec.memory.guest, memory.at("guest"))
    if spec.memory.max_guest is not None:
        yield from _amount_is_possible(spec.memory.max_guest, memory.at("maxGuest"))


def _amount_is_possible(value: Quantity, at: Field) -> Iterator[Cause]:
    try:
        if parse_quantity(value) <= 0:
            yield invalid_value(at, value, _POSITIVE)
    except QuantityError as error:
        yield invalid_value(at, value, str(error))


def _type_warnings(spec: VirtualMachineInstancetypeSpec) -> Iterator[str]:
    if spec.launch_security is not None:
        yield "launchSecurity is deprecated and will be removed in a future release. Use preference instead."


def _preference_causes(spec: VirtualMachinePreferenceSpec) -> Iterator[Cause]:
    cpu, given = _SPEC.at("cpu"), _topology(spec)
    if given and given not in (*TOPOLOGIES, *DEPRECATED):
        yield Cause(cpu.at("preferredCPUTopology"), f"unknown preferredCPUTopology {given}")
    document = encode(spec)
    if preferred_topology(document) == SPREAD:
        ratio, across = spread_options(document)
        options = cpu.at("spreadOptions")
        if across not in ACROSS:
            yield Cause(options.at("across"), f"across {across} is not supported")
        elif across == "CoresThreads" and ratio != 2:
            text = "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads"
            yield Cause(options.at("ratio"), text)
        elif ratio < 1:
            yield invalid_value(options.at("ratio"), ratio, _POSITIVE)
    needs = spec.requirements
    if needs is not None and needs.memory is not None:
        yield from _amount_is_possible(needs.memory.guest, _SPEC.at("requirements", "memory", "guest"))


def _topology(spec: VirtualMachinePreferenceSpec) -> str:
    return (spec.cpu.preferred_cpu_topology if spec.cpu is not None else None) or ""


def _preference_warnings(spec: VirtualMachinePreferenceSpec) -> Iterator[str]:
    given = _topology(spec)
    if given in DEPRECATED:
        yield (
            f"PreferredCPUTopology {given} is deprecated for removal in a future release, please use"
            f" {DEPRECATED[given]} instead"
        )
