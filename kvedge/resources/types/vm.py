"""VirtualMachine: what should run, whether it runs now or not (kubevirt.io/v1).

Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.data_volumes import DataVolumeTemplate
from kvedge.resources.types.vmi import MigratedVolume, VirtualMachineInstanceSpec


class VirtualMachineInstanceTemplate(KubeStruct, kw_only=True):
    """What a VMI of this VM is made from."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineInstanceSpec = field(default_factory=VirtualMachineInstanceSpec)


class Matcher(KubeStruct, kw_only=True):
    """The instance type or the preference of a VM: by its name, or by what a volume says."""

    name: str = ""
    kind: str = ""
    revision_name: str = ""
    infer_from_volume: str = ""
    infer_from_volume_failure_policy: str | None = None


class VirtualMachineSpec(KubeStruct, kw_only=True):
    """What should run; exactly one of `running` and `run_strategy` is set."""

    template: VirtualMachineInstanceTemplate | None = None
    running: bool | None = None
    run_strategy: str | None = None
    instancetype: Matcher | None = None
    preference: Matcher | None = None
    data_volume_templates: list[DataVolumeTemplate] = []
    update_volumes_strategy: str | None = None


class StateChangeRequest(KubeStruct, kw_only=True):
    """A start or stop that somebody asked for."""

    action: str
    data: dict[str, str] = {}
    uid: str | None = None


class StartFailure(KubeStruct, kw_only=True):
    """Runs in a row that ended before they ran."""

    consecutive_fail_count: int = 0
    last_failed_vmi_uid: str = field(default="", name="lastFailedVMIUID")
    retry_after_timestamp: str | None = None


class VolumeMigrationState(KubeStruct, kw_only=True):
    """The claims that are exchanged while the guest runs; what is left of it says which disks are incomplete."""

    migrated_volumes: list[MigratedVolume] = []


class VolumeUpdateState(KubeStruct, kw_only=True):
    """How volumes of a running VM change."""

    volume_migration_state: VolumeMigrationState | None = None


class MemoryDumpRequest(KubeStruct, kw_only=True):
    """A dump of the guest's memory that somebody asked for, or that its claim is to be let go."""

    claim_name: str = ""
    phase: str = ""
    remove: bool = False
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    file_name: str | None = None
    message: str = ""


class ControllerRevisionRef(KubeStruct, kw_only=True):
    """The ControllerRevision that holds a VM's own copy."""

    name: str = ""


class InstancetypeStatusRef(KubeStruct, kw_only=True):
    """The instance type or preference that the VM has, and the copy of it that holds."""

    name: str = ""
    kind: str = ""
    infer_from_volume: str = ""
    infer_from_volume_failure_policy: str | None = None
    controller_revision_ref: ControllerRevisionRef | None = None


class VmBlockTracking(KubeStruct, kw_only=True):
    """Whether backups of the VM may have changed blocks alone."""

    state: str = ""


class VirtualMachineStatus(KubeStruct, kw_only=True):
    """What became of it."""

    created: bool = False
    ready: bool = False
    printable_status: str = ""
    conditions: list[Condition] = []
    state_change_requests: list[StateChangeRequest] = []
    start_failure: StartFailure | None = None
    observed_generation: int = 0
    desired_generation: int = 0
    run_strategy: str = ""
    snapshot_in_progress: str | None = None
    restore_in_progress: str | None = None
    volume_snapshot_statuses: list[JsonObject] = []
    volume_update_state: VolumeUpdateState | None = None
    memory_dump_request: MemoryDumpRequest | None = None
    instancetype_ref: InstancetypeStatusRef | None = None
    preference_ref: InstancetypeStatusRef | None = None
    changed_block_tracking: VmBlockTracking | None = None


class VirtualMachine(KubeStruct, kw_only=True):
    """kubevirt.io/v1 VirtualMachine."""

    KIND: ClassVar[Kind] = Kind("kubevirt.io", "v1", "VirtualMachine", "virtualmachines")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineSpec = field(default_factory=VirtualMachineSpec)
    status: VirtualMachineStatus = field(default_factory=VirtualMachineStatus)

    @property
    def run_strategy(self) -> str:
        """The run strategy, `running` translated."""
        if self.spec.run_strategy:
            return self.spec.run_strategy
        return "Always" if self.spec.running else "Halted"
