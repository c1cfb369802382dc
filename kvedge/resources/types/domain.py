"""The virtual hardware of a VMI: `spec.domain` without its devices (kubevirt.io/v1 DomainSpec).

Field names, enumerations and defaults follow KubeVirt's API; see devices.py for disks and interfaces.
Touches nothing.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.types.core import ResourceAmounts
from kvedge.resources.types.devices import Devices
from kvedge.resources.values.quantities import Quantity


class CpuFeature(KubeStruct, kw_only=True):
    """One CPU flag and what the guest should see of it."""

    name: str
    policy: str = ""


class Numa(KubeStruct, kw_only=True):
    """NUMA topology of the guest."""

    guest_mapping_passthrough: JsonObject | None = None


class Realtime(KubeStruct, kw_only=True):
    """Real-time scheduling of vCPUs: those of `mask`, such as 0-3,^1, else all."""

    mask: str = ""


class Cpu(KubeStruct, kw_only=True):
    """Topology and model; zeros count as one once any of the three is set."""

    cores: int = 0
    sockets: int = 0
    threads: int = 0
    max_sockets: int = 0
    model: str = ""
    features: list[CpuFeature] = []
    dedicated_cpu_placement: bool = False
    isolate_emulator_thread: bool = False
    numa: Numa | None = None
    realtime: Realtime | None = None


class Hugepages(KubeStruct, kw_only=True):
    """`page_size` is 2Mi or 1Gi on amd64."""

    page_size: str = ""


class ReservedOverhead(KubeStruct, kw_only=True):
    """Memory for QEMU beyond what is reckoned; `mem_lock` is Required or NotRequired."""

    added_overhead: Quantity | None = None
    mem_lock: str = ""


class Memory(KubeStruct, kw_only=True):
    """What the guest sees."""

    guest: Quantity | None = None
    max_guest: Quantity | None = None
    hugepages: Hugepages | None = None
    reserved_overhead: ReservedOverhead | None = None


class Resources(ResourceAmounts, kw_only=True):
    """Requests and limits of the Pod; only cpu and memory."""

    overcommit_guest_overhead: bool = False


class Machine(KubeStruct, kw_only=True):
    """The machine type, such as q35."""

    type: str = ""


class Bios(KubeStruct, kw_only=True):
    """SeaBIOS; `use_serial` shows it on the serial console."""

    use_serial: bool | None = None


class Efi(KubeStruct, kw_only=True):
    """UEFI; secure boot is on unless refused."""

    secure_boot: bool | None = None
    persistent: bool | None = None


class Bootloader(KubeStruct, kw_only=True):
    """Exactly one of the two."""

    bios: Bios | None = None
    efi: Efi | None = None


class KernelBootContainer(KubeStruct, kw_only=True):
    """An image that holds kernel and initrd at absolute paths."""

    image: str
    image_pull_secret: str = ""
    image_pull_policy: str = ""
    kernel_path: str = ""
    initrd_path: str = ""


class KernelBoot(KubeStruct, kw_only=True):
    """Boot a kernel directly."""

    kernel_args: str = ""
    container: KernelBootContainer | None = None


class AcpiTables(KubeStruct, kw_only=True):
    """Volumes with Secrets that hold licence tables, as slic.bin and msdm.bin."""

    slic_name_ref: str = ""
    msdm_name_ref: str = ""


class Firmware(KubeStruct, kw_only=True):
    """Firmware and the identity that SMBIOS shows."""

    uuid: str = ""
    serial: str = ""
    bootloader: Bootloader | None = None
    kernel_boot: KernelBoot | None = None
    acpi: AcpiTables | None = None


class ClockUtc(KubeStruct, kw_only=True):
    """UTC, shifted by whole seconds."""

    offset_seconds: int | None = None


class Timer(KubeStruct, kw_only=True):
    """One timer; which tick policies exist depends on the timer."""

    present: bool | None = None
    tick_policy: str = ""
    track: str = ""
    frequency: int | None = None


class Timers(KubeStruct, kw_only=True):
    """The timers a guest may have."""

    hpet: Timer | None = None
    kvm: Timer | None = None
    pit: Timer | None = None
    rtc: Timer | None = None
    hyperv: Timer | None = None


class Clock(KubeStruct, kw_only=True):
    """The guest's clock: UTC or a time zone."""

    utc: ClockUtc | None = None
    timezone: str = ""
    timer: Timers | None = None


class FeatureState(KubeStruct, kw_only=True):
    """On when the object is there, unless `enabled` says otherwise."""

    enabled: bool | None = None


def is_on(feature: FeatureState | None) -> bool:
    """Whether a domain has it."""
    return feature is not None and feature.enabled is not False


class FeatureApic(FeatureState, kw_only=True):
    """The APIC; `end_of_interrupt` asks for paravirtual EOI."""

    end_of_interrupt: bool = False


class FeatureKvm(KubeStruct, kw_only=True):
    """`hidden` hides KVM from the guest."""

    hidden: bool = False


class FeatureSpinlocks(FeatureState, kw_only=True):
    """Hyper-V spinlock retries."""

    spinlocks: int | None = None


class FeatureVendorId(FeatureState, kw_only=True):
    """Hyper-V vendor, at most 12 characters."""

    vendorid: str = ""


class SyNicTimer(FeatureState, kw_only=True):
    """Synthetic timers."""

    direct: FeatureState | None = None


class TlbFlush(FeatureState, kw_only=True):
    """Hyper-V TLB flush."""

    direct: FeatureState | None = None
    extended: FeatureState | None = None


class Hyperv(KubeStruct, kw_only=True):
    """Hyper-V enlightenments."""

    relaxed: FeatureState | None = None
    vapic: FeatureState | None = None
    spinlocks: FeatureSpinlocks | None = None
    vpindex: FeatureState | None = None
    runtime: FeatureState | None = None
    synic: FeatureState | None = None
    synictimer: SyNicTimer | None = None
    reset: FeatureState | None = None
    vendorid: FeatureVendorId | None = None
    frequencies: FeatureState | None = None
    reenlightenment: FeatureState | None = None
    tlbflush: TlbFlush | None = None
    ipi: FeatureState | None = None
    evmcs: FeatureState | None = None


class Features(KubeStruct, kw_only=True):
    """Hypervisor features; ACPI is on unless refused."""

    acpi: FeatureState = field(default_factory=FeatureState)
    apic: FeatureApic | None = None
    smm: FeatureState | None = None
    kvm: FeatureKvm | None = None
    pvspinlock: FeatureState | None = None
    hyperv: Hyperv | None = None
    hyperv_passthrough: FeatureState | None = None


class Chassis(KubeStruct, kw_only=True):
    """SMBIOS chassis."""

    manufacturer: str = ""
    version: str = ""
    serial: str = ""
    asset: str = ""
    sku: str = ""


class IoThreads(KubeStruct, kw_only=True):
    """Size of the pool for the policy supplementalPool."""

    supplemental_pool_thread_count: int | None = None


class SevPolicy(KubeStruct, kw_only=True):
    """What an AMD SEV guest asks of its host, beside that nobody debugs it."""

    encrypted_state: bool | None = None


class Sev(KubeStruct, kw_only=True):
    """AMD SEV, or SEV-ES by its policy; `session` and `dhCert` are base64, from the guest's owner."""

    policy: SevPolicy | None = None
    attestation: JsonObject | None = None
    session: str = ""
    dh_cert: str = field(name="dhCert", default="")

    @property
    def encrypts_state(self) -> bool:
        """Whether the guest's registers are encrypted, too: SEV-ES."""
        return self.policy is not None and bool(self.policy.encrypted_state)

    @property
    def awaits_session(self) -> bool:
        """Whether the guest's owner attests the host first, and has not said yet with which keys."""
        return self.attestation is not None and not (self.session and self.dh_cert)


class LaunchSecurity(KubeStruct, kw_only=True):
    """How the guest's memory is encrypted: one of the three."""

    sev: Sev | None = None
    snp: JsonObject | None = None
    tdx: JsonObject | None = None

    @property
    def uses_sev(self) -> bool:
        """Whether it is one of AMD's: SEV, SEV-ES or SEV-SNP."""
        return self.sev is not None or self.snp is not None


class DomainSpec(KubeStruct, kw_only=True):
    """spec.domain of a VMI."""

    devices: Devices = field(default_factory=Devices)
    resources: Resources = field(default_factory=Resources)
    cpu: Cpu | None = None
    memory: Memory | None = None
    machine: Machine | None = None
    firmware: Firmware | None = None
    clock: Clock | None = None
    features: Features | None = None
    chassis: Chassis | None = None
    io_threads_policy: Literal["shared", "auto", "supplementalPool"] | None = None
    io_threads: IoThreads | None = None
    launch_security: LaunchSecurity | None = None
    reboot_policy: Literal["Reboot", "Terminate"] | None = None
