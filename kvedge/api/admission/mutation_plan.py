"""What a mutating webhook changes: object in, JSON patch out.

Called by admission_server.py. Pure. A document that fits no schema is left as it is: the API server refuses it next,
with causes. So is one that is too large, for which size_rules.py has the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.instancetypes.inference import Inferred, with_inferred
from kvedge.api.admission.instancetypes.vm_defaults import with_preferred_platform
from kvedge.api.admission.json_patch_plan import difference, member_difference
from kvedge.api.admission.launcher_pod_paths import add_path_mounts
from kvedge.api.admission.migrations.migration_verdict import label_migration
from kvedge.api.admission.presets.preset_parts import Preset
from kvedge.api.admission.presets.preset_plan import with_presets
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.rules.vmi_update_rules import keep_status
from kvedge.api.admission.snapshots.clone_verdict import with_target
from kvedge.api.admission.vmi_defaults_plan import new_vmi, with_platform_defaults
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.names import GROWTH_ROOM, PCI_TOPOLOGY, VM_FINALIZER
from kvedge.resources.types.vm import VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

_NOTHING: Final = Inferred()


def plan_mutation(
    request: AdmissionRequest,
    cluster: Cluster,
    now: str,
    presets: Sequence[Preset] = (),
    inferred: Inferred = _NOTHING,
    preference: JsonObject | None = None,
) -> list[JsonObject]:
    """The JSON patch for one write.

    Args:
        request: the write.
        cluster: what holds for all VMs.
        now: an RFC 3339 time.
        presets: those of the namespace.
        inferred: what a VM's volumes say of its types.
        preference: the spec of a VM's preference.
    """
    document = request.object
    if document is None or request.sub_resource:
        return []
    match request.resource.resource, request.operation:
        case "virtualmachineinstances", "UPDATE":
            kept = keep_status(request.old_object or {}, document, request.user)
            return list(member_difference(document, kept, "status"))
        case "virtualmachineinstances", "CREATE":
            return _vmi(request, document, cluster, now, presets)
        case "virtualmachines", ("CREATE" | "UPDATE"):
            return _vm(request, document, cluster, inferred, preference)
        case "virtualmachineinstancemigrations", "CREATE":
            return list(difference(document, label_migration(document)))
        case "virtualmachineclones", "CREATE":
            return list(difference(document, with_target(document, request.uid)))
        case "pods", "CREATE":
            return add_path_mounts(document)
    return []


def _vmi(
    request: AdmissionRequest, document: JsonObject, cluster: Cluster, now: str, presets: Sequence[Preset]
) -> list[JsonObject]:
    if not _may_be_read(VirtualMachineInstanceSpec, document):
        return []
    status = document.get("status")
    # The controller's word alone: whatever another author has written there is no part of what the VMI becomes.
    says = status if request.user.is_controller and isinstance(status, dict) else {}
    revision = str(says.get("virtualMachineRevisionName") or "")
    made = new_vmi(with_presets(document, presets), cluster, now, request.uid, revision)
    return [*difference(_without_status(document), _without_status(made)), *member_difference(document, made, "status")]


def _vm(
    request: AdmissionRequest,
    document: JsonObject,
    cluster: Cluster,
    inferred: Inferred,
    preference: JsonObject | None,
) -> list[JsonObject]:
    """A VM keeps the platform it was made with; that is all that is written into what the user keeps in a file."""
    if not _may_be_read(VirtualMachineSpec, document):
        return []
    spec = with_inferred(cast("JsonObject", document["spec"]), inferred)
    if preference is not None:
        spec = with_preferred_platform(spec, preference)
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return []
    made = {**template, "spec": with_platform_defaults(template["spec"], cluster)}
    changed = {**document, "spec": {**spec, "template": made}}
    if request.operation == "CREATE":
        metadata = template.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        # A copy of a VM (of a restore, a clone, another box) has the first already, and keeps its machine.
        marks = {PCI_TOPOLOGY: "v3"} if PCI_TOPOLOGY in annotations else {PCI_TOPOLOGY: "v3", GROWTH_ROOM: "v1"}
        made["metadata"] = {**metadata, "annotations": {**marks, **annotations}}
        # The controller would add it before the first start: one write less for each VM.
        finalizers = document["metadata"].get("finalizers") or []
        if VM_FINALIZER not in finalizers:
            changed["metadata"] = {**document["metadata"], "finalizers": [*finalizers, VM_FINALIZER]}
    elif GROWTH_ROOM in _annotations((request.old_object or {}).get("spec") or {}):
        # Who replaces a VM by the file that it was made from keeps its machine as well.
        metadata = template.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        made["metadata"] = {**metadata, "annotations": {GROWTH_ROOM: "v1", **annotations}}
    return list(difference(document, changed))


def _annotations(spec: JsonObject) -> JsonObject:
    metadata = (spec.get("template") or {}).get("metadata") or {}
    return metadata.get("annotations") or {}


def _may_be_read(cls: type, document: JsonObject) -> bool:
    return not any(size_is_sane(parts_to_judge(document))) and _fits(cls, document.get("spec"))


def _without_status(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if name != "status"}


def _fits(cls: type, value: object) -> bool:
    if not isinstance(value, dict):
        return False
    try:
        decode(cls, value)
    except DecodeError:
        return False
    return True
