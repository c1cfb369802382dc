"""Instance types: sizes of VMs, for one namespace and for all.

Roles read them as documents, so that nothing is lost which a type does not know; admission and the CRDs go by these
types. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.domain import Hugepages, IoThreads, Numa
from kvedge.resources.values.quantities import Quantity

INSTANCETYPE_GROUP: Final = "instancetype.kubevirt.io"
INSTANCETYPE_VERSION: Final = "v1beta1"


class CpuInstancetype(KubeStruct, kw_only=True):
    """The vCPUs of an instance type."""

    guest: int
    model: str | None = None
    dedicated_cpu_placement: bool | None = field(default=None, name="dedicatedCPUPlacement")
    numa: Numa | None = None
    isolate_emulator_thread: bool | None = None
    realtime: JsonObject | None = None
    max_sockets: int | None = None


class MemoryInstancetype(KubeStruct, kw_only=True):
    """The memory of an instance type."""

    guest: Quantity
    hugepages: Hugepages | None = None
    overcommit_percent: int = 0
    max_guest: Quantity | None = None


class VirtualMachineInstancetypeSpec(KubeStruct, kw_only=True):
    """What a VM of this type has; the VM must not say it itself."""

    cpu: CpuInstancetype
    memory: MemoryInstancetype
    node_selector: dict[str, str] | None = None
    scheduler_name: str = ""
    gpus: list[JsonObject] = []
    host_devices: list[JsonObject] = []
    io_threads_policy: str | None = None
    io_threads: IoThreads | None = None
    launch_security: JsonObject | None = None
    annotations: dict[str, str] = {}


class VirtualMachineInstancetype(KubeStruct, kw_only=True):
    """instancetype.kubevirt.io/v1beta1 VirtualMachineInstancetype: an instance type of one namespace."""

    KIND: ClassVar[Kind] = Kind(
        INSTANCETYPE_GROUP, INSTANCETYPE_VERSION, "VirtualMachineInstancetype", "virtualmachineinstancetypes"
    )
    spec: VirtualMachineInstancetypeSpec
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class VirtualMachineClusterInstancetype(KubeStruct, kw_only=True):
    """instancetype.kubevirt.io/v1beta1 VirtualMachineClusterInstancetype: an instance type for every namespace."""

    KIND: ClassVar[Kind] = Kind(
        INSTANCETYPE_GROUP,
        INSTANCETYPE_VERSION,
        "VirtualMachineClusterInstancetype",
        "virtualmachineclusterinstancetypes",
        namespaced=False,
    )
    spec: VirtualMachineInstancetypeSpec
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
