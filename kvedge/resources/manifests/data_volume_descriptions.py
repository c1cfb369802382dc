"""What `kubectl explain` says of DataVolumes and their like: a text for each field without a docstring of its own.

Read by field_descriptions.py. Touches nothing. Keys are the type's name, then the field as it is on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REFUSED: Final = (
    "Not supported: refused in a VM's dataVolumeTemplates; a DataVolume of its own stays Pending, and its condition "
    "says why."
)
_NO_EFFECT: Final = "Accepted for CDI's sake, without effect."
_URL: Final = "Where it is."
_SECRET: Final = "The Secret with accessKeyId and secretKey for it."
_CERTIFICATES: Final = "The ConfigMap with the authorities to trust, in PEM."
_MODES: Final = "How it may be used: ReadWriteOnce, ReadWriteMany, ReadOnlyMany or ReadWriteOncePod."
_MODE: Final = "Filesystem, with the image as a file, or Block."
_CLASS: Final = "The storage class; the default one unless given."
_FOREIGN: Final = "Who else fills the claim; kvedge then only waits."
_PREALLOCATION: Final = "Whether disks get all their blocks at once."
_STRATEGY: Final = _NO_EFFECT + " Claims are cloned by copying."
_FORMAT: Final = _NO_EFFECT + " DataImportCrons keep their images in claims."
_SNAPSHOTS: Final = _NO_EFFECT + " Nothing is cloned by snapshots."
_SETS: Final = "Access modes with their volume mode; the first set is the default."
_CONDITIONS: Final = "What holds of it."
_PROXY: Final = _NO_EFFECT + " Importers reach their sources directly."
_NOT_FILLED: Final = "Never filled."
_SCRATCH: Final = _NO_EFFECT + " Data is converted while it comes: there is no scratch space."

DATA_VOLUME_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "PersistentVolumeClaimSpec": {
        "accessModes": _MODES,
        "volumeMode": _MODE,
        "storageClassName": _CLASS,
        "volumeName": "The volume to take, instead of any that fits.",
        "selector": "Labels of the volumes that may be taken.",
        "dataSource": _FOREIGN,
        "dataSourceRef": _FOREIGN,
    },
    "StorageSpec": {
        "accessModes": _MODES + " From the StorageProfile unless given.",
        "volumeMode": _MODE + " From the StorageProfile unless given.",
        "storageClassName": _CLASS,
        "volumeName": "The volume to take, instead of any that fits.",
        "selector": "Labels of the volumes that may be taken.",
        "dataSource": _FOREIGN,
        "dataSourceRef": _FOREIGN,
    },
    "VolumeResources": {
        "requests": "How much, as storage. Of storage: the disk's size; of pvc: the claim's, file system included.",
        "limits": "How much at most, as storage.",
    },
    "DataVolumeSpec": {
        "contentType": "kubevirt for a disk's image, or archive for a tar that is unpacked into the claim.",
        "preallocation": _PREALLOCATION,
        "priorityClassName": "The priority of the worker's Pod.",
        "serviceAccountName": "The service account of the worker's Pod.",
        "checkpoints": _REFUSED,
        "finalCheckpoint": _REFUSED,
    },
    "DataVolumeOrigin": {"imageio": _REFUSED, "vddk": _REFUSED, "snapshot": _REFUSED},
    "DataVolumeSourceHttp": {
        "url": _URL,
        "secretRef": _SECRET,
        "certConfigMap": _CERTIFICATES,
        "extraHeaders": "Headers of the requests, as `Name: value`.",
        "secretExtraHeaders": "Secrets of which every key is such a header.",
        "checksum": "What the bytes must come to as they are sent: md5, sha1, sha256 or sha512, a colon, and the "
        "digits.",
        "insecureSkipVerify": "Whether the server's certificate is not looked at.",
    },
    "DataVolumeSourceS3": {"url": _URL, "secretRef": _SECRET, "certConfigMap": _CERTIFICATES},
    "DataVolumeSourceGcs": {"url": _URL, "secretRef": _SECRET},
    "DataVolumeSourceRegistry": {
        "url": "docker:// and the image.",
        "imageStream": _REFUSED,
        "pullMethod": "pod, or node; both are done by the worker.",
        "secretRef": _SECRET,
        "certConfigMap": _CERTIFICATES,
    },
    "RegistryPlatform": {"architecture": "amd64 or arm64; the node's own unless given."},
    "ObjectName": {"name": "Its name.", "namespace": "Its namespace."},
    "DataVolumeSourceRef": {
        "kind": "DataSource.",
        "name": "Its name.",
        "namespace": "Its namespace; that of the DataVolume unless given.",
    },
    "DataVolumeTemplate": {
        "apiVersion": "cdi.kubevirt.io/v1beta1, or left out.",
        "kind": "DataVolume, or left out.",
        "status": "Not used.",
    },
    "DataVolumeStatus": {
        "claimName": "The claim's name.",
        "phase": "Where it is: Pending, WaitForFirstConsumer, ImportInProgress, UploadReady …, and at last Succeeded "
        "or Failed.",
        "progress": "How much of the data is there, such as 12.34%; N/A while that is not known.",
        "restartCount": "How often the worker was started again.",
        "conditions": "What holds of it: Bound, Running and Ready.",
    },
    "CdiCondition": {
        "type": "What it is about, such as Ready or Running.",
        "status": "True, False or Unknown.",
        "reason": "Why, in one word that programs compare.",
        "message": "Why, in words for people.",
        "lastTransitionTime": "When its status last changed.",
        "lastHeartbeatTime": "When its reason or message last changed.",
    },
    "DataSourceName": {"name": "Its name.", "namespace": "Its namespace, which must be the same."},
    "DataSourceStatus": {"conditions": _CONDITIONS},
    "DataImportCronSpec": {
        "template": "The DataVolume of each import; its source is looked at: registry, http, s3 or gcs.",
        "schedule": "When its source is looked at, in five fields of cron and UTC; empty for on demand, by a new value "
        "of the annotation kvedge.io/poll-requested.",
        "managedDataSource": "The DataSource that points at the newest image that is complete.",
        "garbageCollect": "Outdated, which is the default, takes old imports away; Never keeps all of them.",
        "importsToKeep": "How many imports are kept, with the newest one; 3 unless given.",
        "retentionPolicy": "None has imports and DataSource go with the DataImportCron; All, the default, keeps them.",
        "createdBy": _NO_EFFECT,
    },
    "DataImportCronStatus": {
        "currentImports": "What is imported now, or was last.",
        "lastImportedPVC": "The newest image that is complete.",
        "lastExecutionTimestamp": "When the source was looked at last.",
        "lastImportTimestamp": "When an import was complete last.",
        "sourceFormat": "What the DataSource points at: pvc.",
        "conditions": _CONDITIONS,
    },
    "ImportStatus": {"DataVolumeName": "Its DataVolume.", "Digest": "The digest of its image."},
    "ClaimPropertySet": {"accessModes": _MODES, "volumeMode": _MODE},
    "StorageProfileSpec": {
        "claimPropertySets": _SETS,
        "cloneStrategy": _STRATEGY,
        "dataImportCronSourceFormat": _FORMAT,
        "snapshotClass": _SNAPSHOTS,
    },
    "StorageProfileStatus": {
        "storageClass": "The class.",
        "provisioner": "Who makes its volumes.",
        "claimPropertySets": _SETS,
        "cloneStrategy": _NOT_FILLED,
        "dataImportCronSourceFormat": _NOT_FILLED,
        "snapshotClass": _NOT_FILLED,
        "conditions": _CONDITIONS,
    },
    "FilesystemOverhead": {
        "global": "That of every class that is not named: from 0 to 1, with three decimals.",
        "storageClass": "That of a class, by its name.",
    },
    "ImportProxy": {
        "HTTPProxy": "The URL for http.",
        "HTTPSProxy": "The URL for https.",
        "noProxy": "Hosts that are reached without it.",
        "trustedCAProxy": "The ConfigMap with the authorities to trust.",
    },
    "CdiConfigSpec": {
        "uploadProxyURLOverride": "Where clients reach the upload proxy, when they know it by another name.",
        "preallocation": _PREALLOCATION,
        "insecureRegistries": "Registries, as host:port, that are spoken to without TLS.",
        "imagePullSecrets": _NO_EFFECT + " Workers' Pods need no image; a source's secretRef is for its registry.",
        "importProxy": _PROXY,
        "podResourceRequirements": "Requests and limits of workers.",
        "scratchSpaceStorageClass": _SCRATCH,
        "featureGates": _NO_EFFECT,
        "dataVolumeTTLSeconds": _NO_EFFECT + " A DataVolume stays until somebody deletes it.",
        "tlsSecurityProfile": _NO_EFFECT,
        "logVerbosity": _NO_EFFECT,
    },
    "CdiConfigStatus": {
        "uploadProxyURL": "Where clients reach the upload proxy.",
        "uploadProxyCA": "The authority of its certificate, in PEM.",
        "preallocation": _PREALLOCATION,
        "defaultPodResourceRequirements": "Requests and limits of workers.",
        "scratchSpaceStorageClass": _NOT_FILLED,
        "imagePullSecrets": _NOT_FILLED,
        "importProxy": _NOT_FILLED,
    },
}
