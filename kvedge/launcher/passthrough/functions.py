"""The functions of cards that go to a guest: found in what the Pod was given, and looked at on the node.

Called by `vmi_preparation`. Reads the Pod's annotation and environment, sysfs, and the Pod's /dev.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from kvedge.launcher.launcher_errors import BadRequest, Unanswered
from kvedge.launcher.passthrough.claim_metadata import read_told_device
from kvedge.launcher.passthrough.function_plan import WantedFunction, check_apart, pair_functions
from kvedge.launcher.passthrough.function_rules import FunctionFacts, check_function
from kvedge.resources.host_devices.claimed_devices import claimed_devices
from kvedge.resources.types.sriov_networks import (
    NETWORK_INFO_DIRECTORY,
    NETWORK_INFO_FILE,
    NetworkDevice,
    parse_network_info,
    resource_variable,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.pci_addresses import is_pci_address

# The longest text of a Pod's device plugins: an annotation holds no more.
_LARGEST: Final = 256 << 10
_LONGEST_SHOWN: Final = 40


def functions_of(vmi: VirtualMachineInstance, root: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The PCI addresses of the guest's functions on this node, by interface; each can be used now.

    Raises:
        BadRequest: when nothing says which function an interface is.
        DeviceUnusable: when one cannot be used as it is.
        Unanswered: when nobody has told of the Pod's networks yet.
    """
    wanted = [
        WantedFunction(
            item.name, f"spec.domain.devices.interfaces[{index}]", environment.get(resource_variable(item.name), "")
        )
        for index, item in enumerate(vmi.spec.domain.devices.interfaces)
        if item.sriov is not None
    ]
    claimed = {device.name: device for device in claimed_devices(vmi.spec) if device.kind == "networks"}
    of_plugins = [nic for nic in wanted if nic.name not in claimed]
    paired = pair_functions(of_plugins, _read_told(root), environment) if of_plugins else {}
    for nic in wanted:
        giver = f"the device plugin of {nic.resource or 'the network'}"
        if nic.name in claimed:
            told = read_told_device(claimed[nic.name], vmi.spec.resource_claims, root)
            paired[nic.name], giver = told.pci_address, told.giver
        _check(nic, paired[nic.name], giver, root)
    check_apart(wanted, paired)
    return paired


def _check(nic: WantedFunction, address: str, giver: str, root: str) -> None:
    field = f"{nic.field}.sriov"
    if not address:
        raise BadRequest(field, f"{giver} tells no PCI address of its function", "use a network of functions")
    if not is_pci_address(address):
        raise BadRequest(field, f"{address[:_LONGEST_SHOWN]!r} is no PCI address", "restart the VM")
    check_function(field, giver, address, read_facts(address, root))


def _read_told(root: str) -> list[NetworkDevice]:
    try:
        with open(f"{root}{NETWORK_INFO_DIRECTORY}/{NETWORK_INFO_FILE}", "rb") as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:
        text = b""
    if not text.strip():
        raise Unanswered(
            "it is waited for Multus, which tells the Pod's functions by the annotation network-status; see that Multus"
            " runs on this node"
        )
    try:
        return parse_network_info(text)
    except ValueError as error:
        raise Unanswered(f"what is told of the Pod's networks cannot be read: {error}") from error


def read_facts(address: str, root: str) -> FunctionFacts:
    """What is seen of a PCI function, whatever it is."""
    device = f"{root}/sys/bus/pci/devices/{address.lower()}"
    group = _name_of_link(f"{device}/iommu_group")
    node = f"{root}/dev/vfio/{group}"
    return FunctionFacts(
        is_there=os.path.isdir(device),
        driver=_name_of_link(f"{device}/driver"),
        group=group,
        has_node=bool(group) and os.path.exists(node),
        is_usable=bool(group) and os.access(node, os.R_OK | os.W_OK),
        has_vfio=os.path.exists(f"{root}/dev/vfio/vfio"),
    )


def _name_of_link(path: str) -> str:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""
