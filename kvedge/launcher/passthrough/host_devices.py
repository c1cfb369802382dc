"""GPUs and other devices of the node that go to a guest: found in what the Pod was given, and looked at.

Called by `vmi_preparation`. Reads the Pod's environment, sysfs, and the Pod's /dev. libvirt's own words for a device
that cannot be used name neither the VMI's field nor the device plugin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.launcher.domain.context import PassedDevice
from kvedge.launcher.launcher_errors import BadRequest, DeviceUnusable
from kvedge.launcher.passthrough.claim_metadata import ToldDevice, read_told_device
from kvedge.launcher.passthrough.function_rules import check_function
from kvedge.launcher.passthrough.functions import read_facts
from kvedge.launcher.passthrough.host_device_plan import WantedDevice, pair_devices, wanted_devices
from kvedge.resources.host_devices.claimed_devices import ClaimedDevice, claimed_devices
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.pci_addresses import is_pci_address

_LONGEST_SHOWN: Final = 40
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_USB: Final = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")
_RESTART: Final = "restart the VM: its Pod is made anew"


def host_devices_of(
    vmi: VirtualMachineInstance, root: str, environment: Mapping[str, str]
) -> dict[str, tuple[PassedDevice, ...]]:
    """The guest's devices, by their list and name; each can be used now.

    Raises:
        BadRequest: when the Pod has too few, or names one that is none.
        DeviceUnusable: when one cannot be used as it is.
    """
    wanted = wanted_devices(vmi)
    paired = pair_devices(wanted, environment)
    for claimed in claimed_devices(vmi.spec):
        if claimed.kind != "networks":
            told = read_told_device(claimed, vmi.spec.resource_claims, root)
            wanted.append(WantedDevice(claimed.key, f"{claimed.field}.claimName", "", told.driver))
            paired[claimed.key] = (_choose_told(claimed, told),)
    for entry, device in _pairs(wanted, paired):
        _CHECKS[device.kind](entry, device.address, root)
    _check_apart(wanted, paired)
    return paired


def _choose_told(claimed: ClaimedDevice, told: ToldDevice) -> PassedDevice:
    """A mediated device may be told with the address of the card that it is a part of."""
    if told.mdev_uuid:
        return PassedDevice(kind="mdev", address=told.mdev_uuid)
    if told.pci_address:
        return PassedDevice(kind="pci", address=told.pci_address)
    raise BadRequest(
        f"{claimed.field}.claimName",
        f"{told.giver} tells neither a PCI address nor a mediated device of it",
        "claim a device that can be a guest's",
    )


def _check_apart(wanted: list[WantedDevice], paired: Mapping[str, tuple[PassedDevice, ...]]) -> None:
    """A device plugin and a driver that know nothing of each other may both have a device."""
    taken: set[str] = set()
    for entry, device in _pairs(wanted, paired):
        address = device.address.lower()
        if address in taken:
            raise BadRequest(entry.field, f"its device {address} is that of another entry too", _RESTART)
        taken.add(address)


def _pairs(
    wanted: list[WantedDevice], paired: Mapping[str, tuple[PassedDevice, ...]]
) -> Iterator[tuple[WantedDevice, PassedDevice]]:
    for entry in wanted:
        for device in paired[entry.key]:
            yield entry, device


def _check_pci(entry: WantedDevice, address: str, root: str) -> None:
    if not is_pci_address(address):
        raise _none(entry, address, "PCI address")
    check_function(entry.field, entry.giver, address, read_facts(address, root))


def _check_mdev(entry: WantedDevice, address: str, root: str) -> None:
    if _UUID.fullmatch(address) is None:
        raise _none(entry, address, "UUID of a mediated device")
    device = f"{root}/sys/bus/mdev/devices/{address}"
    if not os.path.isdir(device):
        raise DeviceUnusable(entry.field, f"mediated device {address} is not on this node", "make it again, as before")
    group = os.path.basename(os.path.realpath(f"{device}/iommu_group"))
    _check_node(entry, f"/dev/vfio/{group}", root)


def _check_usb(entry: WantedDevice, address: str, root: str) -> None:
    match = _USB.fullmatch(address)
    if match is None:
        raise _none(entry, address, "USB device (bus:device)")
    _check_node(entry, f"/dev/bus/usb/{int(match[1]):03}/{int(match[2]):03}", root)


def _check_node(entry: WantedDevice, node: str, root: str) -> None:
    if not os.path.exists(root + node):
        raise DeviceUnusable(
            entry.field,
            f"the Pod lacks {node}, by which the device of {entry.giver} is used",
            f"see with `kvedge device list` whether the device is still on the node, then {_RESTART}",
        )
    if not os.access(root + node, os.R_OK | os.W_OK):
        raise DeviceUnusable(
            entry.field, f"{node} may not be opened", "see that the node's handler runs, which gives it to the launcher"
        )


def _none(entry: WantedDevice, address: str, what: str) -> BadRequest:
    return BadRequest(entry.field, f"{address[:_LONGEST_SHOWN]!r} is no {what}", _RESTART)


_CHECKS: Final = {"pci": _check_pci, "mdev": _check_mdev, "usb": _check_usb}
