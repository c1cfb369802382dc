"""The functions of cards that go to a guest: found in what the Pod was given, and looked at on the node.

Called by `vmi_preparation`. Reads the Pod's annotation and environment, sysfs, and the Pod's /dev.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from kvedge.launcher.launcher_errors import BadRequest, Unanswered
from kvedge.launcher.passthrough.function_plan import WantedFunction, pair_functions
from kvedge.launcher.passthrough.function_rules import FunctionFacts, check_function
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
    if not wanted:
        return {}
    paired = pair_functions(wanted, _read_told(root), environment)
    for nic in wanted:
        address = paired[nic.name]
        if not is_pci_address(address):
            raise BadRequest(f"{nic.field}.sriov", f"{address[:_LONGEST_SHOWN]!r} is no PCI address", "restart the VM")
        check_function(nic, address, read_facts(address, root))
    return paired


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
