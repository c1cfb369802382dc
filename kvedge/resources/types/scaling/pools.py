"""VirtualMachinePool: so many VMs of one template, each with a number in its name (pool.kubevirt.io/v1beta1).

Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, LabelSelector, ObjectMeta
from kvedge.resources.types.vm import VirtualMachineSpec

POOL_GROUP: Final = "pool.kubevirt.io"
POOL_FINALIZER: Final = "pool.kubevirt.io/finalizer"
# On VMs and VMIs: the revision of the pool that they are made of.
REVISION_LABEL: Final = "kubevirt.io/vm-pool-revision-name"
# On a pool's revisions: by it they are told from those of VMs and of other controllers.
REVISION_OF_POOL: Final = "kvedge.io/revision-of-pool"

SortPolicy = Literal["Random", "AscendingOrder", "DescendingOrder", "Newest", "Oldest"]
StatePreservation = Literal["Disabled", "Offline", "Online"]


class VirtualMachineTemplate(KubeStruct, kw_only=True):
    """What the VMs of a pool are made from."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineSpec = field(default_factory=VirtualMachineSpec)


class PoolNameGeneration(KubeStruct, kw_only=True):
    """Which names of other objects get the VM's number, too."""

    append_index_to_config_map_refs: bool = False
    append_index_to_secret_refs: bool = False


class PoolUnmanaged(KubeStruct, kw_only=True):
    """Nothing is done by the pool: the user does it."""


class PoolOpportunisticUpdate(KubeStruct, kw_only=True):
    """VMs are changed, and their guests find it with their next start."""


class PoolSelectors(KubeStruct, kw_only=True):
    """VMs that come first, by the labels and the nodeSelector of their template."""

    label_selector: LabelSelector | None = None
    node_selector_requirement_matcher: list[JsonObject] = []


class PoolSelectionPolicy(KubeStruct, kw_only=True):
    """In which order VMs are taken."""

    sort_policy: SortPolicy | None = None
    selectors: PoolSelectors | None = None


class PoolProactiveUpdate(KubeStruct, kw_only=True):
    """VMs are changed, and their guests are restarted."""

    selection_policy: PoolSelectionPolicy | None = None


class PoolUpdateStrategy(KubeStruct, kw_only=True):
    """What a change of the template does to VMs; one of the three, proactive unless given."""

    unmanaged: PoolUnmanaged | None = None
    opportunistic: PoolOpportunisticUpdate | None = None
    proactive: PoolProactiveUpdate | None = None


class PoolOpportunisticScaleIn(KubeStruct, kw_only=True):
    """VMs go when the user deletes them."""

    state_preservation: StatePreservation | None = None


class PoolProactiveScaleIn(KubeStruct, kw_only=True):
    """VMs are deleted when there are too many."""

    selection_policy: PoolSelectionPolicy | None = None
    state_preservation: StatePreservation | None = None


class PoolScaleInStrategy(KubeStruct, kw_only=True):
    """How the pool gets smaller; one of the three, proactive unless given."""

    unmanaged: PoolUnmanaged | None = None
    opportunistic: PoolOpportunisticScaleIn | None = None
    proactive: PoolProactiveScaleIn | None = None


class PoolAutohealing(KubeStruct, kw_only=True):
    """Which VMs that do not start are made anew."""

    start_up_failure_threshold: int | None = None
    min_failing_to_start_duration: str | None = None


class VirtualMachinePoolSpec(KubeStruct, kw_only=True):
    """How many VMs, of what, and how they change."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    virtual_machine_template: VirtualMachineTemplate | None = None
    paused: bool = False
    name_generation: PoolNameGeneration | None = None
    max_unavailable: int | str | None = None
    scale_in_strategy: PoolScaleInStrategy | None = None
    update_strategy: PoolUpdateStrategy | None = None
    autohealing: PoolAutohealing | None = None


class VirtualMachinePoolStatus(KubeStruct, kw_only=True):
    """How many there are; numbers are written also when they are 0."""

    replicas: int | None = None
    ready_replicas: int | None = None
    conditions: list[Condition] = []
    label_selector: str = ""


class VirtualMachinePool(KubeStruct, kw_only=True):
    """pool.kubevirt.io/v1beta1 VirtualMachinePool."""

    KIND: ClassVar[Kind] = Kind(POOL_GROUP, "v1beta1", "VirtualMachinePool", "virtualmachinepools")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachinePoolSpec = field(default_factory=VirtualMachinePoolSpec)
    status: VirtualMachinePoolStatus = field(default_factory=VirtualMachinePoolStatus)

    @property
    def replicas(self) -> int:
        """How many VMs are wanted."""
        return 1 if self.spec.replicas is None else self.spec.replicas
