"""The core kinds that kvedge's roles read and write: Pod, Node, Secret, Event and their like.

Only the fields that kvedge uses are typed: decoding drops the rest, so these kinds are changed by patches only.
Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, LocalObjectReference, ObjectMeta, ObjectReference
from kvedge.resources.values.quantities import Quantity


class KeyToPath(KubeStruct, kw_only=True):
    """One key of a Secret or ConfigMap and the relative path it is written to."""

    key: str
    path: str
    mode: int | None = None


class HostPathVolume(KubeStruct, kw_only=True):
    """A directory or file of the host."""

    path: str
    type: str = ""


class EmptyDirVolume(KubeStruct, kw_only=True):
    """A directory that lives as long as the Pod; `medium` "Memory" is a tmpfs."""

    medium: str = ""
    size_limit: Quantity | None = None


class SecretVolume(KubeStruct, kw_only=True):
    """A Secret's keys as files."""

    secret_name: str
    items: list[KeyToPath] = []
    default_mode: int | None = None
    optional: bool | None = None


class ConfigMapVolume(KubeStruct, kw_only=True):
    """A ConfigMap's keys as files."""

    name: str = ""
    items: list[KeyToPath] = []
    default_mode: int | None = None
    optional: bool | None = None


class ImageVolume(KubeStruct, kw_only=True):
    """An OCI image's file system, read-only."""

    reference: str = ""
    pull_policy: str = ""


class PersistentVolumeClaimVolume(KubeStruct, kw_only=True):
    """A claim in the Pod's namespace."""

    claim_name: str
    read_only: bool = False


class DownwardApiVolume(KubeStruct, kw_only=True):
    """Fields of the Pod as files; `items` are DownwardAPIVolumeFiles."""

    items: list[JsonObject] = []
    default_mode: int | None = None


class ProjectedVolume(KubeStruct, kw_only=True):
    """Several sources in one directory; `sources` are VolumeProjections."""

    sources: list[JsonObject] = []
    default_mode: int | None = None


class PodVolume(KubeStruct, kw_only=True):
    """One volume of a Pod; exactly one source is set."""

    name: str
    host_path: HostPathVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None
    image: ImageVolume | None = None
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    downward_api: DownwardApiVolume | None = field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None


class VolumeDevice(KubeStruct, kw_only=True):
    """Where a volume of mode Block appears in a container, as a device node."""

    name: str
    device_path: str


class VolumeMount(KubeStruct, kw_only=True):
    """Where a volume appears in a container."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    # Not of our own Pods: webhooks of others mount so.
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class EnvVar(KubeStruct, kw_only=True):
    """One environment variable; `value_from` is passed through."""

    name: str
    value: str = ""
    value_from: JsonObject | None = None


class PodResourceClaim(KubeStruct, kw_only=True):
    """A claim on devices of the cluster (DRA) that a Pod has, or a VMI for it: one that is there, or one of a template.

    The allocation is Kubernetes' own.
    """

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ContainerClaim(KubeStruct, kw_only=True):
    """What a container uses of one of its Pod's claims: what one request of it was given, or all of it."""

    name: str
    request: str = ""


class ResourceAmounts(KubeStruct, kw_only=True):
    """Requests and limits; quantities as text or numbers."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class ResourceRequirements(ResourceAmounts, kw_only=True):
    """What a container asks for: amounts, and devices of its Pod's claims."""

    claims: list[ContainerClaim] = []


class Capabilities(KubeStruct, kw_only=True):
    """Linux capabilities without their CAP_ prefix, or ALL."""

    add: list[str] = []
    drop: list[str] = []


class SeccompProfile(KubeStruct, kw_only=True):
    """`type` is RuntimeDefault, Unconfined or Localhost."""

    type: str
    localhost_profile: str | None = None


class SecurityContext(KubeStruct, kw_only=True):
    """A container's security context."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None


class Sysctl(KubeStruct, kw_only=True):
    """One namespaced sysctl of a Pod."""

    name: str
    value: str


class PodSecurityContext(KubeStruct, kw_only=True):
    """A Pod's security context."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    fs_group: int | None = None
    supplemental_groups: list[int] = []
    sysctls: list[Sysctl] = []
    seccomp_profile: SeccompProfile | None = None


class ContainerPort(KubeStruct, kw_only=True):
    """A port of a container, which others may call by its name."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(KubeStruct, kw_only=True):
    """One container of a Pod."""

    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: list[str] = []
    args: list[str] = []
    working_dir: str = ""
    ports: list[ContainerPort] = []
    env: list[EnvVar] = []
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    volume_mounts: list[VolumeMount] = []
    volume_devices: list[VolumeDevice] = []
    security_context: SecurityContext | None = None
    restart_policy: str | None = None
    termination_message_path: str = ""
    liveness_probe: JsonObject | None = None
    readiness_probe: JsonObject | None = None


class ReadinessGate(KubeStruct, kw_only=True):
    """A condition type that must be True before the Pod is Ready."""

    condition_type: str


class PodSpec(KubeStruct, kw_only=True):
    """The part of a Pod's spec that kvedge renders and runs."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[PodVolume] = []
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: JsonObject | None = None
    tolerations: list[JsonObject] = []
    topology_spread_constraints: list[JsonObject] = []
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    hostname: str = ""
    subdomain: str = ""
    dns_policy: str = ""
    dns_config: JsonObject | None = None
    security_context: PodSecurityContext | None = None
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    enable_service_links: bool | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    readiness_gates: list[ReadinessGate] = []
    image_pull_secrets: list[LocalObjectReference] = []
    host_network: bool = False
    resource_claims: list[PodResourceClaim] = []


class ContainerStateWaiting(KubeStruct, kw_only=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(KubeStruct, kw_only=True):
    """Since when a container runs."""

    started_at: str | None = None


class ContainerStateTerminated(KubeStruct, kw_only=True):
    """How a container ended."""

    exit_code: int
    signal: int | None = None
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = field(default="", name="containerID")


class ContainerState(KubeStruct, kw_only=True):
    """Exactly one of the three."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(KubeStruct, kw_only=True):
    """What became of one container; the four plain fields are always on the wire, as kubectl reads them."""

    name: str
    ready: bool
    restart_count: int
    image: str
    image_id: str = field(name="imageID")
    container_id: str = field(default="", name="containerID")
    started: bool | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    # What the node has set aside for it, and what it has; nodes that cannot resize Pods say neither.
    allocated_resources: dict[str, Quantity] = {}
    resources: ResourceAmounts | None = None


class PodIp(KubeStruct, kw_only=True):
    """One address of a Pod."""

    ip: str


class PodStatus(KubeStruct, kw_only=True):
    """A Pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    pod_ip: str = field(default="", name="podIP")
    pod_ips: list[PodIp] = field(default=[], name="podIPs")
    host_ip: str = field(default="", name="hostIP")
    start_time: str | None = None
    qos_class: str = ""
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(KubeStruct, kw_only=True):
    """core/v1 Pod."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Pod", "pods")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class NodeAddress(KubeStruct, kw_only=True):
    """`type` is InternalIP, ExternalIP or Hostname."""

    type: str
    address: str


class NodeSpec(KubeStruct, kw_only=True):
    """A Node's spec."""

    unschedulable: bool = False
    taints: list[JsonObject] = []
    pod_cidr: str = field(default="", name="podCIDR")
    pod_cidrs: list[str] = field(default=[], name="podCIDRs")


class NodeStatus(KubeStruct, kw_only=True):
    """A Node's status."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    conditions: list[JsonObject] = []
    addresses: list[NodeAddress] = []
    node_info: JsonObject = {}


class Node(KubeStruct, kw_only=True):
    """core/v1 Node."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Node", "nodes", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class Namespace(KubeStruct, kw_only=True):
    """core/v1 Namespace."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class Secret(KubeStruct, kw_only=True):
    """core/v1 Secret; values are base64 text."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Secret", "secrets")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    type: str = ""
    data: dict[str, str] = {}


class ConfigMap(KubeStruct, kw_only=True):
    """core/v1 ConfigMap."""

    KIND: ClassVar[Kind] = Kind("", "v1", "ConfigMap", "configmaps")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] = {}


class EventSource(KubeStruct, kw_only=True):
    """The component that reports an event."""

    component: str = ""
    host: str = ""


class Event(KubeStruct, kw_only=True):
    """core/v1 Event."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Event", "events")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = field(default_factory=EventSource)
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
