"""What a guest is told of its tagged GPUs, other host devices and functions of NICs: where each sits, and which of its
CPUs are near.

Called by `vmi_preparation`; cloud-init's config drive shows it. Reads sysfs. The words are KubeVirt's. A device's cell
is the guest's own, as KubeVirt's number of the node's cell is none that the guest knows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from kvedge.launcher.domain.context import DomainContext, PassedDevice
from kvedge.launcher.domain.placement.numa_plan import plan_numa
from kvedge.launcher.domain.placement.pin_plan import plan_pins
from kvedge.launcher.domain.placement.tagged_devices import place_tagged
from kvedge.launcher.domain.platform import platform_of
from kvedge.resources.host_devices.cpu_placement import mirrors_numa
from kvedge.resources.types.guest_nics import interface_mac
from kvedge.resources.types.vmi import VirtualMachineInstance

_LONGEST_NUMBER: Final = 16
# Where the kernel tells of a device's cell. A mediated device is a folder in that of its parent; USB has no cell.
_FOLDERS: Final = {"pci": "sys/bus/pci/devices/{}", "mdev": "sys/bus/mdev/devices/{}"}


def describe_tagged(
    vmi: VirtualMachineInstance, context: DomainContext, root: str, *, comes: bool = False
) -> list[dict[str, object]]:
    """The tagged devices: functions of NICs, then GPUs, then the others.

    Of a function the place is told that was asked for, as libvirt chooses it otherwise. With a guest that `comes` from
    another node, nothing is told of near CPUs: its image is cut to the length that it had there.

    Raises:
        ConversionError: when the guest cannot have the CPUs or the cells that it asks for.
    """
    placed = place_tagged(vmi, context, platform_of(vmi, context.architecture))
    functions = [item for item in vmi.spec.domain.devices.interfaces if item.tag and item.name in context.functions]
    if not placed and not functions:
        return []
    near = None if comes else _NearCpus(vmi, context)

    def describe_near(device: PassedDevice) -> dict[str, object]:
        return {} if near is None else near.describe(_read_cell(device, root))

    told: list[dict[str, object]] = [
        {
            "type": "nic",
            "bus": "pci",
            **({"address": item.pci_address} if item.pci_address else {}),
            "mac": interface_mac(vmi, item),
            **describe_near(PassedDevice(kind="pci", address=context.functions[item.name])),
            "tags": [item.tag],
        }
        for item in functions
    ]
    return told + [
        {
            "type": "hostdev",
            "bus": "usb" if each.device.kind == "usb" else "pci",
            "tags": [each.tag],
            **({"address": each.place} if each.place else {}),
            **describe_near(each.device),
        }
        for each in placed
    ]


class _NearCpus:
    """The cells of the guest, or its CPUs by the cells of the node; of a guest that shares CPUs neither."""

    def __init__(self, vmi: VirtualMachineInstance, context: DomainContext) -> None:
        spec = vmi.spec.domain
        pins = plan_pins(vmi, context, 0)
        cells = plan_numa(spec, context, pins)
        self._guest_cells = {cell.host_cell: number for number, cell in enumerate(cells)}
        self._pinned: Sequence[int] = () if mirrors_numa(spec) else pins.vcpus
        self._node_cells = {
            cell.number: {cpu for core in cell.cores for cpu in core} for cell in context.host_cpus.cells
        }

    def describe(self, cell: int | None) -> dict[str, object]:
        if cell is None:
            return {}
        if cell in self._guest_cells:
            return {"numaNode": self._guest_cells[cell]}
        near = self._node_cells.get(cell, set())
        aligned = [number for number, cpu in enumerate(self._pinned) if cpu in near]
        return {"alignedCPUs": aligned} if aligned else {}


def _read_cell(device: PassedDevice, root: str) -> int | None:
    """The node's cell that the device is in; None when the kernel knows none."""
    if device.kind == "usb":
        return None
    folder = os.path.realpath(os.path.join(root or "/", _FOLDERS[device.kind].format(device.address.lower())))
    if device.kind == "mdev":
        folder = os.path.dirname(folder)
    try:
        with open(f"{folder}/numa_node") as file:
            number = int(file.read(_LONGEST_NUMBER))
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None
