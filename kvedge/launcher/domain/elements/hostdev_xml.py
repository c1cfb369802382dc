"""`<hostdev>`: a device of the node that the guest has for itself: virtual functions of NICs, GPUs, other PCI
functions, mediated devices, USB devices.

MAC and VLAN of a NIC are the card's, which the Pod's CNI plugin has told it. A function is VFIO's before the launcher
starts, so that libvirt leaves its driver alone. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext, PassedDevice
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.elements.pci_address_xml import add_host_address, add_pci_address
from kvedge.launcher.domain.xml_tree import add, new
from kvedge.resources.names import SRIOV_PREFIX
from kvedge.resources.types.devices import Devices, Gpu, HostDevice, Interface
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import has_screen

# Before the entry's name in the alias, as KubeVirt has it.
_GPU: Final = "gpu-"
_HOST_DEVICE: Final = "hostdevice-"
_USB: Final = "usb-host-"
_CLAIMED: Final = "dra-"


class _Entry(NamedTuple):
    """A GPU or another device of the VMI: its list, what stands before its name in the alias, its path."""

    kind: str
    prefix: str
    device: Gpu | HostDevice
    at: str

    @property
    def field(self) -> str:
        """That which says which device it is."""
        return f"{self.at}.{'claimName' if self.device.is_claimed else 'deviceName'}"

    @property
    def alias_prefix(self) -> str:
        """One that tells apart those of claims."""
        return f"{_CLAIMED}{self.prefix}" if self.device.is_claimed else self.prefix


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


def add_host_devices(
    devices: Element, vmi: VirtualMachineInstance, context: DomainContext, places: Mapping[PassedDevice, str]
) -> None:
    """GPUs first, in the VMI's order; `places` are those in the guest that some of them are to have.

    Raises:
        ConversionError: for one that cannot be.
    """
    spec = vmi.spec.domain.devices
    for index, gpu in enumerate(spec.gpus):
        entry = _Entry("gpus", _GPU, gpu, f"spec.domain.devices.gpus[{index}]")
        for device, name in _find_passed(entry, context):
            element = _element(device, entry, name)
            _place(element, device, places.get(device, ""), entry.at)
            _show(element, device, gpu, spec, context, entry.at)
            devices.append(element)
    for index, other in enumerate(spec.host_devices):
        entry = _Entry("hostDevices", _HOST_DEVICE, other, f"spec.domain.devices.hostDevices[{index}]")
        for device, name in _find_passed(entry, context):
            element = _element(device, entry, name)
            _place(element, device, places.get(device, ""), entry.at)
            devices.append(element)


def needs_usb(context: DomainContext) -> bool:
    """Whether a device comes that is on USB."""
    return any(device.kind == "usb" for passed in context.host_devices.values() for device in passed)


def _find_passed(entry: _Entry, context: DomainContext) -> Iterator[tuple[PassedDevice, str]]:
    """The devices of an entry, each with a name of its own."""
    name = entry.device.name
    passed = context.host_devices.get(f"{entry.kind}/{name}", ())
    if not passed:
        raise ConversionError(entry.field, "the Pod has no device for it", "restart the VM")
    for number, device in enumerate(passed, 1):
        yield device, name if number == 1 else f"{name}-{number}"


def _element(device: PassedDevice, entry: _Entry, name: str) -> Element:
    # libvirt wants a driver for the guest's side of a mediated device.
    model = "vfio-pci" if device.kind == "mdev" else None
    managed = "no" if device.kind == "pci" else None
    element = new("hostdev", mode="subsystem", type=device.kind, managed=managed, model=model)
    source = add(element, "source")
    if device.kind == "pci":
        add_host_address(source, device.address, entry.field)
    elif device.kind == "mdev":
        add(source, "address", uuid=device.address)
    else:
        bus, _, number = device.address.partition(":")
        add(source, "address", bus=bus, device=number)
    add_alias(element, (_USB if device.kind == "usb" else entry.alias_prefix) + name, f"{entry.at}.name")
    return element


def _place(element: Element, device: PassedDevice, place: str, field: str) -> None:
    if place and device.kind == "usb":
        bus, _, port = place.partition(":")
        add(element, "address", type="usb", bus=bus, port=port)
    else:
        add_pci_address(element, place, field)


def _show(element: Element, device: PassedDevice, gpu: Gpu, spec: Devices, context: DomainContext, field: str) -> None:
    """The guest's screen is a virtual GPU's too where the VMI says so; without a word, that of the first one.

    Raises:
        ConversionError: when it is to be that of a whole GPU, which libvirt shows on the GPU's own outputs alone.
    """
    display = gpu.display
    if device.kind != "mdev":
        if display is not None and display.enabled:
            here = f"{field}.virtualGPUOptions.display.enabled"
            raise ConversionError(here, "only virtual GPUs are shown on the guest's screen", "remove it")
        return
    if not has_screen(spec):
        return
    if display is None:
        if any(each.display is not None for each in spec.gpus) or device != _first_virtual(spec, context):
            return
        shown, ramfb = True, True
    else:
        shown, ramfb = display.is_on, display.has_ramfb
    if shown:
        element.set("display", "on")
        if ramfb:
            element.set("ramfb", "on")


def _first_virtual(spec: Devices, context: DomainContext) -> PassedDevice | None:
    passed = (device for gpu in spec.gpus for device in context.host_devices.get(f"gpus/{gpu.name}", ()))
    return next((device for device in passed if device.kind == "mdev"), None)
