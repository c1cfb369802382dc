"""`<os>`: firmware, and how the guest boots.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext, OvmfFiles
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.libvirt_versions import MSDM_TABLE, require_libvirt
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add, yes_no
from kvedge.resources.disks.acpi_tables import MSDM
from kvedge.resources.types.domain import Firmware, KernelBoot
from kvedge.resources.types.vmi import VirtualMachineInstance

_FIRMWARE: Final = "spec.domain.firmware"
# Firmware that is measured as a whole, and that few distributions have.
_ROMS: Final = {"snp": "OVMF.amdsev.fd", "tdx": "OVMF.inteltdx.fd or OVMF.inteltdx.secboot.fd"}
# How long a VM that starts paused shows its boot menu, in milliseconds: time to open a console.
_BOOT_MENU_MS: Final = 10_000


def add_os(domain: Element, vmi: VirtualMachineInstance, platform: Platform, context: DomainContext) -> None:
    """Machine, firmware, kernel and boot menu.

    Raises:
        ConversionError: when the node has no such firmware, or the kernel was not found.
    """
    firmware = vmi.spec.domain.firmware or Firmware()
    element = add(domain, "os")
    add(element, "type", "hvm", arch=platform.architecture, machine=platform.machine)
    if platform.firmware == "uefi":
        _add_uefi(element, platform, context.ovmf)
    if firmware.kernel_boot is not None:
        _add_kernel(element, firmware.kernel_boot, context)
    if context.acpi_tables:
        _add_tables(element, context)
    if context.start_paused:
        add(element, "bootmenu", enable="yes", timeout=_BOOT_MENU_MS)
    add(element, "smbios", mode="sysinfo")
    bios = firmware.bootloader.bios if firmware.bootloader is not None else None
    if bios is not None and bios.use_serial:
        add(element, "bios", useserial="yes")


def _add_uefi(element: Element, platform: Platform, ovmf: OvmfFiles | None) -> None:
    field = f"{_FIRMWARE}.bootloader.efi"
    if ovmf is None and platform.encryption in _ROMS:
        kind = platform.encryption.upper()
        detail = f"this node has no UEFI firmware for {kind}, {_ROMS[platform.encryption]}"
        raise ConversionError(field, detail, "install it, such as by the package of edk2, into /usr/share/OVMF")
    if ovmf is None:
        raise ConversionError(
            field,
            "this node has no UEFI firmware for it",
            "install the package ovmf (amd64) or qemu-efi-aarch64 (arm64)",
        )
    if platform.secure_boot and not ovmf.secure:
        raise ConversionError(
            f"{field}.secureBoot",
            "this node's UEFI firmware was built without secure boot",
            "install the distribution's ovmf package, or set secureBoot to false",
        )
    if ovmf.rom:
        add(element, "loader", ovmf.code, readonly="yes", type="rom")
        return
    # arm64 knows no such attribute: libvirt refuses it there even as "no".
    secure = yes_no(platform.secure_boot) if platform.architecture == "x86_64" else None
    add(element, "loader", ovmf.code, readonly="yes", secure=secure, type="pflash")
    add(element, "nvram", ovmf.nvram, template=ovmf.vars_template)


def _add_tables(element: Element, context: DomainContext) -> None:
    if MSDM in context.acpi_tables:
        otherwise = "remove it, or use a node with a newer libvirt (Debian 13 has it)"
        require_libvirt(context, MSDM_TABLE, f"{_FIRMWARE}.acpi.msdmNameRef", otherwise)
    tables = add(element, "acpi")
    for kind, path in context.acpi_tables.items():
        add(tables, "table", path, type=kind)


def _add_kernel(element: Element, boot: KernelBoot, context: DomainContext) -> None:
    field = f"{_FIRMWARE}.kernelBoot"
    files = context.kernel_boot
    if boot.container is None:
        if boot.kernel_args:
            raise ConversionError(f"{field}.kernelArgs", "there is no kernel to give them to", "add container")
        return
    for wanted, found, name in (
        (boot.container.kernel_path, files and files.kernel, "kernelPath"),
        (boot.container.initrd_path, files and files.initrd, "initrdPath"),
    ):
        if wanted and not found:
            raise ConversionError(
                f"{field}.container.{name}", f"{wanted} was not found in the image", "check the path within the image"
            )
    if files is None:
        raise ConversionError(f"{field}.container", "names neither kernel nor initrd", "set kernelPath")
    if files.kernel is not None:
        add(element, "kernel", files.kernel)
    if files.initrd is not None:
        add(element, "initrd", files.initrd)
    if boot.kernel_args and files.kernel is None:
        raise ConversionError(f"{field}.kernelArgs", "there is no kernel to give them to", "set container.kernelPath")
    if boot.kernel_args:
        add(element, "cmdline", boot.kernel_args)
