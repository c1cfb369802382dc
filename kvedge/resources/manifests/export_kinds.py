"""The kind of exports: what kubectl shows of it, and what `kubectl explain` says of its fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.manifests.custom_kind import CustomKind, column
from kvedge.resources.types.protection.exports import (
    OLDER_EXPORT_VERSIONS,
    VirtualMachineExport,
    VirtualMachineExportSpec,
    VirtualMachineExportStatus,
)

EXPORT_KIND: Final = CustomKind(
    kind=VirtualMachineExport.KIND,
    description="Disks that can be fetched by HTTPS for a while: of a claim, a VM that is stopped, or a snapshot.",
    spec=VirtualMachineExportSpec,
    status=VirtualMachineExportStatus,
    short_names=("vmexport", "vmexports"),
    columns=(
        column("SourceKind", ".spec.source.kind"),
        column("SourceName", ".spec.source.name"),
        column("Phase", ".status.phase"),
    ),
    has_status_subresource=True,
    required_spec=("source",),
    # The same fields, as in KubeVirt: nobody has to change anything.
    deprecated_versions=OLDER_EXPORT_VERSIONS,
    old_version_is_deprecated=False,
)

EXPORT_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "ExportSource": {
        "apiGroup": "Of a VirtualMachine kubevirt.io, of a VirtualMachineSnapshot snapshot.kubevirt.io; none for a "
        "PersistentVolumeClaim.",
        "kind": "PersistentVolumeClaim, VirtualMachine or VirtualMachineSnapshot.",
        "name": "Its name, in the same namespace.",
    },
    "VirtualMachineExportSpec": {
        "tokenSecretRef": "The Secret that holds the token in its key token; unless given, one is made.",
        "ttlDuration": "So long after its creation, such as 30m, the export is deleted; two hours unless given.",
    },
    "ExportFormat": {
        "format": "raw, gzip, dir or tar.gz.",
        "url": "Where it is; the token goes into the header x-kubevirt-export-token.",
    },
    "ExportVolume": {"name": "The volume: its claim's name.", "formats": "Its forms."},
    "ExportManifest": {
        "type": "all: the VM and its disks, to be imported; auth-header-secret: the Secret that the import needs.",
        "url": "Where it is.",
    },
    "ExportLink": {
        "cert": "The authority of the server, as PEM.",
        "volumes": "What can be fetched.",
        "manifests": "By what it can be imported.",
    },
    "ExportLinks": {"internal": "Within the cluster.", "external": "From outside."},
    "VirtualMachineExportStatus": {
        "phase": "Pending until it can be fetched, then Ready; Terminated while its server is made anew, Skipped where "
        "there is nothing to export.",
        "links": "Where to fetch, while it is Ready.",
        "tokenSecretRef": "The Secret that holds the token.",
        "ttlExpirationTime": "When the export is deleted.",
        "serviceName": "The Service that leads to the server.",
        "virtualMachineName": "The VM that the disks belong to.",
        "conditions": "Whether it can be fetched, and what it waits for.",
    },
}
