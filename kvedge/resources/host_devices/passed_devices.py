"""Devices of the node that go to a guest: what its Pod asks for, and how a device plugin tells the launcher of them.

Called by the controller, the handler and the launcher. Pure. The variables are KubeVirt's, so that device plugins of
others serve kvedge as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from kvedge.resources.types.sriov_networks import passes_functions
from kvedge.resources.types.vmi import VirtualMachineInstance

DeviceKind = Literal["pci", "mdev", "usb"]

# Before a resource's name in the variable that has its addresses: of PCI functions, UUIDs of mediated devices, or
# `bus:device` of USB.
VARIABLES: Final[Mapping[DeviceKind, str]] = {
    "pci": "PCI_RESOURCE_",
    "mdev": "MDEV_PCI_RESOURCE_",
    "usb": "USB_RESOURCE_",
}
_NOT_IN_VARIABLES: Final = re.compile(r"[^A-Z0-9]")


def passes_devices(vmi: VirtualMachineInstance) -> bool:
    """Whether devices of the node go to this guest, functions of its NICs among them."""
    devices = vmi.spec.domain.devices
    return bool(devices.gpus or devices.host_devices) or passes_functions(vmi)


def device_counts(vmi: VirtualMachineInstance) -> dict[str, int]:
    """How many devices of each resource the guest gets."""
    devices = vmi.spec.domain.devices
    names = [device.device_name for device in devices.gpus] + [device.device_name for device in devices.host_devices]
    return dict(Counter(name for name in names if name))


def addresses_variable(kind: DeviceKind, resource: str) -> str:
    """The variable in which a container has the addresses of its devices of a resource, with commas between."""
    return VARIABLES[kind] + _NOT_IN_VARIABLES.sub("_", resource.upper())
