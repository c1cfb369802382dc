"""The kinds of snapshots: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvedge.resources.manifests.custom_kind import CustomKind, column
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineRestoreSpec,
    VirtualMachineRestoreStatus,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VirtualMachineSnapshotContentSpec,
    VirtualMachineSnapshotContentStatus,
    VirtualMachineSnapshotSpec,
    VirtualMachineSnapshotStatus,
)


def _kind(cls: Any, description: str, types: tuple[type, type], **more: Any) -> CustomKind:
    return CustomKind(
        kind=cls.KIND,
        description=description,
        spec=types[0],
        status=types[1],
        has_status_subresource=True,
        deprecated_versions=(),
        **more,
    )


SNAPSHOT_KINDS: Final[Sequence[CustomKind]] = (
    _kind(
        VirtualMachineSnapshot,
        "A VM as it was at one time: its spec, and a copy of its disks.",
        (VirtualMachineSnapshotSpec, VirtualMachineSnapshotStatus),
        short_names=("vmsnapshot", "vmsnapshots"),
        required_spec=("source",),
        columns=(
            column("SourceKind", ".spec.source.kind"),
            column("SourceName", ".spec.source.name"),
            column("Phase", ".status.phase"),
            column("ReadyToUse", ".status.readyToUse", type_="boolean"),
            column("CreationTime", ".status.creationTime", type_="date"),
            column("Error", ".status.error.message"),
        ),
    ),
    _kind(
        VirtualMachineSnapshotContent,
        "What a snapshot holds; the controller makes it.",
        (VirtualMachineSnapshotContentSpec, VirtualMachineSnapshotContentStatus),
        short_names=("vmsnapshotcontent", "vmsnapshotcontents"),
        columns=(
            column("ReadyToUse", ".status.readyToUse", type_="boolean"),
            column("CreationTime", ".status.creationTime", type_="date"),
            column("Error", ".status.error.message"),
        ),
    ),
    _kind(
        VirtualMachineRestore,
        "A snapshot that is put back once: into the VM that it was taken of, or into a new one.",
        (VirtualMachineRestoreSpec, VirtualMachineRestoreStatus),
        short_names=("vmrestore", "vmrestores"),
        required_spec=("target", "virtualMachineSnapshotName"),
        columns=(
            column("TargetKind", ".spec.target.kind"),
            column("TargetName", ".spec.target.name"),
            column("Complete", ".status.complete", type_="boolean"),
            column("RestoreTime", ".status.restoreTime", type_="date"),
        ),
    ),
)

_TIME: Final = "When that was."
SNAPSHOT_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "TypedReference": {
        "apiGroup": "kubevirt.io, or snapshot.kubevirt.io.",
        "kind": "VirtualMachine, or VirtualMachineSnapshot where a clone's source is one.",
        "name": "Its name.",
    },
    "SnapshotError": {"time": _TIME, "message": "What it was."},
    "SourceIndication": {"indication": "One word for it.", "message": "What it means."},
    "SnapshotVolumes": {
        "includedVolumes": "Volumes of which there is a copy.",
        "excludedVolumes": "Volumes of which nothing but their place in the spec is kept.",
    },
    "VirtualMachineSnapshotSpec": {
        "deletionPolicy": "Delete: the copies go with the snapshot; Retain: they stay. Delete unless given.",
        "failureDeadline": "After so long, such as 10m, a snapshot that is not complete fails; 0s for never. Unless "
        "given, it fails when copying has not begun within five minutes.",
    },
    "VirtualMachineSnapshotStatus": {
        "phase": "InProgress, then Succeeded or Failed; Deleting while it goes.",
        "readyToUse": "Whether it can be restored.",
        "creationTime": "The time that the copies show.",
        "sourceUID": "The UID of the VM.",
        "virtualMachineSnapshotContentName": "What holds it.",
        "conditions": "Whether it is ready, and what it waits for.",
        "indications": "Deprecated: as sourceIndications, without texts.",
        "sourceIndications": "How it was taken.",
    },
    "SnapshotSource": {"virtualMachine": "The VM."},
    "BackedUpClaim": {"metadata": "Its metadata.", "spec": "Its spec."},
    "VolumeBackup": {
        "volumeName": "The volume.",
        "volumeSnapshotName": "The claim that holds the copy; none for a volume of which only the spec is kept.",
    },
    "VirtualMachineSnapshotContentSpec": {
        "virtualMachineSnapshotName": "The snapshot that it was made for.",
        "volumeBackups": "The volumes that have a claim.",
    },
    "VolumeSnapshotStatus": {
        "volumeSnapshotName": "The claim that holds the copy.",
        "creationTime": "The time that the copy shows.",
        "readyToUse": "Whether the copy is complete.",
    },
    "VirtualMachineSnapshotContentStatus": {
        "creationTime": "The time that all copies show.",
        "readyToUse": "Whether all copies are complete.",
        "volumeSnapshotStatus": "Each copy.",
    },
    "VolumeRestoreOverride": {
        "volumeName": "The volume.",
        "restoreName": "The name of its new claim.",
        "labels": "Labels of the new claim.",
        "annotations": "Annotations of the new claim.",
    },
    "VirtualMachineRestoreSpec": {
        "virtualMachineSnapshotName": "The snapshot, in the same namespace.",
        "targetReadinessPolicy": "What becomes of a VM that runs: WaitGracePeriod waits five minutes for its end, "
        "WaitEventually waits, FailImmediate fails, StopTarget shuts it down. WaitGracePeriod unless given.",
        "volumeRestorePolicy": "How new claims are called: RandomizeNames by the restore, PrefixTargetName by the VM "
        "and the volume. RandomizeNames unless given.",
        "volumeOwnershipPolicy": "Vm: new disks go with the VM; None: they stay. Vm unless given.",
        "volumeRestoreOverrides": "Names, labels and annotations of single new claims.",
        "patches": "JSON patches, one operation each, of the VM that is made: below /spec, /metadata/labels and "
        "/metadata/annotations. They do not touch a VM that is there.",
    },
    "VolumeRestore": {
        "volumeName": "The volume.",
        "persistentVolumeClaim": "Its new claim.",
        "volumeSnapshotName": "The claim from which that is filled.",
        "dataVolumeName": "The DataVolume of a template that the new claim belongs to.",
    },
    "VirtualMachineRestoreStatus": {
        "complete": "Whether the VM has its disks and its spec back.",
        "restoreTime": "When that was.",
        "restores": "The new disks.",
        "deletedDataVolumes": "DataVolumes of the old disks, which have been deleted.",
        "inPlaceRecord": "kvedge's own: with InPlace, the claims and volumes as they were before.",
        "conditions": "Whether it is ready, and what it waits for.",
    },
}
