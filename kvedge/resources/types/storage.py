"""Claims, volumes and storage classes: what VMs' lasting disks are made of (core/v1, storage.k8s.io/v1).

Only the fields that kvedge uses are typed: decoding drops the rest, so these kinds are changed by patches only.
Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta, ObjectReference
from kvedge.resources.values.quantities import Quantity

BLOCK: Final = "Block"
FILESYSTEM: Final = "Filesystem"
READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_WRITE_MANY: Final = "ReadWriteMany"
READ_ONLY_MANY: Final = "ReadOnlyMany"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
# Who makes the volumes of one box, and takes snapshots of them.
BOX_PROVISIONER: Final = "kvedge.io/box"


class VolumeResources(KubeStruct, kw_only=True):
    """How much is asked for; the key is `storage`."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class PersistentVolumeClaimSpec(KubeStruct, kw_only=True):
    """What is claimed. No class (None) means the default one; the empty name is no class at all."""

    access_modes: list[str] = []
    resources: VolumeResources = field(default_factory=VolumeResources)
    volume_mode: str | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    selector: JsonObject | None = None
    data_source: JsonObject | None = None
    data_source_ref: JsonObject | None = None


class PersistentVolumeClaimStatus(KubeStruct, kw_only=True):
    """What became of it: Pending, Bound or Lost."""

    phase: str = ""
    access_modes: list[str] = []
    capacity: dict[str, Quantity] = {}
    allocated_resources: dict[str, Quantity] = {}
    conditions: list[Condition] = []


class PersistentVolumeClaim(KubeStruct, kw_only=True):
    """core/v1 PersistentVolumeClaim."""

    KIND: ClassVar[Kind] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)

    @property
    def is_block(self) -> bool:
        """Whether it is a device and not a file system; without a word it is a file system."""
        return self.spec.volume_mode == BLOCK


class LocalVolume(KubeStruct, kw_only=True):
    """A directory or device of one node."""

    path: str
    fs_type: str | None = None


class HostPathSource(KubeStruct, kw_only=True):
    """A path of whichever node uses it."""

    path: str
    type: str | None = None


class PersistentVolumeSpec(KubeStruct, kw_only=True):
    """What there is; exactly one source is set, and those that kvedge does not read are dropped."""

    capacity: dict[str, Quantity] = {}
    access_modes: list[str] = []
    volume_mode: str | None = None
    storage_class_name: str = ""
    persistent_volume_reclaim_policy: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: JsonObject | None = None
    local: LocalVolume | None = None
    host_path: HostPathSource | None = None
    csi: JsonObject | None = None


class PersistentVolumeStatus(KubeStruct, kw_only=True):
    """What became of it: Pending, Available, Bound, Released or Failed."""

    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(KubeStruct, kw_only=True):
    """core/v1 PersistentVolume."""

    KIND: ClassVar[Kind] = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class StorageClass(KubeStruct, kw_only=True):
    """storage.k8s.io/v1 StorageClass; without a binding mode it binds at once."""

    KIND: ClassVar[Kind] = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allow_volume_expansion: bool | None = None
