"""Whether an instance type or a preference may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. An object of before that nobody changes is not judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.instancetypes.cpu_topology import DEPRECATED
from kvedge.resources.instancetypes.type_faults import find_faults, given_topology
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

_KINDS: Final[Mapping[str, type]] = {
    kind.KIND.plural: kind
    for kind in (
        VirtualMachineInstancetype,
        VirtualMachineClusterInstancetype,
        VirtualMachinePreference,
        VirtualMachineClusterPreference,
    )
}


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
    causes += [Cause(fault.at, fault.text) for fault in find_faults(spec)]
    is_type = isinstance(spec, VirtualMachineInstancetypeSpec)
    warnings = _type_warnings(spec) if is_type else _preference_warnings(spec)
    return Verdict(tuple(distinct(causes)), tuple(warnings))


def _type_warnings(spec: VirtualMachineInstancetypeSpec) -> Iterator[str]:
    if spec.launch_security is not None:
        yield "launchSecurity is deprecated and will be removed in a future release. Use preference instead."


def _preference_warnings(spec: VirtualMachinePreferenceSpec) -> Iterator[str]:
    given = given_topology(spec)
    if given in DEPRECATED:
        yield (
            f"PreferredCPUTopology {given} is deprecated for removal in a future release, please use"
            f" {DEPRECATED[given]} instead"
        )
