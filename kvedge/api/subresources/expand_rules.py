"""Whether a VM that somebody sends can be expanded: it is one, of this namespace, with fields that exist.

Called by subresource_server.py for expand-vm-spec. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, cut_list
from kvedge.api.admission.rules.not_yet_rules import VM_NOT_YET, not_yet
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.subresources.status_message import Refusal, bad_request
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.types.vm import VirtualMachine

_VERSIONS: Final = ("kubevirt.io/v1", "kubevirt.io/v1alpha3")
# Expanding is about these members; kvedge has nothing to expand of them yet.
_MATCHERS: Final = ("instancetype", "preference")
_ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def check_expandable(document: JsonObject, namespace: str) -> None:
    """Raises Refusal with 400, all causes at once, or 501 for what is not there yet."""
    spec = document.get("spec")
    if document.get("kind") != "VirtualMachine" or document.get("apiVersion") not in _VERSIONS:
        raise bad_request("Object is not a valid VirtualMachine")
    if not isinstance(spec, dict):
        raise _invalid([Cause("spec", "spec in body is required", "FieldValueRequired")])
    body = {name: value for name, value in document.items() if name not in _ENVELOPE}
    if too_large := list(size_is_sane(parts_to_judge(document))):
        raise _invalid(too_large)
    causes = list(unknown_fields(VirtualMachine, body, Field("")))
    try:
        vm = decode(VirtualMachine, document)
    except DecodeError as error:
        raise _invalid([*causes, Cause(error.path, str(error), "FieldValueTypeInvalid")]) from error
    if causes:
        raise _invalid(causes)
    if vm.metadata.namespace not in ("", namespace):
        raise bad_request(f"VM namespace must be empty or {namespace}")
    asked = {name: spec[name] for name in _MATCHERS if name in spec}
    for cause in not_yet(VM_NOT_YET, asked, Field("spec")):
        raise Refusal(501, cause.message)


def _invalid(causes: list[Cause]) -> Refusal:
    shown = tuple(cause.shorten().document() for cause in cut_list(causes))
    return Refusal(400, "Object is not a valid VirtualMachine", causes=shown)
