"""Live migrations: one job, what a VMI says of its latest one, and policies (kubevirt.io/v1, migrations.kubevirt.io).

Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.kubevirt_configuration import MigrationConfiguration
from kvedge.resources.values.quantities import Quantity

MIGRATIONS_GROUP: Final = "migrations.kubevirt.io"
# The longest that a guest may be asked to stand still is more than half an hour; QEMU takes no more.
DOWNTIME_MS: Final = (1, 2_000_000)
MIGRATION_FINALIZER: Final = "kubevirt.io/migrationJobFinalize"
# On a migration: the VMI that it moves, for those who list.
VMI_NAME_LABEL: Final = "kubevirt.io/vmi-name"
# On a launcher Pod that a guest comes to: the UID of the migration, and, as an annotation, its name.
MIGRATION_JOB_UID: Final = "kubevirt.io/migrationJobUID"
MIGRATION_JOB_NAME: Final = "kubevirt.io/migrationJobName"

MigrationPhase = Literal[
    "", "Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded", "Failed"
]
FINAL_MIGRATION_PHASES: Final[frozenset[MigrationPhase]] = frozenset({"Succeeded", "Failed"})
MigrationPriority = Literal["system-critical", "user-triggered", "system-maintenance"]
AbortStatus = Literal["", "Aborting", "Succeeded", "Failed"]


class PeerState(KubeStruct, kw_only=True):
    """What one box knows of the other one while a guest moves between them; the handler writes what it has heard.

    Of the source: `disks` and `images` are the bytes of disks that are copied, and of ISOs, by their volumes; `paused`
    that a user has paused the guest. Of the target: `sync_address` is where it is reached; `unwanted` that somebody
    there wants the guest to stay, `failed` and `reason` that it does not come. `over` that nothing is left to say.
    """

    node: str = ""
    virtual_machine_instance_uid: str = field(default="", name="virtualMachineInstanceUID")
    sync_address: str = ""
    disks: dict[str, int] = {}
    images: dict[str, int] = {}
    paused: bool = False
    unwanted: bool = False
    failed: bool = False
    reason: str = ""
    over: bool = False


class MigrationState(KubeStruct, kw_only=True):
    """`status.migrationState` of a VMI: its latest migration. Times are RFC 3339; each field has one writer.

    The controller writes, at once when it hands over: the UID, nodes, Pods, policy and configuration; later
    `abort_requested`, and `source_pod_gone_timestamp` once the source's Pod is proven to run nothing any more.

    The source's handler: `start_timestamp`, `mode`, `abort_status`, and `source_node_domain_gone_timestamp`, which says
    that nothing of the guest is left there and that it did not end. If the guest stays there: `failed`, `completed`,
    `end_timestamp` and `failure_reason`. Both words stay true, and never come together.

    The target's handler: `target_node_address` when it listens, `target_node_domain_detected` and
    `target_node_domain_ready_timestamp`; `completed` and `end_timestamp` in the same write as the VMI's new node.
    Once the source is gone and the guest cannot run here: `failed`, `completed`, `end_timestamp` and `failure_reason`.

    Between two boxes each has a VMI of its own. One has `target_state` and the other one `source_state`, and its
    handler also writes the other handler's part, as it has heard it. `target_taken_timestamp` says that the guest is
    the target's, whatever becomes of it; it is written before the guest runs there. Within a cluster it is written
    where the state of TPM and firmware has come to another claim: from then on that claim is the VM's.
    """

    migration_uid: str = ""
    source_node: str = ""
    target_node: str = ""
    source_pod: str = ""
    target_pod: str = ""
    # The Pod that holds the hotplugged volumes there: KubeVirt's is one for all, ours the first of all.
    target_attachment_pod_uid: str = field(default="", name="targetAttachmentPodUID")
    # The claims with the state of TPM and firmware, where the target has another one.
    source_persistent_state_pvc_name: str = field(default="", name="sourcePersistentStatePVCName")
    target_persistent_state_pvc_name: str = field(default="", name="targetPersistentStatePVCName")
    migration_policy_name: str | None = None
    migration_configuration: MigrationConfiguration | None = None
    abort_requested: bool = False
    abort_status: AbortStatus = ""
    # The relay of the target's handler: address and port.
    target_node_address: str = ""
    target_node_domain_detected: bool = False
    target_node_domain_ready_timestamp: str | None = None
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    mode: str = ""
    completed: bool = False
    failed: bool = False
    failure_reason: str = ""
    # Ours. The UIDs of the target's attachment Pods, by the volumes that the guest has when it is handed over.
    target_attachment_pods: dict[str, str] = {}
    source_node_domain_gone_timestamp: str | None = None
    source_pod_gone_timestamp: str | None = None
    target_taken_timestamp: str | None = None
    source_state: PeerState | None = None
    target_state: PeerState | None = None

    @property
    def is_unwanted(self) -> bool:
        """Whether somebody wants the guest to stay where it is, on this box or on the one that it moves to."""
        peer = self.target_state
        is_refused = peer is not None and (peer.unwanted or peer.failed) and not self.target_taken_timestamp
        return self.abort_requested or is_refused

    @property
    def moves_state(self) -> bool:
        """Whether the state of TPM and firmware is brought to another claim."""
        return bool(self.target_persistent_state_pvc_name)

    @property
    def has_left_box(self) -> bool:
        """Whether the guest is another box's by now."""
        return self.target_state is not None and self.completed and not self.failed

    @property
    def is_open(self) -> bool:
        """Whether its outcome is not recorded yet."""
        return bool(self.migration_uid) and not self.completed and not self.failed

    def may_have_left(self, node: str) -> bool:
        """Whether the guest of a VMI of this node may be elsewhere: that it begins to move is written before."""
        return self.is_open and self.source_node == node and self.start_timestamp is not None


# As they are on the wire: what of it only the controller writes, only the source's handler, and only the target's.
CONTROLLERS_PART: Final = (
    "migrationUid",
    "sourceNode",
    "targetNode",
    "sourcePod",
    "targetPod",
    "targetAttachmentPodUID",
    "targetAttachmentPods",
    "sourcePersistentStatePVCName",
    "targetPersistentStatePVCName",
    "migrationPolicyName",
    "migrationConfiguration",
    "abortRequested",
    "sourcePodGoneTimestamp",
)
SOURCES_PART: Final = ("startTimestamp", "mode", "abortStatus", "sourceNodeDomainGoneTimestamp")
TARGETS_PART: Final = (
    "targetNodeAddress",
    "targetNodeDomainDetected",
    "targetNodeDomainReadyTimestamp",
    "targetTakenTimestamp",
)
# How it ended. That the guest stayed, or is lost, is the source's to say, and the target's once the source is gone. The
# target alone says that it has moved, by the write that takes the VMI over.
ENDS_PART: Final = ("completed", "failed", "endTimestamp", "failureReason")
# Each of them says that nothing of the guest is left at the source: without one the target never takes a VMI over.
SOURCE_IS_GONE: Final = ("sourceNodeDomainGoneTimestamp", "sourcePodGoneTimestamp")


class MigrationPhaseTransition(KubeStruct, kw_only=True):
    """When a phase was entered."""

    phase: MigrationPhase
    phase_transition_timestamp: str


class MigrationEnd(KubeStruct, kw_only=True):
    """One half of a migration between clusters."""

    migration_id: str = field(default="", name="migrationID")
    connect_url: str = field(default="", name="connectURL")


class VirtualMachineInstanceMigrationSpec(KubeStruct, kw_only=True):
    """Which VMI is to move, and where to."""

    vmi_name: str = ""
    added_node_selector: dict[str, str] = {}
    priority: MigrationPriority | None = None
    send_to: MigrationEnd | None = None
    receive: MigrationEnd | None = None

    @property
    def shared_id(self) -> str:
        """What two boxes call a migration between them; empty for one within a cluster."""
        end = self.send_to or self.receive
        return "" if end is None else end.migration_id


class VirtualMachineInstanceMigrationStatus(KubeStruct, kw_only=True):
    """How far it is; `migration_state` is the VMI's, copied when the migration has ended."""

    phase: MigrationPhase = ""
    conditions: list[Condition] = []
    phase_transition_timestamps: list[MigrationPhaseTransition] = []
    migration_state: MigrationState | None = None


class VirtualMachineInstanceMigration(KubeStruct, kw_only=True):
    """kubevirt.io/v1 VirtualMachineInstanceMigration."""

    KIND: ClassVar[Kind] = Kind(
        "kubevirt.io", "v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineInstanceMigrationSpec = field(default_factory=VirtualMachineInstanceMigrationSpec)
    status: VirtualMachineInstanceMigrationStatus = field(default_factory=VirtualMachineInstanceMigrationStatus)

    @property
    def job(self) -> str:
        """What VMI, Pods and launchers know it by: its UID, or what both boxes call it."""
        return self.spec.shared_id or self.metadata.uid

    @property
    def is_final(self) -> bool:
        """Whether it has ended for good."""
        return self.status.phase in FINAL_MIGRATION_PHASES


class PolicySelectors(KubeStruct, kw_only=True):
    """VMIs that a policy is for: by labels of their namespace, and their own. Without either, none."""

    namespace_selector: dict[str, str] | None = None
    virtual_machine_instance_selector: dict[str, str] | None = None

    @property
    def is_for_no_vmi(self) -> bool:
        """Whether neither is given; as in KubeVirt, one that is given and has no labels is for all VMIs."""
        return self.namespace_selector is None and self.virtual_machine_instance_selector is None


class MigrationPolicySpec(KubeStruct, kw_only=True):
    """What it changes of the KubeVirt object's configuration of migrations."""

    selectors: PolicySelectors | None = None
    allow_auto_converge: bool | None = None
    bandwidth_per_migration: Quantity | None = None
    completion_timeout_per_gib: int | None = field(default=None, name="completionTimeoutPerGiB")
    allow_post_copy: bool | None = None
    allow_workload_disruption: bool | None = None
    max_downtime_ms: int | None = None
    experimental: JsonObject | None = None


class MigrationPolicyStatus(KubeStruct, kw_only=True):
    """Nothing: a policy is only read."""


class MigrationPolicy(KubeStruct, kw_only=True):
    """migrations.kubevirt.io/v1alpha1 MigrationPolicy."""

    KIND: ClassVar[Kind] = Kind(MIGRATIONS_GROUP, "v1alpha1", "MigrationPolicy", "migrationpolicies", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: MigrationPolicySpec = field(default_factory=MigrationPolicySpec)
    status: MigrationPolicyStatus = field(default_factory=MigrationPolicyStatus)
