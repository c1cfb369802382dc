"""`spec.configuration` of the KubeVirt object: every key that KubeVirt has (kubevirt.io/v1).

Part of kubevirt.py; the CRD is made from it. Touches nothing. Which keys do something here is in
configuration_table.py, what they come to in configuration.py. Quantities and counts are as a manifest has them.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.meta import LabelSelector
from kvedge.resources.types.core import ResourceAmounts
from kvedge.resources.values.quantities import Quantity


class DiskVerification(KubeStruct, kw_only=True):
    """Limits for the check of a disk image."""

    memory_limit: Quantity | None = None


class LogVerbosity(KubeStruct, kw_only=True):
    """How much each role logs, from 0 to 9: below 2 warnings, 2 and 3 what happens, from 4 on everything."""

    virt_api: int | None = field(default=None, name="virtAPI")
    virt_controller: int | None = None
    virt_handler: int | None = None
    virt_launcher: int | None = None
    virt_operator: int | None = None
    virt_synchronization_controller: int | None = None
    node_verbosity: dict[str, int] = {}


class DeveloperConfiguration(KubeStruct, kw_only=True):
    """Feature gates, and what VMs cost and run on."""

    feature_gates: list[str] = []
    disabled_feature_gates: list[str] = []
    pvc_tolerate_less_space_up_to_percent: int | None = None
    minimum_reserve_pvc_bytes: int | None = field(default=None, name="minimumReservePVCBytes")
    memory_overcommit: int | None = None
    node_selectors: dict[str, str] = {}
    use_emulation: bool | None = None
    cpu_allocation_ratio: int | None = None
    minimum_cluster_tsc_frequency: int | None = field(default=None, name="minimumClusterTSCFrequency")
    disk_verification: DiskVerification | None = None
    log_verbosity: LogVerbosity | None = None
    cluster_profiler: bool | None = None


class MigrationConfiguration(KubeStruct, kw_only=True):
    """Limits and timeouts of live migrations."""

    node_drain_taint_key: str | None = None
    parallel_outbound_migrations_per_node: int | None = None
    parallel_migrations_per_cluster: int | None = None
    allow_auto_converge: bool | None = None
    bandwidth_per_migration: Quantity | None = None
    completion_timeout_per_gib: int | None = field(default=None, name="completionTimeoutPerGiB")
    max_downtime_ms: int | None = None
    progress_timeout: int | None = None
    utility_volumes_timeout: int | None = None
    unsafe_migration_override: bool | None = None
    allow_post_copy: bool | None = None
    allow_workload_disruption: bool | None = None
    disable_tls: bool | None = field(default=None, name="disableTLS")
    network: str | None = None
    match_se_linux_level_on_migration: bool | None = field(default=None, name="matchSELinuxLevelOnMigration")


class BindingOverhead(KubeStruct, kw_only=True):
    """What a binding costs its launcher Pod."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class BindingMigration(KubeStruct, kw_only=True):
    """How interfaces of a binding would migrate."""

    method: str | None = None


class BindingPluginConfiguration(KubeStruct, kw_only=True):
    """A network binding plugin: how interfaces that name it are joined to their Pod's."""

    sidecar_image: str = ""
    network_attachment_definition: str = ""
    domain_attachment_type: str = ""
    migration: BindingMigration | None = None
    downward_api: str = field(default="", name="downwardAPI")
    compute_resource_overhead: BindingOverhead | None = None


class NetworkConfiguration(KubeStruct, kw_only=True):
    """How VMs join networks."""

    default_network_interface: str = ""
    permit_slirp_interface: bool | None = None
    permit_bridge_interface_on_pod_network: bool | None = None
    binding: dict[str, BindingPluginConfiguration] = {}


class SmbiosConfiguration(KubeStruct, kw_only=True):
    """What guests read as their hardware's maker (SMBIOS, type 1)."""

    manufacturer: str = ""
    product: str = ""
    version: str = ""
    sku: str = ""
    family: str = ""


class ArchSpecificConfiguration(KubeStruct, kw_only=True):
    """What holds for VMs of one architecture."""

    ovmf_path: str = ""
    emulated_machines: list[str] = []
    machine_type: str = ""


class ArchConfiguration(KubeStruct, kw_only=True):
    """What differs between architectures; wins over the keys of the same name beside it."""

    amd64: ArchSpecificConfiguration | None = None
    arm64: ArchSpecificConfiguration | None = None
    ppc64le: ArchSpecificConfiguration | None = None
    s390x: ArchSpecificConfiguration | None = None
    default_architecture: str = ""


class MediatedDevicesConfiguration(KubeStruct, kw_only=True):
    """Mediated devices that would be made on nodes."""

    mediated_devices_types: list[str] = []
    mediated_device_types: list[str] = []
    node_mediated_device_types: list[JsonObject] = []
    enabled: bool | None = None


class PciHostDevice(KubeStruct, kw_only=True):
    """PCI functions of one maker and model, as `vendor:product`."""

    pci_vendor_selector: str
    resource_name: str
    external_resource_provider: bool = False


class MediatedHostDevice(KubeStruct, kw_only=True):
    """Mediated devices of one type."""

    mdev_name_selector: str
    resource_name: str
    external_resource_provider: bool = False


class UsbSelector(KubeStruct, kw_only=True):
    """One USB device, by its maker and model; and, beyond KubeVirt, by its serial number and its port."""

    vendor: str
    product: str
    serial: str = ""
    port: str = ""


class UsbHostDevice(KubeStruct, kw_only=True):
    """USB devices that go to a guest together: one for each selector."""

    resource_name: str
    selectors: list[UsbSelector] = []
    external_resource_provider: bool = False


class PermittedHostDevices(KubeStruct, kw_only=True):
    """Devices of hosts that VMs may be given."""

    pci_host_devices: list[PciHostDevice] = []
    mediated_devices: list[MediatedHostDevice] = []
    usb: list[UsbHostDevice] = []


class SupportContainerResources(KubeStruct, kw_only=True):
    """What containers of one kind, which support VMs, ask for and may use."""

    type: str = ""
    resources: ResourceAmounts = field(default_factory=ResourceAmounts)


class TlsConfiguration(KubeStruct, kw_only=True):
    """What roles agree to on their TLS connections."""

    min_tls_version: str = field(default="", name="minTLSVersion")
    ciphers: list[str] = []


class VirtualMachineOptions(KubeStruct, kw_only=True):
    """Things that all VMs have unless they are switched off here; an empty object switches."""

    disable_free_page_reporting: JsonObject | None = None
    disable_serial_console_log: JsonObject | None = None


class KsmConfiguration(KubeStruct, kw_only=True):
    """Merging of equal pages of memory."""

    node_label_selector: LabelSelector | None = None


class LiveUpdateConfiguration(KubeStruct, kw_only=True):
    """How far CPUs and memory may grow while a guest runs."""

    max_hotplug_ratio: int | None = None
    max_cpu_sockets: int | None = None
    max_guest: Quantity | None = None


class Switch(KubeStruct, kw_only=True):
    """Something that is on or off."""

    enabled: bool | None = None


class InstancetypeConfiguration(KubeStruct, kw_only=True):
    """How VMs keep the instance type that they were made with."""

    reference_policy: str | None = None


class HypervisorConfiguration(KubeStruct, kw_only=True):
    """One hypervisor."""

    name: str = ""


class BlockTrackingSelectors(KubeStruct, kw_only=True):
    """Of which VMs changed blocks are tracked; either selector is enough."""

    namespace_label_selector: LabelSelector | None = None
    virtual_machine_label_selector: LabelSelector | None = None


class KubeVirtConfiguration(KubeStruct, kw_only=True):
    """How VMs are made and run; what is not given has KubeVirt's default."""

    cpu_model: str = ""
    cpu_request: Quantity | None = None
    developer_configuration: DeveloperConfiguration | None = None
    emulated_machines: list[str] = []
    image_pull_policy: str = ""
    migrations: MigrationConfiguration | None = None
    machine_type: str = ""
    network: NetworkConfiguration | None = None
    ovmf_path: str = ""
    selinux_launcher_type: str = ""
    default_runtime_class: str = ""
    smbios: SmbiosConfiguration | None = None
    architecture_configuration: ArchConfiguration | None = None
    eviction_strategy: Literal["None", "LiveMigrate", "LiveMigrateIfPossible", "External"] | None = None
    additional_guest_memory_overhead_ratio: str | None = None
    support_container_resources: list[SupportContainerResources] = []
    supported_guest_agent_versions: list[str] = []
    mem_balloon_stats_period: int | None = None
    permitted_host_devices: PermittedHostDevices | None = None
    mediated_devices_configuration: MediatedDevicesConfiguration | None = None
    min_cpu_model: str = field(default="", name="minCPUModel")
    obsolete_cpu_models: dict[str, bool] = field(default={}, name="obsoleteCPUModels")
    virtual_machine_instances_per_node: int | None = None
    api_configuration: JsonObject | None = None
    webhook_configuration: JsonObject | None = None
    controller_configuration: JsonObject | None = None
    handler_configuration: JsonObject | None = None
    tls_configuration: TlsConfiguration | None = None
    seccomp_configuration: JsonObject | None = None
    vm_state_storage_class: str = ""
    virtual_machine_options: VirtualMachineOptions | None = None
    ksm_configuration: KsmConfiguration | None = None
    auto_cpu_limit_namespace_label_selector: LabelSelector | None = field(
        default=None, name="autoCPULimitNamespaceLabelSelector"
    )
    live_update_configuration: LiveUpdateConfiguration | None = None
    vm_rollout_strategy: Literal["LiveUpdate", "Stage"] | None = None
    common_instancetypes_deployment: Switch | None = None
    virt_template_deployment: Switch | None = None
    instancetype: InstancetypeConfiguration | None = None
    hypervisors: list[HypervisorConfiguration] = []
    changed_block_tracking_label_selectors: BlockTrackingSelectors | None = None
    persistent_reservation_configuration: Switch | None = None
    confidential_compute: JsonObject | None = None
    role_aggregation_strategy: str | None = None
