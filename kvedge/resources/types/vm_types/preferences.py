"""Preferences: what guests of one system like best, for one namespace and for all.

Roles read them as documents, so that nothing is lost which a type does not know; admission and the CRDs go by these
types. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.devices import BlockSize, EmptyBinding, Rng
from kvedge.resources.types.domain import (
    ClockUtc,
    CpuFeature,
    Efi,
    FeatureApic,
    FeatureKvm,
    FeatureState,
    Hyperv,
    Timers,
)
from kvedge.resources.types.vm_types.instancetypes import INSTANCETYPE_GROUP, INSTANCETYPE_VERSION
from kvedge.resources.values.quantities import Quantity


class SpreadOptions(KubeStruct, kw_only=True):
    """How vCPUs are spread over sockets, cores and threads."""

    across: str | None = None
    ratio: int | None = None


class CpuPreferences(KubeStruct, kw_only=True):
    """How vCPUs are shown to the guest."""

    preferred_cpu_topology: str | None = field(default=None, name="preferredCPUTopology")
    spread_options: SpreadOptions | None = None
    preferred_cpu_features: list[CpuFeature] = field(default_factory=list, name="preferredCPUFeatures")


class ClockOffset(KubeStruct, kw_only=True):
    """UTC or a time zone."""

    utc: ClockUtc | None = None
    timezone: str | None = None


class ClockPreferences(KubeStruct, kw_only=True):
    """The clock of a VM that says nothing of it."""

    preferred_clock_offset: ClockOffset | None = None
    preferred_timer: Timers | None = None


class DevicePreferences(KubeStruct, kw_only=True):
    """What devices are where a VM does not say it."""

    preferred_autoattach_graphics_device: bool | None = None
    preferred_autoattach_mem_balloon: bool | None = None
    preferred_autoattach_pod_interface: bool | None = None
    preferred_autoattach_serial_console: bool | None = None
    preferred_autoattach_input_device: bool | None = None
    preferred_disable_hotplug: bool | None = None
    preferred_virtual_gpu_options: JsonObject | None = field(default=None, name="preferredVirtualGPUOptions")
    preferred_sound_model: str = ""
    preferred_use_virtio_transitional: bool | None = None
    preferred_input_bus: str = ""
    preferred_input_type: str = ""
    preferred_disk_bus: str = ""
    preferred_lun_bus: str = ""
    preferred_cdrom_bus: str = ""
    preferred_disk_dedicated_io_thread: bool | None = None
    preferred_disk_cache: str = ""
    preferred_disk_io: str = field(default="", name="preferredDiskIO")
    preferred_disk_block_size: BlockSize | None = None
    preferred_interface_model: str = ""
    preferred_rng: Rng | None = None
    preferred_block_multi_queue: bool | None = None
    preferred_network_interface_multi_queue: bool | None = None
    preferred_tpm: JsonObject | None = field(default=None, name="preferredTPM")
    preferred_interface_masquerade: EmptyBinding | None = None
    preferred_panic_device_model: str | None = None
    preferred_video_type: str | None = None


class FeaturePreferences(KubeStruct, kw_only=True):
    """Features that a VM gets where it does not say them."""

    preferred_acpi: FeatureState | None = None
    preferred_apic: FeatureApic | None = None
    preferred_hyperv: Hyperv | None = None
    preferred_kvm: FeatureKvm | None = None
    preferred_pvspinlock: FeatureState | None = None
    preferred_smm: FeatureState | None = None


class FirmwarePreferences(KubeStruct, kw_only=True):
    """The firmware of a VM without a bootloader of its own."""

    preferred_use_bios: bool | None = None
    preferred_use_bios_serial: bool | None = None
    preferred_use_efi: bool | None = None
    preferred_use_secure_boot: bool | None = None
    preferred_efi: Efi | None = None


class MachinePreferences(KubeStruct, kw_only=True):
    """The machine of a VM that names none."""

    preferred_machine_type: str = ""


class VolumePreferences(KubeStruct, kw_only=True):
    """Where volumes of a VM's DataVolume templates come from."""

    preferred_storage_class_name: str = ""


class CpuPreferenceRequirement(KubeStruct, kw_only=True):
    """So many vCPUs at least."""

    guest: int


class MemoryPreferenceRequirement(KubeStruct, kw_only=True):
    """So much memory at least."""

    guest: Quantity


class PreferenceRequirements(KubeStruct, kw_only=True):
    """What a VM must have: one with less is refused."""

    cpu: CpuPreferenceRequirement | None = None
    memory: MemoryPreferenceRequirement | None = None
    architecture: str | None = None


class VirtualMachinePreferenceSpec(KubeStruct, kw_only=True):
    """What a VM gets where it says nothing itself."""

    clock: ClockPreferences | None = None
    cpu: CpuPreferences | None = None
    devices: DevicePreferences | None = None
    features: FeaturePreferences | None = None
    firmware: FirmwarePreferences | None = None
    machine: MachinePreferences | None = None
    volumes: VolumePreferences | None = None
    preferred_subdomain: str | None = None
    preferred_termination_grace_period_seconds: int | None = None
    requirements: PreferenceRequirements | None = None
    annotations: dict[str, str] = {}
    prefer_spread_socket_to_core_ratio: int = 0
    preferred_architecture: str | None = None
    preferred_launch_security: JsonObject | None = None


class VirtualMachinePreference(KubeStruct, kw_only=True):
    """instancetype.kubevirt.io/v1beta1 VirtualMachinePreference: a preference of one namespace."""

    KIND: ClassVar[Kind] = Kind(
        INSTANCETYPE_GROUP, INSTANCETYPE_VERSION, "VirtualMachinePreference", "virtualmachinepreferences"
    )
    spec: VirtualMachinePreferenceSpec = field(default_factory=VirtualMachinePreferenceSpec)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class VirtualMachineClusterPreference(KubeStruct, kw_only=True):
    """instancetype.kubevirt.io/v1beta1 VirtualMachineClusterPreference: a preference for every namespace."""

    KIND: ClassVar[Kind] = Kind(
        INSTANCETYPE_GROUP,
        INSTANCETYPE_VERSION,
        "VirtualMachineClusterPreference",
        "virtualmachineclusterpreferences",
        namespaced=False,
    )
    spec: VirtualMachinePreferenceSpec = field(default_factory=VirtualMachinePreferenceSpec)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
