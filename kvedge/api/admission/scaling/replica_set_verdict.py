"""Whether a VirtualMachineInstanceReplicaSet may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. The template is judged as a VMI is, so that a set never makes what is refused; one
that has not changed is not judged again: newer rules must not keep a set of before from being scaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import (
    TEMPLATE,
    Verdict,
    body_of,
    distinct,
    document_causes,
    member_of,
    spec_causes,
    template_subject,
    template_warnings,
)
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.label_selectors import find_keys, selector_of, selector_problems
from kvedge.resources.meta import LabelSelector
from kvedge.resources.names import RESERVED_LABELS
from kvedge.resources.replica_names import SUFFIX_LENGTH, base_name
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vm import VirtualMachineInstanceTemplate
from kvedge.resources.values.name_grammar import NO_SUBDOMAIN, SUBDOMAIN, SUBDOMAIN_LENGTH
from kvedge.resources.values.whole_numbers import INT32

_SPEC: Final = Field("spec")


def judge_replica_set(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Verdict:
    """Judge one write of a set."""
    before, spec = member_of(request.old_object or {}, "spec"), member_of(document, "spec")
    if request.old_object is not None and before == spec:
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachineInstanceReplicaSet, body_of(document), Field("")))
    is_new = request.old_object is None or before.get("template") != spec.get("template")
    if is_new:
        causes += document_causes(member_of(member_of(spec, "template"), "spec"), TEMPLATE.at("spec"))
    try:
        made = decode(VirtualMachineInstanceReplicaSet, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += number_is_possible(made.spec.replicas)
    template = made.spec.template
    if template is None:
        causes.append(required_cause(TEMPLATE, "missing virtual machine template."))
        return Verdict(tuple(distinct(causes)))
    warnings: list[str] = []
    if is_new:
        causes += spec_causes(template_subject(template, cluster, request.user))
        causes += names_are_possible(made)
        warnings = [*template_warnings(template), *identity_warnings(template)]
    causes += selector_finds_template(made.spec.selector, template.metadata.labels)
    if request.old_object is None or before.get("selector") != spec.get("selector"):
        causes += selector_is_lasting(made.spec.selector)
    return Verdict(tuple(distinct(causes)), tuple(warnings))


def number_is_possible(replicas: int | None) -> Iterator[Cause]:
    """A number of VMs, as the scale subresource takes it."""
    if replicas is not None and not 0 <= replicas <= INT32[1]:
        complaint = f"must be greater than or equal to 0 and less than or equal to {INT32[1]}"
        yield invalid_value(_SPEC.at("replicas"), replicas, complaint)


def selector_finds_template(
    selector: LabelSelector | None, labels: dict[str, str], template_at: Field = TEMPLATE
) -> Iterator[Cause]:
    """What is made must be found again: otherwise there would never be enough."""
    at = _SPEC.at("selector")
    if selector is None:
        yield Cause(at, "selector does not match labels.")
        return
    problems = list(selector_problems(selector))
    for path, text in problems:
        here = at.at(path) if path else at
        yield Cause(here, f"{here}: {text}")
    if not problems and not selector_of(selector).matches(labels):
        yield Cause(at, "selector does not match labels.")
    if not labels:
        here = template_at.at("metadata", "labels")
        yield required_cause(here, f"{here}: the template needs a label by which its copies are known")


def selector_is_lasting(selector: LabelSelector | None) -> Iterator[Cause]:
    """A VMI stays the set's when kvedge labels it: otherwise each one would be let go once it is placed."""
    for path, key in find_keys(selector, RESERVED_LABELS) if selector is not None else ():
        here = _SPEC.at("selector", path)
        yield Cause(here, f"{here}: kvedge itself writes the label {key} on VMIs: select by a label of the template")


def names_are_possible(made: VirtualMachineInstanceReplicaSet) -> Iterator[Cause]:
    """The names of its VMIs begin with that of the template, or of the set."""
    base, field = base_name(made)
    if len(base) + SUFFIX_LENGTH > SUBDOMAIN_LENGTH:
        yield invalid_value(Field(field), base, f"must be no more than {SUBDOMAIN_LENGTH - SUFFIX_LENGTH} characters")
    elif base and not SUBDOMAIN.fullmatch(f"{base}x"):
        yield invalid_value(Field(field), base, NO_SUBDOMAIN)


def identity_warnings(template: VirtualMachineInstanceTemplate) -> list[str]:
    """What all VMIs would have, and only one guest should."""
    domain, at = template.spec.domain, TEMPLATE.at("spec", "domain")
    found = [
        at.at("devices", "interfaces").item(index).at("macAddress")
        for index, interface in enumerate(domain.devices.interfaces)
        if interface.mac_address
    ]
    firmware = domain.firmware
    if firmware is not None:
        named = (("uuid", firmware.uuid), ("serial", firmware.serial))
        found += [at.at("firmware", name) for name, value in named if value]
    return [f"{here}: all VMIs of the set get this one; leave it out, and each gets its own" for here in found[:15]]
