"""`<sysinfo>`: what SMBIOS tells the guest about the computer it runs on, and files that QEMU's firmware device has.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.elements.identity_xml import domain_uuid
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.domain import Chassis, Firmware
from kvedge.resources.types.vmi import VirtualMachineInstance


def add_sysinfo(domain: Element, vmi: VirtualMachineInstance, context: DomainContext) -> None:
    """The tables `system` and, when the VMI fills it, `chassis`."""
    sysinfo = add(domain, "sysinfo", type="smbios")
    firmware = vmi.spec.domain.firmware or Firmware()
    _add_entries(
        sysinfo,
        "system",
        {
            "manufacturer": context.smbios.manufacturer,
            "product": context.smbios.product,
            "version": context.smbios.version,
            "serial": firmware.serial,
            "uuid": domain_uuid(vmi),
            "sku": context.smbios.sku,
            "family": context.smbios.family,
        },
    )
    chassis = vmi.spec.domain.chassis or Chassis()
    _add_entries(
        sysinfo,
        "chassis",
        {
            "manufacturer": chassis.manufacturer,
            "version": chassis.version,
            "serial": chassis.serial,
            "asset": chassis.asset,
            "sku": chassis.sku,
        },
    )


def add_firmware_files(domain: Element, context: DomainContext) -> None:
    """Ignition's config, under the name by which Ignition asks QEMU for it."""
    if context.ignition is not None:
        add(add(domain, "sysinfo", type="fwcfg"), "entry", name="opt/com.coreos/config", file=context.ignition)


def _add_entries(sysinfo: Element, table: str, entries: dict[str, str]) -> None:
    filled = {name: value for name, value in entries.items() if value}
    if not filled:
        return
    element = add(sysinfo, table)
    for name, value in filled.items():
        add(element, "entry", value, name=name)
