"""What the KubeVirt object comes to: the configuration that roles work by, and what is to be told of it.

Called by the follower in kube/, by the controller for the object's conditions and by admission. Pure. A key that is not
given has KubeVirt's default. A value that cannot be used is a finding and counts as not given, so that one bad key
takes nothing else with it; admission refuses it before it gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Final

from msgspec import Struct, field

from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.configuration.support_containers import Support
from kvedge.resources.host_devices.permitted_devices import PermittedDevices
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.values.quantities import Quantity

MACHINES: Final[Mapping[str, tuple[str, ...]]] = {
    "amd64": ("q35*", "pc-q35*", "pc", "pc-i440fx*"),
    "arm64": ("virt*",),
}
DEFAULT_MACHINE: Final[Mapping[str, str]] = {"amd64": "q35", "arm64": "virt"}
# An amd64 guest sees the node's CPU as libvirt models it; on arm64 nothing but the CPU itself works.
DEFAULT_CPU_MODEL: Final[Mapping[str, str]] = {"amd64": "host-model", "arm64": "host-passthrough"}
# Bindings that a default interface may have; the others follow when they are built.
DEFAULT_INTERFACES: Final = ("bridge", "masquerade")

# A VM keeps its instance type by a copy, or what the type says becomes the VM's own: of VMs without a copy, or of all.
REFERENCE: Final = "reference"
EXPAND: Final = "expand"
EXPAND_ALL: Final = "expandAll"
REFERENCE_POLICIES: Final = (REFERENCE, EXPAND, EXPAND_ALL)


class Issue(Enum):
    """What is to be told of a key."""

    INVALID = "invalid"
    UNKNOWN = "unknown"
    NO_EFFECT = "no effect"


class Finding(Struct, frozen=True):
    """One thing to tell of one key; `path` begins with `spec`."""

    issue: Issue
    path: str
    message: str


class Smbios(Struct, frozen=True):
    """What guests read as their hardware's maker."""

    family: str = "KubeVirt"
    manufacturer: str = "KubeVirt"
    product: str = "None"
    version: str = ""
    sku: str = ""


class LogLevels(Struct, frozen=True):
    """KubeVirt's verbosities, from 0 to 9; None leaves a role's own setting."""

    api: int | None = None
    controller: int | None = None
    handler: int | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)

    def of_handler(self, node: str) -> int | None:
        """The verbosity of the handler on a node."""
        return self.nodes.get(node, self.handler)


class Migrations(Struct, frozen=True):
    """Limits of live migrations; seconds, and bytes per second where 0 is any."""

    parallel_per_node: int = 2
    parallel_per_cluster: int = 5
    bandwidth: int = 0
    progress_timeout: int = 150
    completion_timeout_per_gib: int = 150
    utility_volumes_timeout: int = 150
    max_downtime_ms: int = 900
    allow_auto_converge: bool = False
    allow_post_copy: bool = False
    # None follows allow_post_copy.
    allow_workload_disruption: bool | None = None
    unsafe_override: bool = False
    disable_tls: bool = False
    node_drain_taint_key: str = "kubevirt.io/drain"
    network: str = ""


class WorkloadUpdates(Struct, frozen=True):
    """How guests come to launchers of this release: by migration, by eviction in batches, or not by themselves."""

    live_migrate: bool = False
    evict: bool = False
    batch_size: int = 10
    batch_seconds: float = 60.0


class BindingPlugin(Struct, frozen=True):
    """A network binding plugin: by what a guest is joined to its Pod's NIC, and what that costs."""

    # tap or managedTap; empty where the plugin's sidecar makes the guest's interface.
    attachment: str
    # `[namespace/]name` of a network that the Pod joins as well for each interface of the plugin; or empty.
    network: str = ""
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    limits: Mapping[str, Quantity] = field(default_factory=dict)
    # The image of a container that is asked about the domain of each guest that uses the plugin; or empty.
    sidecar_image: str = ""
    # Whether that container is told of the devices of the guest's networks.
    tells_devices: bool = False
    # Whether a guest may move with it, and whether its link then goes down and up, for another address.
    migrates: bool = False
    refreshes_link: bool = False


class LiveUpdates(Struct, frozen=True):
    """Whether changes of VMs reach their running guests, and how far these may grow."""

    is_on: bool = True
    # Whether the KubeVirt object says so. Otherwise VMs of a time when it was off keep the machine that they had.
    is_said: bool = False
    hotplug_ratio: int = 4
    # None: by the ratio.
    most_sockets: int | None = None
    # In bytes; None: by the ratio.
    most_memory: int | None = None


class TrackedVms(Struct, frozen=True):
    """The VMs of which backups may have changed blocks alone, by their labels or those of their namespaces."""

    by_namespace: LabelSelector | None = None
    by_labels: LabelSelector | None = None

    def select(self, labels: Mapping[str, str], namespace_labels: Callable[[], Mapping[str, str]]) -> bool:
        """Whether a VM is one; the labels of its namespace are asked for only where they count."""
        if self.by_labels is not None and self.by_labels.matches(labels):
            return True
        return self.by_namespace is not None and self.by_namespace.matches(namespace_labels())


class Configuration(Struct, frozen=True):
    """The configuration in force. Percent for the overcommit, a divisor for the CPU ratio."""

    gates: FeatureGates = field(default_factory=FeatureGates)
    use_emulation: bool = False
    # Whether an isolated emulator has two CPUs where its Pod would have an odd number of them.
    even_parity: bool = False
    memory_overcommit_percent: int = 100
    cpu_allocation_ratio: int = 10
    node_selectors: Mapping[str, str] = field(default_factory=dict)
    log_levels: LogLevels = field(default_factory=LogLevels)
    tracked_vms: TrackedVms = TrackedVms()
    # Empty: that of the architecture.
    cpu_model: str = ""
    # Nodes do not offer these.
    obsolete_cpu_models: frozenset[str] = frozenset()
    # None: by the CPU ratio.
    cpu_request: str | None = None
    # Empty: that of the control plane.
    default_architecture: str = ""
    machine_types: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_MACHINE))
    machines: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(MACHINES))
    # By architecture; each node finds the path of one that is not here.
    ovmf_paths: Mapping[str, str] = field(default_factory=dict)
    smbios: Smbios = field(default_factory=Smbios)
    default_interface: str = "bridge"
    permit_bridge_on_pod_network: bool = True
    bindings: Mapping[str, BindingPlugin] = field(default_factory=dict)
    # Devices of nodes that VMs may be given; None: whatever device plugins there are.
    permitted_devices: PermittedDevices | None = None
    # Guests may reserve LUNs for themselves, with the help of qemu-pr-helper on their node.
    reserves_luns: bool = False
    eviction_strategy: str = "None"
    memory_overhead_ratio: Fraction = Fraction(1)
    serial_console_log: bool = True
    # The storage class for what is in TPMs and UEFI variables that last; "" for the default one.
    state_storage_class: str = ""
    # Whether guests give unused pages back.
    free_page_reporting: bool = True
    # 0: no statistics.
    balloon_stats_seconds: int = 10
    vmis_per_node: int = 1000
    migrations: Migrations = field(default_factory=Migrations)
    workload_updates: WorkloadUpdates = field(default_factory=WorkloadUpdates)
    live_updates: LiveUpdates = LiveUpdates()
    # How VMs keep their instance types: one of REFERENCE_POLICIES.
    reference_policy: str = REFERENCE
    # By what viewers reach the screens of VMs that do not say; of the object's annotations.
    graphics: str = ""
    # Whether backups by Velero freeze no guest of a VM that does not say; of the object's annotations.
    skips_backup_hooks: bool = False
    # Whether ready-made instance types and preferences are there; None: on one box, and not in a cluster.
    common_types: bool | None = None
    # CPU and memory of containers that support VMs.
    support: Support = field(default_factory=dict)

    def default_cpu_model(self, architecture: str) -> str:
        """The CPU model of a VM of that architecture that names none."""
        return self.cpu_model or DEFAULT_CPU_MODEL.get(architecture, "host-model")

    def allows_machine(self, architecture: str, machine: str) -> bool:
        """Whether a VM of that architecture may be that machine."""
        return is_among(machine, self.machines.get(architecture, ()))


DEFAULTS: Final = Configuration()


def is_among(machine: str, patterns: Sequence[str]) -> bool:
    """Whether a machine type fits one of the patterns."""
    return any(fnmatchcase(machine, pattern) for pattern in patterns)
