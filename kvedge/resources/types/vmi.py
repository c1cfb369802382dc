"""VirtualMachineInstance: one run of a VM (kubevirt.io/v1).

It has no status subresource: status is written through the object itself, by the controller until the phase is
Scheduled and by the handler of `status.node_name` from then on. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.phases import FINAL_PHASES, Phase
from kvedge.resources.types.core import PodResourceClaim
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.probes import Probe
from kvedge.resources.types.volumes import Network, Volume
from kvedge.resources.values.quantities import Quantity


class UtilityVolume(KubeStruct, kw_only=True):
    """A claim that comes to a guest's launcher and is no disk of the guest; only kvedge's controller adds one."""

    name: str
    claim_name: str = ""
    read_only: bool = False
    type: Literal["", "Backup", "MemoryDump"] = ""


class VirtualMachineInstanceSpec(KubeStruct, kw_only=True):
    """What the run should be."""

    domain: DomainSpec = field(default_factory=DomainSpec)
    volumes: list[Volume] = []
    networks: list[Network] = []
    access_credentials: list[JsonObject] = []
    node_selector: dict[str, str] = {}
    affinity: JsonObject | None = None
    tolerations: list[JsonObject] = []
    topology_spread_constraints: list[JsonObject] = []
    priority_class_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    eviction_strategy: str | None = None
    start_strategy: str | None = None
    termination_grace_period_seconds: int | None = None
    hostname: str = ""
    subdomain: str = ""
    dns_policy: str = ""
    dns_config: JsonObject | None = None
    architecture: str = ""
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    resource_claims: list[PodResourceClaim] = []
    utility_volumes: list[UtilityVolume] = []


class PhaseTransition(KubeStruct, kw_only=True):
    """When a phase was entered."""

    phase: Phase
    phase_transition_timestamp: str


# Parts of an interface's infoSource: the Pod has joined the network; the guest has the NIC.
MULTUS_STATUS: Final = "multus-status"
DOMAIN_SOURCE: Final = "domain"


class InterfaceStatus(KubeStruct, kw_only=True):
    """One NIC as seen from outside and, with an agent, from inside."""

    name: str = ""
    mac: str = ""
    ip_address: str = ""
    ip_addresses: list[str] = []
    interface_name: str = ""
    pod_interface_name: str = ""
    info_source: str = ""
    queue_count: int = 0
    link_state: str = ""

    @property
    def sources(self) -> list[str]:
        """The parts of `infoSource`."""
        return self.info_source.split(", ") if self.info_source else []


class ClaimInfo(KubeStruct, kw_only=True):
    """What handler and launcher know of a volume's claim: they decide from this copy, and never ask for the claim.

    `capacity` and `requests` have the key `storage`; `filesystem_overhead` is a fraction such as "0.055".
    """

    claim_name: str = ""
    access_modes: list[str] = []
    volume_mode: str | None = None
    capacity: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    preallocated: bool = False
    filesystem_overhead: str | None = None


class MigratedVolume(KubeStruct, kw_only=True):
    """A volume whose claim is exchanged when the guest moves: the claim that it has, and the one that it gets."""

    volume_name: str
    source_pvc_info: ClaimInfo | None = field(default=None, name="sourcePVCInfo")
    destination_pvc_info: ClaimInfo | None = field(default=None, name="destinationPVCInfo")


class HotplugVolumeStatus(KubeStruct, kw_only=True):
    """The attachment Pod of a hotplugged volume; the UID is there once its container is ready."""

    attach_pod_name: str = ""
    attach_pod_uid: str = field(default="", name="attachPodUID")


class MemoryDumpVolumeStatus(KubeStruct, kw_only=True):
    """A dump of the guest's memory: the file in the claim, and from when to when it was written."""

    claim_name: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    target_file_name: str = ""


class VolumeStatus(KubeStruct, kw_only=True):
    """One volume; `target` is always on the wire."""

    name: str
    target: str
    phase: str = ""
    reason: str = ""
    message: str = ""
    size: int = 0
    persistent_volume_claim_info: ClaimInfo | None = None
    hotplug_volume: HotplugVolumeStatus | None = None
    memory_dump_volume: MemoryDumpVolumeStatus | None = None


class CopiedVolume(KubeStruct, kw_only=True):
    """A volume whose disk is copied, and the utility volume that the copy goes into."""

    volume_name: str
    # Empty for a volume of a backup: these have one target.
    copy_name: str = ""


class BackupOrder(KubeStruct, kw_only=True):
    """A backup that the copied disks go into: the utility volume, where in it, and which changes count."""

    target: str
    directory: str
    prefix: str
    checkpoint: str = ""
    since: str = ""
    kept_checkpoints: list[str] = []
    skip_quiesce: bool = False


class DiskCopyRequest(KubeStruct, kw_only=True):
    """Disks of the running guest that are to be copied as they all are at one moment; once for each name."""

    name: str
    volumes: list[CopiedVolume] = []
    # The utility volume that the guest's memory goes into; empty: it is not saved.
    memory: str = ""
    backup: BackupOrder | None = None


class BackupStatus(KubeStruct, kw_only=True):
    """How far the copy of disks is that was asked for; `startTimestamp` is its moment. The fields are KubeVirt's, but
    for the last: how long the guest stood while its memory was saved.
    """

    backup_name: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    completed: bool = False
    failed: bool = False
    backup_msg: str | None = None
    quiesce_status: str = ""
    checkpoint_name: str | None = None
    backup_type: str = ""
    downtime_milliseconds: int = 0


class ChangedBlockTracking(KubeStruct, kw_only=True):
    """Whether backups may have changed blocks alone, which the controller says, and what becomes of them."""

    state: str = ""
    backup_status: BackupStatus | None = None


class GuestOsInfo(KubeStruct, kw_only=True):
    """What the guest agent says of the guest."""

    name: str = ""
    id: str = ""
    version: str = ""
    version_id: str = ""
    pretty_name: str = ""
    kernel_release: str = ""
    kernel_version: str = ""
    machine: str = ""


class CpuTopology(KubeStruct, kw_only=True):
    """The topology the guest runs with."""

    cores: int = 0
    sockets: int = 0
    threads: int = 0


class MemoryStatus(KubeStruct, kw_only=True):
    """Guest memory as quantities; `memory_overhead` is what kvedge adds per VM."""

    guest_at_boot: Quantity | None = None
    guest_current: Quantity | None = None
    guest_requested: Quantity | None = None
    memory_overhead: Quantity | None = None


class PodRoom(KubeStruct, kw_only=True):
    """For how large a guest its Pod on `node` has room once vCPUs or memory have changed while it runs; kvedge's own.

    `reason` and `message` say what keeps the Pod from what the guest is to have. The memory limit of a Pod whose VMI
    says none stays so far above its request (`limit_above`). The node has failed to resize the Pod since
    `failing_since`, an RFC 3339 time. A reason for another Pod is said of a guest of `for_vcpus` and `for_memory`.
    """

    node: str = ""
    vcpus: int = 0
    memory: Quantity | None = None
    limit_above: Quantity | None = None
    reason: str = ""
    message: str = ""
    failing_since: str | None = None
    for_vcpus: int | None = None
    for_memory: Quantity | None = None


class MachineStatus(KubeStruct, kw_only=True):
    """The machine type as libvirt expanded it."""

    type: str = ""


class TopologyHints(KubeStruct, kw_only=True):
    """What a run's guest was told of its host, for its whole run."""

    # In Hz.
    tsc_frequency: int | None = field(default=None, name="tscFrequency")


class VirtualMachineInstanceStatus(KubeStruct, kw_only=True):
    """What the run is."""

    phase: Phase = ""
    phase_transition_timestamps: list[PhaseTransition] = []
    reason: str = ""
    node_name: str = ""
    conditions: list[Condition] = []
    interfaces: list[InterfaceStatus] = []
    volume_status: list[VolumeStatus] = []
    guest_os_info: GuestOsInfo | None = field(default=None, name="guestOSInfo")
    active_pods: dict[str, str] = {}
    qos_class: str | None = None
    runtime_user: int = 0
    launcher_container_image_version: str = ""
    migration_method: str = ""
    migration_transport: str = ""
    migration_state: MigrationState | None = None
    # Written by the controller that acts for the VM; the handler that takes the VMI over makes it empty in that write.
    migrated_volumes: list[MigratedVolume] = []
    # The node that its guest is to leave, as an eviction asked.
    evacuation_node_name: str = ""
    virtual_machine_revision_name: str = ""
    # By which the guest is reached over vsock; the controller's, for the whole run.
    vsock_cid: int | None = field(name="VSOCKCID", default=None)
    # Written by the controller at the hand-over.
    topology_hints: TopologyHints | None = None
    selinux_context: str = ""
    current_cpu_topology: CpuTopology | None = field(default=None, name="currentCPUTopology")
    memory: MemoryStatus | None = None
    # Written by the controller alone: the handler lets the guest grow as far as its Pod has.
    pod_room: PodRoom | None = None
    machine: MachineStatus | None = None
    fs_freeze_status: str = ""
    # Written by the controller alone, and answered by the handler in `changed_block_tracking`.
    disk_copy: DiskCopyRequest | None = None
    changed_block_tracking: ChangedBlockTracking | None = None


class VirtualMachineInstance(KubeStruct, kw_only=True):
    """kubevirt.io/v1 VirtualMachineInstance."""

    KIND: ClassVar[Kind] = Kind("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineInstanceSpec = field(default_factory=VirtualMachineInstanceSpec)
    status: VirtualMachineInstanceStatus = field(default_factory=VirtualMachineInstanceStatus)

    @property
    def backup_status(self) -> BackupStatus | None:
        """How far the copy is that is asked for now; None when none is, or nothing is known of it."""
        wanted, tracking = self.status.disk_copy, self.status.changed_block_tracking
        found = None if tracking is None else tracking.backup_status
        return found if wanted is not None and found is not None and found.backup_name == wanted.name else None

    @property
    def is_final(self) -> bool:
        """Whether the run has ended for good."""
        return self.status.phase in FINAL_PHASES

    @property
    def has_ever_run(self) -> bool:
        """Whether the phase Running was ever entered: start failures are counted only when it was not."""
        return any(entry.phase == "Running" for entry in self.status.phase_transition_timestamps)
