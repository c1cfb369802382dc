"""What kind of computer a VMI asks for: the facts about it that more than one element needs.

Used by the elements of the domain, and by whoever looks for the firmware before. Touches nothing.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from kvedge.launcher.domain.context import Architecture
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.resources.types.domain import Bootloader, Efi, LaunchSecurity
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec

# None of them, or one of a VMI's launchSecurity.
Encryption = Literal["", "sev", "snp", "tdx"]
_ARCHITECTURES: Final[dict[str, Architecture]] = {"amd64": "x86_64", "arm64": "aarch64"}
_DEFAULT_MACHINES: Final[dict[Architecture, str]] = {"x86_64": "q35", "aarch64": "virt"}
_BOOTLOADER: Final = "spec.domain.firmware.bootloader"
# KubeVirt's default for a VM on arm64.
_ARM_BOOTLOADER: Final = Bootloader(efi=Efi(secure_boot=False))


class Platform(Struct, frozen=True, kw_only=True):
    """`pcie` says that devices sit behind PCIe root ports; `virtio` is the model that virtio devices get.

    `encryption` is how the guest's memory is encrypted, if it is: its virtio devices ask the guest for each page then.
    """

    architecture: Architecture
    machine: str
    pcie: bool
    firmware: Literal["bios", "uefi"]
    secure_boot: bool
    virtio: Literal["virtio-non-transitional", "virtio-transitional"]
    encryption: Encryption

    @property
    def iommu(self) -> Literal["on"] | None:
        """Of a virtio device's driver."""
        return "on" if self.encryption else None


def platform_of(vmi: VirtualMachineInstance, node: Architecture) -> Platform:
    """The computer that the VMI asks for, on a node of this architecture.

    Raises:
        ConversionError: when this node cannot be such a computer.
    """
    architecture = _architecture(vmi.spec.architecture, node)
    machine = _machine(vmi, architecture)
    bootloader = _bootloader(vmi, architecture)
    firmware: Literal["bios", "uefi"] = "bios" if bootloader.efi is None else "uefi"
    # As in KubeVirt, secure boot is what one gets who asks for UEFI without a word about it, where there is any.
    secure_boot = bootloader.efi is not None and _wants_secure_boot(bootloader.efi, architecture)
    if secure_boot:
        _require_secure_boot(vmi.spec, architecture, machine)
    return Platform(
        architecture=architecture,
        machine=machine,
        pcie=not _is_i440fx(machine),
        firmware=firmware,
        secure_boot=secure_boot,
        encryption=encryption_of(vmi.spec.domain.launch_security),
        virtio="virtio-transitional" if vmi.spec.domain.devices.use_virtio_transitional else "virtio-non-transitional",
    )


def encryption_of(security: LaunchSecurity | None) -> Encryption:
    """How the guest's memory is encrypted."""
    if security is None:
        return ""
    if security.sev is not None:
        return "sev"
    return "snp" if security.snp is not None else "tdx"


def _architecture(wanted: str, node: Architecture) -> Architecture:
    if not wanted:
        return node
    architecture = _ARCHITECTURES.get(wanted)
    if architecture is None:
        raise ConversionError(
            "spec.architecture", f"{wanted} is not supported by kvedge", f"use one of {', '.join(_ARCHITECTURES)}"
        )
    if architecture != node:
        raise ConversionError(
            "spec.architecture",
            f"{wanted} does not run on this node, which is {node}",
            f"choose a node of this architecture by nodeSelector kubernetes.io/arch: {wanted}",
        )
    return architecture


def _machine(vmi: VirtualMachineInstance, architecture: Architecture) -> str:
    wanted = vmi.spec.domain.machine.type if vmi.spec.domain.machine is not None else ""
    machine = wanted or _DEFAULT_MACHINES[architecture]
    known = (
        machine in {"q35", "pc"} or machine.startswith(("pc-q35-", "pc-i440fx-"))
        if architecture == "x86_64"
        else machine == "virt" or machine.startswith("virt-")
    )
    if not known:
        raise ConversionError(
            "spec.domain.machine.type",
            f"{machine} is not a machine of {architecture} that kvedge knows",
            f"remove it to get {_DEFAULT_MACHINES[architecture]}",
        )
    return machine


def _is_i440fx(machine: str) -> bool:
    return machine == "pc" or machine.startswith("pc-i440fx-")


def _bootloader(vmi: VirtualMachineInstance, architecture: Architecture) -> Bootloader:
    firmware = vmi.spec.domain.firmware
    bootloader = (firmware.bootloader if firmware is not None else None) or Bootloader()
    if bootloader.bios is not None and bootloader.efi is not None:
        raise ConversionError(_BOOTLOADER, "has both bios and efi", "keep one of them")
    if architecture == "x86_64" or bootloader.efi is not None:
        return bootloader
    if bootloader.bios is not None:
        raise ConversionError(f"{_BOOTLOADER}.bios", "there is no BIOS on arm64", "use efi: {secureBoot: false}")
    return _ARM_BOOTLOADER


def _wants_secure_boot(efi: Efi, architecture: Architecture) -> bool:
    return architecture == "x86_64" if efi.secure_boot is None else efi.secure_boot


def _require_secure_boot(spec: VirtualMachineInstanceSpec, architecture: Architecture, machine: str) -> None:
    field = f"{_BOOTLOADER}.efi.secureBoot"
    if architecture != "x86_64":
        raise ConversionError(field, "secure boot is not there on arm64", "set it to false")
    if _is_i440fx(machine):
        raise ConversionError(field, f"secure boot needs the machine q35, not {machine}", "use q35 or set it to false")
    if encryption_of(spec.domain.launch_security) == "tdx":
        # Its firmware is read only, the keys within: there are no variables for SMM to guard.
        return
    smm = spec.domain.features.smm if spec.domain.features is not None else None
    if smm is None or smm.enabled is False:
        raise ConversionError(
            field,
            "secure boot is on (the default of efi) and needs SMM, which is off",
            "add smm: {} to spec.domain.features, or set secureBoot to false",
        )
