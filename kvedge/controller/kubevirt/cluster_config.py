"""The controller's settings for the cluster: how launchers start, and KubeVirt's defaults.

The role's subcommand makes it once. Each plan gets it with the configuration in force. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.controller.kubevirt.image_volume_rules import uses_image_volumes
from kvedge.resources.configuration.configuration import BindingPlugin, Configuration
from kvedge.resources.configuration.feature_gates import CONTAINER_PATHS, EXTERNAL_RESOURCES
from kvedge.resources.configuration.support_containers import Support
from kvedge.resources.host_devices.permitted_devices import PermittedDevices
from kvedge.resources.types.core import Node


class ClusterConfig(Struct, frozen=True):
    """Numbers are KubeVirt's defaults (percent for the overcommit, a divisor for the CPU ratio)."""

    version: str
    # The argv that starts kvedge, and the directories beside /usr that it needs; equal on all nodes.
    program: tuple[str, ...]
    program_directories: tuple[str, ...]
    # Where a node keeps the seed of libvirt's capabilities cache.
    capabilities_directory: str
    # For a VM that names none; the KubeVirt object may set another.
    default_architecture: str
    # Guests are emulated, so that no launcher asks for /dev/kvm.
    use_emulation: bool = False
    # The process's own setting decides about emulation, whatever the KubeVirt object says.
    emulation_is_set: bool = False
    # The kernel's back end for virtio NICs; without it QEMU serves them itself, slower.
    use_vhost_net: bool = True
    memory_overcommit_percent: int = 100
    cpu_allocation_ratio: int = 10
    node_selectors: Mapping[str, str] = field(default_factory=dict)
    # Multiplies the memory that a VM costs beyond its guest's.
    memory_overhead_ratio: Fraction = Fraction(1)
    # Container disks are volumes that the kubelet mounts; otherwise containers of the images hold them.
    image_volumes: bool = True
    # The class of the claims that keep what is in TPMs and UEFI variables; "" for the default one.
    state_storage_class: str = ""
    # Network binding plugins.
    bindings: Mapping[str, BindingPlugin] = field(default_factory=dict)
    # Devices of nodes that VMs may be given; None: whatever device plugins there are.
    permitted_devices: PermittedDevices | None = None
    # VMs may have directories that others mount into launchers.
    container_paths: bool = False
    # Guests may reserve LUNs.
    reserves_luns: bool = False
    # A webhook of somebody else's asks for the virtual functions of launchers' networks.
    functions_by_others: bool = False
    # Ready-made instance types are there unless the KubeVirt object says no: this is one box.
    brings_common_types: bool = False
    # Backups by Velero freeze no guest of a VM that does not say.
    skips_backup_hooks: bool = False
    # There are CPU models that nodes mean to give up: no guest begins with one as its node's.
    gives_up_models: bool = False
    # CPU and memory of containers that support VMs.
    support: Support = field(default_factory=dict)

    def with_configuration(self, configuration: Configuration, nodes: Sequence[Node] = ()) -> ClusterConfig:
        """These settings with a configuration in force, in a cluster of these nodes."""
        emulates = self.use_emulation or (configuration.use_emulation and not self.emulation_is_set)
        return replace(
            self,
            use_emulation=emulates,
            default_architecture=configuration.default_architecture or self.default_architecture,
            memory_overcommit_percent=configuration.memory_overcommit_percent,
            cpu_allocation_ratio=configuration.cpu_allocation_ratio,
            node_selectors=configuration.node_selectors,
            memory_overhead_ratio=configuration.memory_overhead_ratio,
            state_storage_class=configuration.state_storage_class,
            bindings=configuration.bindings,
            permitted_devices=configuration.permitted_devices,
            reserves_luns=configuration.reserves_luns,
            container_paths=configuration.gates.is_on(CONTAINER_PATHS),
            functions_by_others=EXTERNAL_RESOURCES in configuration.gates.enabled,
            image_volumes=uses_image_volumes(nodes, configuration.gates),
            skips_backup_hooks=configuration.skips_backup_hooks,
            gives_up_models=bool(configuration.obsolete_cpu_models),
            support=configuration.support,
        )
