"""The kind of clones: what kubectl shows of it, and what `kubectl explain` says of its fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.manifests.custom_kind import CustomKind, column
from kvedge.resources.types.protection.clones import (
    CLONE_VERSIONS,
    VirtualMachineClone,
    VirtualMachineCloneSpec,
    VirtualMachineCloneStatus,
)

CLONE: Final = CustomKind(
    kind=VirtualMachineClone.KIND,
    description="Another VM like one that is there, or like a snapshot of one: with disks, MAC addresses and a "
    "firmware UUID of its own. It goes when the VM that it has made goes.",
    spec=VirtualMachineCloneSpec,
    status=VirtualMachineCloneStatus,
    short_names=("vmclone", "vmclones"),
    columns=(
        column("Phase", ".status.phase"),
        column("SourceVirtualMachine", ".spec.source.name"),
        column("TargetVirtualMachine", ".spec.target.name"),
    ),
    has_status_subresource=True,
    required_spec=("source",),
    deprecated_versions=CLONE_VERSIONS[1:],
    old_version_is_deprecated=False,
)

_FILTERS: Final = (
    "Regular expressions over keys, found anywhere in them; * is for all, a leading ! leaves out, and wins. All are "
    "kept where it is not given, none where it is empty."
)
CLONE_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "CloneTemplateFilters": {
        "annotationFilters": f"Annotations of the VM's template. {_FILTERS}",
        "labelFilters": f"Labels of the VM's template. {_FILTERS}",
    },
    "VirtualMachineCloneSpec": {
        "annotationFilters": f"Annotations of the VM. {_FILTERS}",
        "labelFilters": f"Labels of the VM. {_FILTERS}",
        "newMacAddresses": "MAC addresses by the name of the interface; others are made at the start.",
        "newSMBiosSerial": "The serial number in SMBIOS; none unless given.",
        "patches": "JSON patches, one operation each, of the new VM: below /spec, /metadata/labels and "
        "/metadata/annotations.",
        "volumeNamePolicy": "How new claims are called: RandomizeNames by the restore, PrefixTargetName by the VM and "
        "the volume. RandomizeNames unless given.",
    },
    "VirtualMachineCloneStatus": {
        "phase": "SnapshotInProgress, RestoreInProgress, CreatingTargetVM, then Succeeded or Failed.",
        "creationTime": "When the new VM was complete.",
        "conditions": "Whether it is ready, and what it waits for.",
        "snapshotName": "The snapshot that it works with, while that is there.",
        "restoreName": "The restore that makes the VM, while that is there.",
        "targetName": "The new VM.",
    },
}
