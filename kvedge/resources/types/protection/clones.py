"""Clones of virtual machines (clone.kubevirt.io/v1beta1).

Touches nothing. Names on the wire are KubeVirt's.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.protection.snapshots import TypedReference

CLONE_GROUP: Final = "clone.kubevirt.io"
# The one that is stored, and the older one, which is the same.
CLONE_VERSIONS: Final = ("v1beta1", "v1alpha1")

ClonePhase = Literal[
    "", "SnapshotInProgress", "RestoreInProgress", "CreatingTargetVM", "Succeeded", "Failed", "Unknown"
]


class CloneTemplateFilters(KubeStruct, kw_only=True):
    """Which labels and annotations of the VM's template the clone's has, too."""

    annotation_filters: list[str] | None = None
    label_filters: list[str] | None = None


class VirtualMachineCloneSpec(KubeStruct, kw_only=True):
    """What is cloned, what it is called, and what is different about it; it cannot be changed."""

    source: TypedReference | None = None
    target: TypedReference | None = None
    annotation_filters: list[str] | None = None
    label_filters: list[str] | None = None
    template: CloneTemplateFilters | None = None
    new_mac_addresses: dict[str, str] = {}
    new_smbios_serial: str | None = field(default=None, name="newSMBiosSerial")
    patches: list[str] = []
    volume_name_policy: str | None = None


class VirtualMachineCloneStatus(KubeStruct, kw_only=True):
    """How far it is."""

    phase: ClonePhase = ""
    creation_time: str | None = None
    conditions: list[Condition] = []
    snapshot_name: str | None = None
    restore_name: str | None = None
    target_name: str | None = None


class VirtualMachineClone(KubeStruct, kw_only=True):
    """clone.kubevirt.io/v1beta1 VirtualMachineClone: a VM, or a snapshot of one, becomes another VM."""

    KIND: ClassVar[Kind] = Kind(CLONE_GROUP, CLONE_VERSIONS[0], "VirtualMachineClone", "virtualmachineclones")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineCloneSpec = field(default_factory=VirtualMachineCloneSpec)
    status: VirtualMachineCloneStatus = field(default_factory=VirtualMachineCloneStatus)

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status.phase in ("Succeeded", "Failed")
