"""The CustomResourceDefinitions of the kinds that kvedge serves, made from the types.

Called by `packaging/crds`, which writes k3s/crds/, and by `kvedge install` and the embedded API. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.backup_kinds import BACKUP_KINDS
from kvedge.resources.manifests.clone_kind import CLONE
from kvedge.resources.manifests.custom_kind import AGE, CustomKind, column, condition_column
from kvedge.resources.manifests.data_volume_kinds import DATA_VOLUME_KINDS
from kvedge.resources.manifests.export_kinds import EXPORT_KIND
from kvedge.resources.manifests.instancetype_kinds import INSTANCETYPE_KINDS
from kvedge.resources.manifests.migration_kinds import MIGRATION_KINDS
from kvedge.resources.manifests.preset_kind import PRESET
from kvedge.resources.manifests.replica_kinds import REPLICA_KINDS
from kvedge.resources.manifests.schedule_kind import SCHEDULE
from kvedge.resources.manifests.schema_manifest import Schemas
from kvedge.resources.manifests.snapshot_kinds import SNAPSHOT_KINDS
from kvedge.resources.manifests.vm_backup_kinds import VM_BACKUP_KINDS
from kvedge.resources.types.kubevirt import KubeVirt, KubeVirtSpec, KubeVirtStatus
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineSpec, VirtualMachineStatus
from kvedge.resources.types.vmi import (
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VirtualMachineInstanceStatus,
)

_DEPRECATION: Final = "kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release."

_VM_KINDS: Final[Sequence[CustomKind]] = (
    CustomKind(
        kind=VirtualMachine.KIND,
        description="A virtual machine: what should run, whether it runs now or not.",
        spec=VirtualMachineSpec,
        status=VirtualMachineStatus,
        short_names=("vm", "vms"),
        columns=(AGE, column("Status", ".status.printableStatus"), condition_column("Ready", "Ready")),
        has_status_subresource=True,
        required_spec=("template",),
        default_status=(("printableStatus", "Stopped"),),
    ),
    CustomKind(
        kind=VirtualMachineInstance.KIND,
        description="One run of a virtual machine: it begins when the object is made and ends with its guest.",
        spec=VirtualMachineInstanceSpec,
        status=VirtualMachineInstanceStatus,
        short_names=("vmi", "vmis"),
        columns=(
            AGE,
            column("Phase", ".status.phase"),
            column("IP", ".status.interfaces[0].ipAddress"),
            column("NodeName", ".status.nodeName"),
            condition_column("Ready", "Ready"),
            condition_column("Live-Migratable", "LiveMigratable", priority=1),
            condition_column("Paused", "Paused", priority=1),
        ),
        # Status is written through the object itself, as in KubeVirt; admission reverts what users write there.
        has_status_subresource=False,
        required_spec=("domain",),
    ),
    CustomKind(
        kind=KubeVirt.KIND,
        description="The configuration of kvedge in this cluster; there is one. VMs that are made from then on follow "
        "it, without a restart of anything. Its conditions say what of it cannot be used or does not apply.",
        spec=KubeVirtSpec,
        status=KubeVirtStatus,
        short_names=("kv", "kvs"),
        columns=(AGE, column("Phase", ".status.phase")),
        has_status_subresource=True,
        labels=(("operator.kubevirt.io", ""),),
    ),
)
CUSTOM_KINDS: Final = (
    *_VM_KINDS, *REPLICA_KINDS, *MIGRATION_KINDS, *SNAPSHOT_KINDS, *BACKUP_KINDS, *VM_BACKUP_KINDS, CLONE, SCHEDULE,
    EXPORT_KIND, PRESET, *INSTANCETYPE_KINDS, *DATA_VOLUME_KINDS,
)  # fmt: skip


def crds() -> list[JsonObject]:
    """All CustomResourceDefinitions, as apiextensions.k8s.io/v1 documents."""
    schemas = Schemas([cls for custom in CUSTOM_KINDS for cls in (custom.spec, custom.status) if cls is not None])
    return [_crd(custom, schemas) for custom in CUSTOM_KINDS]


def _crd(custom: CustomKind, schemas: Schemas) -> JsonObject:
    kind, schema = custom.kind, _object_schema(custom, schemas)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": custom.name, "labels": dict(custom.labels)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                **({"shortNames": list(custom.short_names)} if custom.short_names else {}),
                **({"categories": list(custom.categories)} if custom.categories else {}),
            },
            "conversion": {"strategy": "None"},
            "versions": [_version(custom, version, schema) for version in (kind.version, *custom.deprecated_versions)],
        },
    }


def _version(custom: CustomKind, version: str, schema: JsonObject) -> JsonObject:
    deprecated = version in custom.deprecated_versions
    document: JsonObject = {
        "name": version,
        "served": True,
        "storage": not deprecated,
        "schema": {"openAPIV3Schema": schema},
        "subresources": _subresources(custom),
    }
    if custom.columns:
        document["additionalPrinterColumns"] = [dict(column) for column in custom.columns]
    if (deprecated and custom.old_version_is_deprecated) or custom.deprecation:
        warning = custom.deprecation.format(version=version) or _DEPRECATION
        document |= {"deprecated": True, "deprecationWarning": warning}
    return document


def _subresources(custom: CustomKind) -> JsonObject:
    made: JsonObject = {"status": {}} if custom.has_status_subresource else {}
    if custom.has_scale:
        made["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        }
    return made


def _object_schema(custom: CustomKind, schemas: Schemas) -> JsonObject:
    """The schema of one kind's objects, the same in all its versions."""
    spec = schemas.schema(custom.spec, keep_unknown=True)
    required = sorted({*spec.get("required", ()), *custom.required_spec})
    if required:
        spec["required"] = required
    for name, value in custom.default_spec:
        spec["properties"][name]["default"] = value
    status = None if custom.status is None else schemas.schema(custom.status, keep_unknown=False)
    if status is not None and custom.default_status:
        for name, value in custom.default_status:
            status["properties"][name]["default"] = value
        # A default is applied inside an object that is there: without this one there is no status to begin with.
        status["default"] = {}
    return {
        "type": "object",
        "description": custom.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The group and version of this document."},
            "kind": {"type": "string", "description": f"{custom.kind.kind}."},
            # The API server describes it itself, and takes no word about it from us.
            "metadata": {"type": "object"},
            "spec": spec,
            **({} if status is None else {"status": status}),
        },
        "x-kubernetes-preserve-unknown-fields": True,
    }
