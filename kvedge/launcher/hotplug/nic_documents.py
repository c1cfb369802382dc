"""The documents of NICs that are to be plugged into a running domain.

Runs in the process of `disk_documents`, for the same reason. One NIC that cannot be rendered keeps no other one back.
Touches nothing.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import tostring

from kvedge.launcher.disks.vmi_preparation import this_architecture
from kvedge.launcher.domain.context import DomainContext, InterfaceTarget
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.interface_xml import interface_element
from kvedge.launcher.domain.platform import platform_of
from kvedge.resources.codec import DecodeError, decode
from kvedge.resources.types.guest_nics import nic_queues
from kvedge.resources.types.vmi import VirtualMachineInstance


def nic_documents(question: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By NIC: `xml`, or the `error` that keeps it from being one.

    The question has `vmi`, `nics` (by name: `tap`, `mac`, `mtu`) and `libvirtVersion`.
    """
    try:
        vmi = decode(VirtualMachineInstance, question["vmi"])
    except DecodeError as error:
        return {name: {"error": f"{error.path or 'the VMI'}: {error.detail}"} for name in question["nics"]}
    made = {}
    for name in question["nics"]:
        try:
            made[name] = {"xml": _document(vmi, name, question)}
        except ConversionError as error:
            made[name] = {"error": str(error)}
    return made


def _document(vmi: VirtualMachineInstance, name: str, question: dict[str, Any]) -> str:
    interfaces = enumerate(vmi.spec.domain.devices.interfaces)
    index, interface = next((index, item) for index, item in interfaces if item.name == name)
    given = question["nics"][name]
    target = InterfaceTarget(tap=given["tap"], mac=given["mac"], mtu=given["mtu"], queues=nic_queues(vmi, interface))
    context = DomainContext(
        architecture=this_architecture(),
        emulation=False,
        serial_socket="",
        vnc_socket="",
        interfaces={name: target},
        libvirt_version=question["libvirtVersion"],
    )
    field = f"spec.domain.devices.interfaces[{index}]"
    element = interface_element(interface, platform_of(vmi, context.architecture), context, field)
    return tostring(element, encoding="unicode")
