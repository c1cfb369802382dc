"""The documents of NICs that are to be plugged into a running domain.

Runs in the process of `disk_documents`, for the same reason. One NIC that cannot be rendered keeps no other one back.
Looks at the Pod's functions of cards where one of these comes; touches nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, tostring

from kvedge.launcher.disks.vmi_preparation import this_architecture
from kvedge.launcher.domain.context import DomainContext, InterfaceTarget
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.hostdev_xml import function_element
from kvedge.launcher.domain.elements.interface_xml import interface_element
from kvedge.launcher.domain.platform import platform_of
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.passthrough.functions import functions_of
from kvedge.resources.codec import DecodeError, decode
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import nic_queues
from kvedge.resources.types.vmi import VirtualMachineInstance


def nic_documents(question: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By NIC: `xml`, or the `error` that keeps it from being one.

    The question has `vmi`, `nics` (by name: `tap`, `mac`, `mtu`) and `libvirtVersion`; where functions come also their
    names (`functions`), and the `root` before the Pod's paths.
    """
    try:
        vmi = decode(VirtualMachineInstance, question["vmi"])
    except DecodeError as error:
        text = f"{error.path or 'the VMI'}: {error.detail}"
        return {name: {"error": text} for name in (*question["nics"], *question.get("functions", ()))}
    made: dict[str, dict[str, Any]] = dict(_function_documents(vmi, question))
    for name in question["nics"]:
        try:
            made[name] = {"xml": _document(vmi, name, question)}
        except ConversionError as error:
            made[name] = {"error": str(error)}
    return made


def _function_documents(vmi: VirtualMachineInstance, question: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    names = question.get("functions", ())
    if not names:
        return
    try:
        context = _context(question, functions=functions_of(vmi, question["root"], os.environ))
    except LauncherError as error:
        yield from ((name, {"error": str(error)}) for name in names)
        return
    for name in names:
        interface, field = _find(vmi, name)
        try:
            yield name, {"xml": _text(function_element(interface, context, field))}
        except ConversionError as error:
            yield name, {"error": str(error)}


def _document(vmi: VirtualMachineInstance, name: str, question: dict[str, Any]) -> str:
    interface, field = _find(vmi, name)
    given = question["nics"][name]
    target = InterfaceTarget(tap=given["tap"], mac=given["mac"], mtu=given["mtu"], queues=nic_queues(vmi, interface))
    context = _context(question, interfaces={name: target})
    return _text(interface_element(interface, platform_of(vmi, context.architecture), context, field))


def _find(vmi: VirtualMachineInstance, name: str) -> tuple[Interface, str]:
    interfaces = enumerate(vmi.spec.domain.devices.interfaces)
    index, interface = next((index, item) for index, item in interfaces if item.name == name)
    return interface, f"spec.domain.devices.interfaces[{index}]"


def _context(question: dict[str, Any], **found: Any) -> DomainContext:
    return DomainContext(
        architecture=this_architecture(),
        emulation=False,
        serial_socket="",
        vnc_socket="",
        libvirt_version=question["libvirtVersion"],
        **found,
    )


def _text(element: Element) -> str:
    return tostring(element, encoding="unicode")
