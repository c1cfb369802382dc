"""What a mutating webhook changes: object in, JSON patch out.

Called by admission_server.py. Pure. A document that fits no schema is left as it is: the API server refuses it next,
with causes.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import jsonpatch

from kvedge.api.admission_message import AdmissionRequest
from kvedge.api.subject import Cluster
from kvedge.api.vmi_defaults_plan import new_vmi, with_platform_defaults
from kvedge.api.vmi_update_rules import keep_status
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.names import PCI_TOPOLOGY, VM_FINALIZER
from kvedge.resources.vm import VirtualMachineSpec
from kvedge.resources.vmi import VirtualMachineInstanceSpec


def plan_mutation(request: AdmissionRequest, cluster: Cluster, now: str) -> list[JsonObject]:
    """The JSON patch for one write; `now` is an RFC 3339 time."""
    document = request.object
    if document is None or request.sub_resource:
        return []
    if request.resource.resource == "virtualmachineinstances":
        return _between(document, _vmi(request, document, cluster, now))
    if request.resource.resource == "virtualmachines":
        return _between(document, _vm(request, document, cluster))
    return []


def _vmi(request: AdmissionRequest, document: JsonObject, cluster: Cluster, now: str) -> JsonObject:
    if request.operation == "UPDATE":
        return keep_status(request.old_object or {}, document, request.user)
    if request.operation != "CREATE" or not _fits(VirtualMachineInstanceSpec, document.get("spec")):
        return document
    return new_vmi(document, cluster, now)


def _vm(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> JsonObject:
    """A VM keeps the platform it was made with; that is all that is written into what the user keeps in a file."""
    spec = document.get("spec")
    if request.operation not in ("CREATE", "UPDATE") or not _fits(VirtualMachineSpec, spec):
        return document
    template = cast("JsonObject", spec).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return document
    changed = copy.deepcopy(document)
    made: dict[str, Any] = changed["spec"]["template"]
    made["spec"] = with_platform_defaults(made["spec"], cluster)
    if request.operation == "CREATE":
        made["metadata"] = made.get("metadata") or {}
        annotations = made["metadata"].get("annotations") or {}
        made["metadata"]["annotations"] = {PCI_TOPOLOGY: "v3", **annotations}
        # The controller would add it before the first start: one write less for each VM.
        finalizers = changed["metadata"].get("finalizers") or []
        if VM_FINALIZER not in finalizers:
            changed["metadata"]["finalizers"] = [*finalizers, VM_FINALIZER]
    return changed


def _fits(cls: type, value: object) -> bool:
    if not isinstance(value, dict):
        return False
    try:
        decode(cls, value)
    except DecodeError:
        return False
    return True


def _between(before: JsonObject, after: JsonObject) -> list[JsonObject]:
    return cast("list[JsonObject]", list(jsonpatch.make_patch(before, after)))
