"""Everything that a domain needs and the VMI does not say: where things are on this node, and what this node can do.

Filled by the launcher's session from the handler's request and from the host; read by the converter. Paths are those
that QEMU sees, inside the launcher's Pod. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from kvedge.launcher.domain.host_cpus import HostCpus

ImageFormat = Literal["qcow2", "raw"]
DeviceKind = Literal["pci", "mdev", "usb"]
Architecture = Literal["x86_64", "aarch64"]

# libvirt's own way to write 9.0.0, the oldest version that kvedge runs with (Debian 12).
OLDEST_LIBVIRT = 9_000_000

# How often a guest's memory is looked at, as KubeVirt has it.
BALLOON_STATS_SECONDS: Final = 10


class DiskSource(Struct, frozen=True, kw_only=True):
    """One prepared volume.

    `format` is always stated: QEMU must never guess it from a header that a guest may have written. `backing` is the
    image below a copy-on-write overlay, as (path, format). `direct_io_ok` says that O_DIRECT works on the file and on
    its backing file; `preallocated` that every block is allocated, `thick` that they are to stay so, whatever the guest
    discards; `block_size` is (logical, physical) in bytes, `discard_granularity` the least that the volume gives back,
    0 when it does not say.
    """

    path: str
    format: ImageFormat
    backing: tuple[str, ImageFormat] | None = None
    # Whether that image is a block device.
    backing_block: bool = False
    block: bool = False
    # `path` is a socket, at which a worker serves the disk by NBD.
    served: bool = False
    readonly: bool = False
    direct_io_ok: bool = True
    preallocated: bool = False
    thick: bool = False
    block_size: tuple[int, int] | None = None
    discard_granularity: int = 0
    # The warnings for the VM's user on the making of its domain.
    note: str = ""


class InterfaceTarget(Struct, frozen=True, kw_only=True):
    """One tap that the handler has made: `mtu` 0 leaves the MTU to QEMU, `queues` above 1 needs a multi-queue tap.

    Without a tap the NIC is one that passt speaks for.
    """

    tap: str
    mac: str
    mtu: int = 0
    queues: int = 1


class PassedDevice(Struct, frozen=True, kw_only=True):
    """A device of the node: the address of a PCI function, the UUID of a mediated device, or `bus:device` of USB."""

    kind: DeviceKind
    address: str


class Smbios(Struct, frozen=True, kw_only=True):
    """The cluster's words in the guest's SMBIOS tables."""

    family: str = "KubeVirt"
    manufacturer: str = "KubeVirt"
    product: str = "None"
    version: str = ""
    sku: str = ""


class OvmfFiles(Struct, frozen=True, kw_only=True):
    """UEFI firmware: its code, the template of its variables, and where the VM's own variables live.

    `secure` says that the code was built with secure boot, which needs SMM; the template may hold the keys. `rom` is
    firmware that is measured as a whole and keeps no variables.
    """

    code: str
    vars_template: str = ""
    nvram: str = ""
    secure: bool = False
    rom: bool = False


class KernelFiles(Struct, frozen=True, kw_only=True):
    """A kernel to boot directly, taken out of the kernel-boot image; either may be missing."""

    kernel: str | None = None
    initrd: str | None = None


class DomainContext(Struct, frozen=True, kw_only=True):
    """What the node adds to a VMI; see the module."""

    architecture: Architecture
    emulation: bool
    serial_socket: str
    vnc_socket: str
    # None: this node's QEMU has no SPICE.
    spice_socket: str | None = None
    emulator: str | None = None
    disk_sources: Mapping[str, DiskSource] = field(default_factory=dict)
    interfaces: Mapping[str, InterfaceTarget] = field(default_factory=dict)
    # The PCI addresses on this node of those interfaces that are functions of a card, by the interface's name.
    functions: Mapping[str, str] = field(default_factory=dict)
    # Those of the VMI's entries, by `gpus/<name>` and `hostDevices/<name>`.
    host_devices: Mapping[str, Sequence[PassedDevice]] = field(default_factory=dict)
    smbios: Smbios = field(default_factory=Smbios)
    ovmf: OvmfFiles | None = None
    # Whether this node has swtpm, which plays a TPM.
    has_tpm_emulator: bool = False
    # A file that gets all the guest writes to its serial console; None when logging is off.
    serial_log: str | None = None
    # The agent's socket; None lets libvirt choose one beneath its own root.
    agent_channel: str | None = None
    # The socket of the port by which the guest asks for metrics; None lets libvirt choose one.
    metrics_channel: str | None = None
    # What stands before the number of each slot for a USB device of a client.
    usb_socket: str = ""
    # Whether the node's QEMU takes such devices.
    redirects_usb: bool = True
    # Why no guest can speak by passt on this node, and what to do; None where one can.
    passt_obstacle: tuple[str, str] | None = None
    kernel_boot: KernelFiles | None = None
    # What is before the paths of the Pod: nothing in a Pod.
    root: str = ""
    # The files of ACPI tables, by libvirt's word for their type.
    acpi_tables: Mapping[str, str] = field(default_factory=dict)
    # The file with Ignition's config.
    ignition: str | None = None
    start_paused: bool = False
    # How often the guest's balloon driver reports, in seconds; 0 turns its statistics off.
    balloon_stats_seconds: int = BALLOON_STATS_SECONDS
    free_page_reporting: bool = True
    # Those that the Pod may use; nobody looks at them for a guest that shares CPUs.
    host_cpus: HostCpus = field(default_factory=HostCpus)
    # The version of the node's libvirt: major * 1,000,000 + minor * 1,000 + release.
    libvirt_version: int = OLDEST_LIBVIRT
