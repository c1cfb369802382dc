"""VirtualMachineInstanceReplicaSet: so many VMIs of one template (kubevirt.io/v1).

Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, LabelSelector, ObjectMeta
from kvedge.resources.types.vm import VirtualMachineInstanceTemplate

# How many there are when nobody says: the schema's default, and what an object without it means.
DEFAULT_REPLICAS = 1


class VirtualMachineInstanceReplicaSetSpec(KubeStruct, kw_only=True):
    """How many VMIs, of what, and by which labels they are known."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: VirtualMachineInstanceTemplate | None = None
    paused: bool = False


class VirtualMachineInstanceReplicaSetStatus(KubeStruct, kw_only=True):
    """How many there are; numbers are written also when they are 0."""

    replicas: int | None = None
    ready_replicas: int | None = None
    conditions: list[Condition] = []
    label_selector: str = ""


class VirtualMachineInstanceReplicaSet(KubeStruct, kw_only=True):
    """kubevirt.io/v1 VirtualMachineInstanceReplicaSet."""

    KIND: ClassVar[Kind] = Kind(
        "kubevirt.io", "v1", "VirtualMachineInstanceReplicaSet", "virtualmachineinstancereplicasets"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineInstanceReplicaSetSpec = field(default_factory=VirtualMachineInstanceReplicaSetSpec)
    status: VirtualMachineInstanceReplicaSetStatus = field(default_factory=VirtualMachineInstanceReplicaSetStatus)

    @property
    def replicas(self) -> int:
        """How many VMIs are wanted."""
        return DEFAULT_REPLICAS if self.spec.replicas is None else self.spec.replicas
