"""KubeVirt's kinds of backups: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.manifests.custom_kind import CustomKind, column
from kvedge.resources.types.protection.vm_backups import (
    VirtualMachineBackup,
    VirtualMachineBackupSpec,
    VirtualMachineBackupStatus,
    VirtualMachineBackupTracker,
    VirtualMachineBackupTrackerSpec,
    VirtualMachineBackupTrackerStatus,
)

VM_BACKUP_KINDS: Final[Sequence[CustomKind]] = (
    CustomKind(
        kind=VirtualMachineBackup.KIND,
        description="The disks of a running VM as they all are at one moment, or what has changed on them since the "
        "backup before, in a claim.",
        spec=VirtualMachineBackupSpec,
        status=VirtualMachineBackupStatus,
        short_names=("vmbackup", "vmbackups"),
        columns=(
            column("Source", ".spec.source.name"),
            column("Mode", ".spec.mode"),
            column("Type", ".status.type"),
            column("Complete", '.status.conditions[?(@.type=="Complete")].status'),
            column("Failed", '.status.conditions[?(@.type=="Failed")].status'),
            column("Age", ".metadata.creationTimestamp", type_="date"),
        ),
        has_status_subresource=True,
        required_spec=("source",),
        deprecated_versions=(),
    ),
    CustomKind(
        kind=VirtualMachineBackupTracker.KIND,
        description="Backups of one VM that follow on each other: each has what has changed since the one before.",
        spec=VirtualMachineBackupTrackerSpec,
        status=VirtualMachineBackupTrackerStatus,
        short_names=("vmbackuptracker", "vmbackuptrackers"),
        columns=(
            column("VirtualMachine", ".spec.source.name"),
            column("LatestCheckpoint", ".status.latestCheckpoint.name"),
            column("Age", ".metadata.creationTimestamp", type_="date"),
        ),
        has_status_subresource=True,
        required_spec=("source",),
        deprecated_versions=(),
    ),
)

VM_BACKUP_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "VirtualMachineBackupSpec": {
        "source": "A VirtualMachine, whose backup is a full one, or a VirtualMachineBackupTracker, whose backups "
        "follow on each other.",
        "mode": "Push, the default: images are written to the claim; Pull: they are served as well, until the backup "
        "is deleted or its time is over.",
        "pvcName": "The claim that the images go into, of mode Filesystem.",
        "skipQuiesce": "Whether the guest's file systems are left unfrozen.",
        "forceFullBackup": "Whether all of the disks is taken, whatever is known of changes.",
        "tokenSecretRef": "The Secret with the key `token`, by which clients of a Pull backup are known.",
        "ttlDuration": "For how long a Pull backup is served; 2h unless given.",
    },
    "BackupVolume": {
        "volumeName": "The volume.",
        "diskTarget": "The disk in the domain.",
        "dataEndpoint": "Where the bytes of its disk are served.",
        "mapEndpoint": "Where it is served which of them count.",
    },
    "VirtualMachineBackupStatus": {
        "type": "Full, or Incremental: with what has changed since the tracker's checkpoint alone.",
        "checkpointName": "How the moment of this backup is called.",
        "conditions": "Progressing, Complete, Failed, and whether the guest was Quiesced.",
        "includedVolumes": "The volumes that are in it.",
        "endpointCert": "The authority by which the endpoints are known, as PEM.",
        "exportUID": "The VirtualMachineExport that serves it.",
    },
    "CheckpointVolume": {"volumeName": "The volume.", "diskTarget": "The disk in the domain."},
    "BackupCheckpoint": {
        "name": "How it is called.",
        "creationTime": "When it was.",
        "volumes": "The volumes whose changes are noted since.",
    },
    "VirtualMachineBackupTrackerSpec": {"source": "The VirtualMachine."},
    "VirtualMachineBackupTrackerStatus": {
        "latestCheckpoint": "The moment of the last backup; without one the next backup is a full one.",
        "checkpointRedefinitionRequired": "Never set here: what is known of changes is known to the guest's QEMU.",
    },
}
