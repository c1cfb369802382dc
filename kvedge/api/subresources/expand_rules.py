"""A VM with its instance type and preference written into it; and whether one that somebody sends can be expanded.

Called by expand_calls.py. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.admission.instancetypes.matcher_rules import matchers_are_complete
from kvedge.api.admission.instancetypes.typed_template import apply_to_template
from kvedge.api.admission.rules.causes import Cause, Field, cut_list
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.vmi_defaults_plan import with_defaults
from kvedge.api.subresources.status_message import Refusal, bad_request
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.instancetypes.application import VmTypes
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE
from kvedge.resources.names import GROWTH_ROOM
from kvedge.resources.types.vm import VirtualMachine

_VERSIONS: Final = ("kubevirt.io/v1", "kubevirt.io/v1alpha3")
_ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def check_expandable(document: JsonObject, namespace: str) -> None:
    """Raises Refusal with 400, all causes at once."""
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
    if causes := list(matchers_are_complete(vm)):
        raise _invalid(causes)


def expand(document: JsonObject, types: VmTypes, cluster: Cluster) -> JsonObject:
    """The VM with everything that its types and the defaults give it, and without the words that name the types.

    A VM without types comes back as it is. Raises Refusal when the VM contradicts its instance type.
    """
    spec = document["spec"]
    if not types:
        return document
    applied = apply_to_template(spec.get("template") or {}, types, cluster)
    if isinstance(applied, list):
        raise _invalid(applied)
    made = {name: value for name, value in spec.items() if name not in (INSTANCETYPE.member, PREFERENCE.member)}
    # Room is a machine of its own: a VM that has none keeps it so, here and on the box that it moves to.
    annotations = (applied.get("metadata") or {}).get("annotations") or {}
    grows = cluster.configuration.live_updates.is_said or GROWTH_ROOM in annotations
    made["template"] = {**applied, "spec": with_defaults(applied.get("spec") or {}, cluster, grows=grows)}
    status = document.get("status")
    if isinstance(status, dict):
        refs = (INSTANCETYPE.status, PREFERENCE.status)
        status = {name: value for name, value in status.items() if name not in refs}
    return {**document, "spec": made, **({} if status is None else {"status": status})}


def _invalid(causes: list[Cause]) -> Refusal:
    shown = tuple(cause.shorten().document() for cause in cut_list(causes))
    return Refusal(400, "Object is not a valid VirtualMachine", causes=shown)
