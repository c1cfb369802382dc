"""Whether a write may enter: all rules over one AdmissionRequest, all causes at once.

Called by admission_server.py. Pure. Some rules judge the raw document: unknown fields, fields that are not supported
yet, the writer. All others judge the decoded type. A document that does not decode is refused for that alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules import (
    access_rules,
    compute_rules,
    device_rules,
    platform_rules,
    probe_rules,
    run_rules,
    scheduling_rules,
    vm_rules,
)
from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.networks import bandwidth_rules, multus_rules, network_rules, port_range_rules
from kvedge.api.admission.rules.not_yet_rules import VM_NOT_YET, VMI_NOT_YET, not_yet
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.storage import disk_rules, file_volume_rules, volume_rules
from kvedge.api.admission.rules.storage.data_volume_rules import data_source_is_complete, data_volume_is_complete
from kvedge.api.admission.rules.subject import Cluster, Rule, Subject
from kvedge.api.admission.rules.text_rules import texts_fit_into_xml
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.rules.vm_update_rules import vm_update_is_allowed
from kvedge.api.admission.rules.vmi_update_rules import update_is_allowed
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.pod_annotations import kept_back
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import VirtualMachineInstance

SPEC_RULES: Final[tuple[Rule, ...]] = (
    *compute_rules.RULES,
    *platform_rules.RULES,
    *disk_rules.RULES,
    *volume_rules.RULES,
    *file_volume_rules.RULES,
    *access_rules.RULES,
    *network_rules.RULES,
    *multus_rules.RULES,
    *port_range_rules.RULES,
    *bandwidth_rules.RULES,
    *device_rules.RULES,
    *run_rules.RULES,
    *probe_rules.RULES,
    *scheduling_rules.RULES,
)
_CDI_RULES: Final[Mapping[str, Callable[[JsonObject, JsonObject | None], Iterator[Cause]]]] = {
    "datavolumes": data_volume_is_complete,
    "datasources": data_source_is_complete,
}
# The API server itself checks these members of a document.
_ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_SPEC: Final = Field("spec")
# A client shows each warning by itself.
_MOST_WARNINGS: Final = 15


@dataclass(frozen=True, slots=True)
class Verdict:
    """The faults for which a write is refused, and warnings to the author of one that is accepted."""

    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_verdict(request: AdmissionRequest, cluster: Cluster) -> Verdict:
    """Judge one write. Deletes, subresources and kinds that are not ours pass."""
    document = request.object
    if document is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return Verdict()
    if request.resource.resource == "virtualmachines":
        return _judge_vm(request, document, cluster)
    if request.resource.resource == "virtualmachineinstances":
        if request.operation == "CREATE" and (too_large := tuple(size_is_sane(parts_to_judge(document)))):
            return Verdict(too_large)
        return Verdict(
            tuple(_distinct(_vmi_causes(request, document, cluster))), tuple(_vmi_warnings(request, document))
        )
    if request.resource.group == CDI_GROUP and (rule := _CDI_RULES.get(request.resource.resource)) is not None:
        old = request.old_object if request.operation == "UPDATE" else None
        return Verdict(tuple(_distinct(rule(document, old))))
    return Verdict()


def _judge_vm(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Verdict:
    old = request.old_object
    if request.user.is_handler:
        return Verdict(tuple(handlers_make_nothing(request)))
    if old is not None and old.get("spec") == document.get("spec"):
        # A write of labels, finalizers or owners: newer rules must not lock up an object that entered before them.
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachine, _body(document), Field("")))
    causes += vm_update_is_allowed(old or {}, document, request.user)
    spec = _object(document, "spec")
    causes += not_yet(VM_NOT_YET, spec, _SPEC)
    template = spec.get("template")
    if isinstance(template, dict):
        causes += _document_causes(_object(template, "spec"), _SPEC.at("template", "spec"))
    try:
        vm = decode(VirtualMachine, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(_distinct(causes)))
    causes += [cause for rule in vm_rules.RULES for cause in rule(vm)]
    warnings = vm_rules.warnings(vm)
    if vm.spec.template is not None:
        causes += _spec_causes(_template_subject(vm.spec.template, cluster, request.user))
        warnings += annotation_warnings(vm.spec.template.metadata, _SPEC.at("template", "metadata"))
    return Verdict(tuple(_distinct(causes)), tuple(warnings))


def _vmi_causes(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Iterator[Cause]:
    if request.operation == "UPDATE":
        yield from update_is_allowed(request.old_object or {}, document, request.user)
        return
    yield from handlers_make_nothing(request)
    yield from unknown_fields(VirtualMachineInstance, _body(document), Field(""))
    yield from _document_causes(_object(document, "spec"), _SPEC)
    try:
        vmi = decode(VirtualMachineInstance, document)
    except DecodeError as error:
        yield Cause(error.path, str(error), "FieldValueTypeInvalid")
        return
    by_role = request.user.is_role
    yield from _spec_causes(Subject(vmi.spec, vmi.metadata, _SPEC, Field("metadata"), cluster, by_role))


def _vmi_warnings(request: AdmissionRequest, document: JsonObject) -> Iterator[str]:
    if request.operation == "CREATE" and not request.user.is_role:
        # The author of a VM has got these warnings with the VM.
        with contextlib.suppress(DecodeError):
            yield from annotation_warnings(decode(VirtualMachineInstance, document).metadata, Field("metadata"))


def annotation_warnings(metadata: ObjectMeta, at: Field) -> list[str]:
    """Warn of annotations without effect; they are accepted because many manifests have them."""
    names = kept_back(metadata.annotations)
    told = [f"{at.at('annotations')}: {name} is not handed on to the VM's pod" for name in names[:_MOST_WARNINGS]]
    more = len(names) - _MOST_WARNINGS
    return [*told, f"{at.at('annotations')}: nor are {more} more"] if more > 0 else told


def handlers_make_nothing(request: AdmissionRequest) -> Iterator[Cause]:
    """A node's handler only reports on its VMIs: it must not decide what runs where."""
    if request.user.is_handler:
        resource = request.resource.resource
        text = f"Node restriction, virt-handler is not allowed to {request.operation.lower()} {resource}"
        yield Cause("metadata.name", text, "FieldValueNotSupported")


def _template_subject(template: VirtualMachineInstanceTemplate, cluster: Cluster, user: UserInfo) -> Subject:
    at = _SPEC.at("template")
    return Subject(template.spec, template.metadata, at.at("spec"), at.at("metadata"), cluster, user.is_role)


def _document_causes(spec: JsonObject, at: Field) -> Iterator[Cause]:
    yield from not_yet(VMI_NOT_YET, spec, at)
    yield from texts_fit_into_xml(spec.get("domain"), at.at("domain"))


def _spec_causes(subject: Subject) -> Iterator[Cause]:
    for rule in SPEC_RULES:
        yield from rule(subject)


def _body(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if name not in _ENVELOPE}


def _object(document: JsonObject, name: str) -> JsonObject:
    """A member that is an object; empty for anything else, which decoding refuses."""
    member = document.get(name)
    return member if isinstance(member, dict) else {}


def _distinct(causes: Iterable[Cause]) -> Iterator[Cause]:
    """Each field and message once, in order, and cut to a readable length."""
    return iter(dict.fromkeys(cause.shortened() for cause in causes))
