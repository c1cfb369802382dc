"""The devices of a VMI: disks, interfaces and the small ones (kubevirt.io/v1 Devices).

Devices that kvedge refuses for now keep a place here as passed-through JSON, so that admission can name them.
Touches nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct


class DiskTarget(KubeStruct, kw_only=True):
    """A hard disk; bus virtio, sata, scsi or usb."""

    bus: str = ""
    readonly: bool = False
    pci_address: str = ""


class CdromTarget(KubeStruct, kw_only=True):
    """A CD-ROM drive; bus sata or scsi; read-only unless refused; tray open or closed."""

    bus: str = ""
    readonly: bool | None = None
    tray: str = ""


class LunTarget(KubeStruct, kw_only=True):
    """A LUN passed through."""

    bus: str = ""
    readonly: bool = False
    reservation: bool = False


class CustomBlockSize(KubeStruct, kw_only=True):
    """Sizes in bytes, powers of two."""

    logical: int
    physical: int
    discard_granularity: int | None = None


class MatchVolume(KubeStruct, kw_only=True):
    """Take the block size of the volume."""

    enabled: bool | None = None


class BlockSize(KubeStruct, kw_only=True):
    """Exactly one of the two."""

    custom: CustomBlockSize | None = None
    match_volume: MatchVolume | None = None


class Disk(KubeStruct, kw_only=True):
    """One disk: its name is the volume's."""

    name: str
    disk: DiskTarget | None = None
    cdrom: CdromTarget | None = None
    lun: LunTarget | None = None
    boot_order: int | None = None
    serial: str = ""
    cache: str = ""
    io: str = ""
    dedicated_io_thread: bool | None = field(default=None, name="dedicatedIOThread")
    block_size: BlockSize | None = None
    shareable: bool | None = None
    error_policy: str | None = None
    tag: str = ""
    changed_block_tracking: bool | None = None


class Port(KubeStruct, kw_only=True):
    """A port that masquerade forwards."""

    port: int
    name: str = ""
    protocol: str = ""


class PortRange(KubeStruct, kw_only=True):
    """Ports from `start` to `end`, both included, that masquerade forwards."""

    start: int
    end: int
    protocol: str


class PrivateOption(KubeStruct, kw_only=True):
    """A DHCP option 224 to 254."""

    option: int
    value: str


class DhcpOptions(KubeStruct, kw_only=True):
    """What DHCP tells beside the address."""

    boot_file_name: str = ""
    tftp_server_name: str = field(default="", name="tftpServerName")
    ntp_servers: list[str] = []
    private_options: list[PrivateOption] = []


class PluginBinding(KubeStruct, kw_only=True):
    """A network binding plugin."""

    name: str


class EmptyBinding(KubeStruct, kw_only=True):
    """A binding without settings of its own: `{}`."""


# What an interface's model and state may be; empty is a default.
NIC_MODELS: Final = ("virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139")
ABSENT: Final = "absent"
NIC_STATES: Final = ("", "up", "down", ABSENT)


class Interface(KubeStruct, kw_only=True):
    """One NIC; exactly one binding is set."""

    name: str
    bridge: EmptyBinding | None = None
    masquerade: EmptyBinding | None = None
    sriov: EmptyBinding | None = None
    slirp: EmptyBinding | None = None
    macvtap: EmptyBinding | None = None
    passt: EmptyBinding | None = None
    passt_binding: EmptyBinding | None = None
    binding: PluginBinding | None = None
    model: str = ""
    mac_address: str = ""
    ports: list[Port] = []
    port_ranges: list[PortRange] = []
    boot_order: int | None = None
    pci_address: str = ""
    acpi_index: int = 0
    tag: str = ""
    dhcp_options: DhcpOptions | None = None
    state: str = ""


class Input(KubeStruct, kw_only=True):
    """An input device; only tablets exist."""

    name: str
    bus: str = ""
    type: str = ""


class WatchdogModel(KubeStruct, kw_only=True):
    """`action` is poweroff, reset or shutdown."""

    action: str = ""


class Watchdog(KubeStruct, kw_only=True):
    """A watchdog; i6300esb on amd64, diag288 on s390x."""

    name: str
    i6300esb: WatchdogModel | None = None
    diag288: WatchdogModel | None = None


class Rng(KubeStruct, kw_only=True):
    """virtio-rng, fed by /dev/urandom."""


class VideoDevice(KubeStruct, kw_only=True):
    """`type` is vga, bochs, virtio, cirrus or ramfb."""

    type: str = ""


class Sound(KubeStruct, kw_only=True):
    """`model` is ich9 or ac97."""

    name: str = ""
    model: str = ""


class PanicDevice(KubeStruct, kw_only=True):
    """`model` is isa, hyperv or pvpanic."""

    model: str = ""


class TpmDevice(KubeStruct, kw_only=True):
    """A TPM 2.0 played by software; `persistent` keeps what is in it from run to run."""

    enabled: bool | None = None
    persistent: bool | None = None

    @property
    def is_wanted(self) -> bool:
        """Unless it is switched off, naming it asks for it."""
        return self.enabled is not False


class RamFb(KubeStruct, kw_only=True):
    """A frame buffer until the guest's own driver draws; on unless refused."""

    enabled: bool | None = None


class VgpuDisplay(KubeStruct, kw_only=True):
    """Whether the guest's screen is also the GPU's; on unless refused."""

    enabled: bool | None = None
    ram_fb: RamFb | None = field(default=None, name="ramFB")

    @property
    def is_on(self) -> bool:
        """Unless it is refused."""
        return self.enabled is not False

    @property
    def has_ramfb(self) -> bool:
        """Unless it is refused, or its display is."""
        return self.is_on and (self.ram_fb is None or self.ram_fb.enabled is not False)


class VgpuOptions(KubeStruct, kw_only=True):
    """What a virtual GPU does beside computing."""

    display: VgpuDisplay | None = None


class HostDevice(KubeStruct, kw_only=True):
    """A device of the node: `device_name` is the resource of the device plugin that has it; else a request of one of
    the VMI's claims does."""

    name: str
    device_name: str = ""
    claim_name: str = ""
    request_name: str = ""
    tag: str = ""

    @property
    def is_claimed(self) -> bool:
        """Whether a claim of the VMI has it, and no device plugin."""
        return not self.device_name and bool(self.claim_name or self.request_name)


class Gpu(KubeStruct, kw_only=True):
    """A GPU of the node, or a part of one."""

    name: str
    device_name: str = ""
    claim_name: str = ""
    request_name: str = ""
    virtual_gpu_options: VgpuOptions | None = field(default=None, name="virtualGPUOptions")
    tag: str = ""

    @property
    def is_claimed(self) -> bool:
        """Whether a claim of the VMI has it, and no device plugin."""
        return not self.device_name and bool(self.claim_name or self.request_name)

    @property
    def display(self) -> VgpuDisplay | None:
        """What is said of its display, if anything."""
        return self.virtual_gpu_options.display if self.virtual_gpu_options is not None else None


class Filesystem(KubeStruct, kw_only=True):
    """A directory of the host that the guest mounts by its name: that of the volume with this name."""

    name: str
    virtiofs: JsonObject | None = None


class Devices(KubeStruct, kw_only=True):
    """spec.domain.devices of a VMI."""

    disks: list[Disk] = []
    interfaces: list[Interface] = []
    inputs: list[Input] = []
    watchdog: Watchdog | None = None
    rng: Rng | None = None
    video: VideoDevice | None = None
    sound: Sound | None = None
    tpm: TpmDevice | None = None
    gpus: list[Gpu] = []
    host_devices: list[HostDevice] = []
    filesystems: list[Filesystem] = []
    client_passthrough: JsonObject | None = None
    panic_devices: list[PanicDevice] = []
    downward_metrics: JsonObject | None = None
    autoattach_pod_interface: bool | None = None
    autoattach_graphics_device: bool | None = None
    autoattach_serial_console: bool | None = None
    autoattach_mem_balloon: bool | None = None
    autoattach_input_device: bool | None = None
    autoattach_vsock: bool | None = field(default=None, name="autoattachVSOCK")
    log_serial_console: bool | None = None
    block_multi_queue: bool | None = None
    network_interface_multiqueue: bool | None = None
    use_virtio_transitional: bool | None = None
    disable_hotplug: bool = False
