"""`<interface>`: one per NIC, on a tap that the handler has made, or connected with passt.

libvirt is told not to manage the tap: the launcher could not make one without privileges. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext, InterfaceTarget
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.elements.pci_address_xml import add_pci_address
from kvedge.launcher.domain.libvirt_versions import IGB, require_libvirt
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add, new
from kvedge.launcher.passt.passt_command import LINK_ADDRESS, LINK_PORT
from kvedge.resources.identity import plain_mac
from kvedge.resources.types.devices import NIC_MODELS, NIC_STATES, Interface
from kvedge.resources.types.vmi import VirtualMachineInstance

_NO_BINDING: Final = ("slirp", "macvtap", "passt")


def add_interfaces(devices: Element, vmi: VirtualMachineInstance, platform: Platform, context: DomainContext) -> None:
    """The NICs on taps, in the VMI's order; one whose state is `absent` is left out, and one that the sidecar of a
    binding plugin puts into the document.

    Raises:
        ConversionError: for a NIC that cannot be.
    """
    for index, interface in enumerate(vmi.spec.domain.devices.interfaces):
        if interface.state != "absent" and interface.sriov is None and not _is_of_sidecar(interface, context):
            field = f"spec.domain.devices.interfaces[{index}]"
            devices.append(interface_element(interface, platform, context, field))


def interface_element(interface: Interface, platform: Platform, context: DomainContext, field: str) -> Element:
    """One NIC, as it is at a start and when it comes later.

    Raises:
        ConversionError: for a NIC that cannot be.
    """
    model = _check_model(interface, context, field)
    target = _target_of(interface, context, field)
    virtio = model == "virtio"
    by_passt = interface.passt_binding is not None
    element = new("interface", type="client" if by_passt else "ethernet")
    add(element, "mac", address=plain_mac(interface.mac_address) or target.mac)
    if by_passt:
        add(element, "source", address=LINK_ADDRESS, port=LINK_PORT)
    else:
        add(element, "target", dev=target.tap, managed="no")
    add(element, "model", type=platform.virtio if virtio else model)
    queues = target.queues if target.queues > 1 and not by_passt else None
    if virtio and (queues or platform.iommu):
        add(element, "driver", queues=queues, iommu=platform.iommu)
    if interface.state == "down":
        add(element, "link", state="down")
    if target.mtu and virtio and not by_passt:
        # Only virtio can tell the guest; the others learn the MTU by DHCP. libvirt sets none on a connection.
        add(element, "mtu", size=target.mtu)
    if interface.boot_order is None:
        # Without a ROM the firmware does not wait for PXE, and starts faster.
        add(element, "rom", enabled="no")
    else:
        add(element, "boot", order=interface.boot_order)
    add_alias(element, interface.name, f"{field}.name")
    if interface.acpi_index:
        add(element, "acpi", index=interface.acpi_index)
    add_pci_address(element, interface.pci_address, f"{field}.pciAddress")
    return element


def _is_of_sidecar(interface: Interface, context: DomainContext) -> bool:
    """Whether the handler has prepared no link, as the interface's plugin joins the guest by its sidecar alone."""
    target = context.interfaces.get(interface.name)
    return interface.binding is not None and target is not None and not target.tap


def _check_model(interface: Interface, context: DomainContext, field: str) -> str:
    model = interface.model or "virtio"
    if model not in NIC_MODELS:
        raise ConversionError(f"{field}.model", f"{model} is not supported", f"use one of {', '.join(NIC_MODELS)}")
    if model == "igb":
        require_libvirt(context, IGB, f"{field}.model", "use e1000e or virtio")
    if interface.state not in NIC_STATES:
        raise ConversionError(f"{field}.state", f"{interface.state} is no state", "use up, down or absent")
    return model


def _target_of(interface: Interface, context: DomainContext, field: str) -> InterfaceTarget:
    for name in _NO_BINDING:
        if getattr(interface, name) is not None:
            raise ConversionError(f"{field}.{name}", "this binding is not supported by kvedge", "use bridge: {}")
    if interface.passt_binding is not None and context.passt_obstacle is not None:
        raise ConversionError(f"{field}.passtBinding", *context.passt_obstacle)
    target = context.interfaces.get(interface.name)
    if target is None:
        raise ConversionError(
            f"{field}.name",
            f"no tap was prepared for the interface {interface.name}",
            "add a network of this name to spec.networks",
        )
    return target
