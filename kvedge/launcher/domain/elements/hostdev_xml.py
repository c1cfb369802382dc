"""`<hostdev>`: a device of the node that the guest has for itself; here a virtual function of a NIC.

MAC and VLAN are the card's, which the Pod's CNI plugin has told it. The function is VFIO's before the launcher starts,
so that libvirt leaves its driver alone. Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.elements.pci_address_xml import add_host_address, add_pci_address
from kvedge.launcher.domain.xml_tree import add, new
from kvedge.resources.names import SRIOV_PREFIX
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.vmi import VirtualMachineInstance


def add_functions(devices: Element, vmi: VirtualMachineInstance, context: DomainContext) -> None:
    """The interfaces with `sriov`, in the VMI's order.

    Raises:
        ConversionError: for one that cannot be.
    """
    for index, interface in enumerate(vmi.spec.domain.devices.interfaces):
        if interface.sriov is not None:
            devices.append(function_element(interface, context, f"spec.domain.devices.interfaces[{index}]"))


def function_element(interface: Interface, context: DomainContext, field: str) -> Element:
    """One of them, by its path in the VMI.

    Raises:
        ConversionError: when it cannot be.
    """
    if interface.state:
        raise ConversionError(
            f"{field}.state", f"{interface.state} is not supported for SR-IOV NICs", "remove it: the guest has the NIC"
        )
    address = context.functions.get(interface.name)
    if address is None:
        raise ConversionError(f"{field}.sriov", "the Pod has no function for it", "restart the VM")
    element = new("hostdev", mode="subsystem", type="pci", managed="no")
    add_host_address(add(element, "source"), address, f"{field}.sriov")
    if interface.boot_order is not None:
        add(element, "boot", order=interface.boot_order)
    add_alias(element, SRIOV_PREFIX + interface.name, f"{field}.name")
    if interface.acpi_index:
        add(element, "acpi", index=interface.acpi_index)
    add_pci_address(element, interface.pci_address, f"{field}.pciAddress")
    return element
