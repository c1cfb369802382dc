"""Whether a VirtualMachineInstancePreset may enter, and what is told to its author; worded as KubeVirt words it.

Called by admission_plan.py. Pure. What a preset brings is judged again in each VMI that gets it.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.presets.preset_plan import INSTEAD, unused_members
from kvedge.api.admission.rules import platform_rules
from kvedge.api.admission.rules.causes import Cause, Field, required_cause
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.subject import Cluster, Subject
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import MOST_WARNINGS, Verdict, body_of, distinct, document_causes, member_of
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.label_selectors import selector_problems
from kvedge.resources.types.presets import VirtualMachineInstancePreset
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

_SPEC: Final = Field("spec")
# The rules for parts that a preset can bring; disks and networks it cannot.
_RULES: Final = (
    platform_rules.firmware_identity_is_valid,
    platform_rules.bootloader_is_possible,
    platform_rules.kernel_boot_is_complete,
    platform_rules.clock_is_possible,
    platform_rules.features_are_possible,
)


def judge_preset(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Verdict:
    """Judge one write of a preset."""
    if request.old_object is not None and request.old_object.get("spec") == document.get("spec"):
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    spec = member_of(document, "spec")
    causes = list(unknown_fields(VirtualMachineInstancePreset, body_of(document), Field("")))
    causes += document_causes(spec, _SPEC)
    try:
        preset = decode(VirtualMachineInstancePreset, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    at = _SPEC.at("selector")
    if preset.spec.selector is None:
        causes.append(required_cause(at, f"{at}: which VMIs the preset is for must be given"))
    else:
        for path, text in selector_problems(preset.spec.selector):
            here = at.at(path) if path else at
            causes.append(Cause(here, f"{here}: {text}"))
    if preset.spec.domain is None:
        causes.append(required_cause(_SPEC.at("domain"), "missing domain."))
        return Verdict(tuple(distinct(causes)))
    subject = Subject(
        VirtualMachineInstanceSpec(domain=preset.spec.domain), preset.metadata, _SPEC, Field("metadata"), cluster
    )
    causes += [cause for rule in _RULES for cause in rule(subject)]
    unused = unused_members(member_of(spec, "domain"))
    told = [f"spec.domain.{name}: no VMI gets this of a preset. {INSTEAD}" for name in unused[:MOST_WARNINGS]]
    return Verdict(tuple(distinct(causes)), tuple(told or [INSTEAD]))
