"""Which virtual function of a card each SR-IOV interface is.

Called by `functions`. Pure. Multus tells it where the device plugin has written down what its devices are: that pairs
network and function exactly, MAC and VLAN included. The plugin's variable has the functions of a resource in no order
that anybody promises, so that it decides only where one interface and one function are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.resources.types.sriov_networks import NetworkDevice, devices_variables

_MOST_SHOWN: Final = 4


class WantedFunction(Struct, frozen=True):
    """An interface that is a function: its name, its path in the VMI, and the resource of its network, if known."""

    name: str
    field: str
    resource: str = ""


def pair_functions(
    wanted: Sequence[WantedFunction], told: Iterable[NetworkDevice], offered: Mapping[str, str]
) -> dict[str, str]:
    """The PCI address of each interface's function, by the interface's name.

    `told` is what Multus says, `offered` the variables of the launcher's container.

    Raises:
        BadRequest: when nothing says which function an interface is.
    """
    known = {device.network: device for device in told}
    paired = {nic.name: address for nic in wanted if (address := _read_told_address(nic, known.get(nic.name), offered))}
    check_apart(wanted, paired)
    taken = frozenset(paired.values())
    open_ones = [nic for nic in wanted if nic.name not in paired]
    for nic in open_ones:
        rivals = [other.name for other in open_ones if other.resource == nic.resource]
        paired[nic.name] = _choose_only_offered(nic, rivals, offered, taken)
    check_apart(wanted, paired)
    return paired


def _read_told_address(nic: WantedFunction, device: NetworkDevice | None, offered: Mapping[str, str]) -> str:
    if device is None or device.device_info is None:
        return ""
    address = device.pci_address
    if not address:
        kind = str(device.device_info.get("type"))[:20]
        raise BadRequest(
            f"{nic.field}.sriov",
            f"the device of its network is of type {kind!r}, and no function of a PCI card",
            "use a network whose device plugin gives functions bound to vfio-pci",
        )
    given = list(_addresses(nic.resource, offered)) if nic.resource else []
    if given and address not in given:
        raise BadRequest(
            f"{nic.field}.sriov",
            f"its function is {address[:20]} by its network, which the Pod was not given: its functions of"
            f" {nic.resource} are {', '.join(given[:_MOST_SHOWN])}",
            "restart the VM: its Pod is made anew",
        )
    return address


def _choose_only_offered(
    nic: WantedFunction, rivals: Collection[str], offered: Mapping[str, str], taken: Collection[str]
) -> str:
    field = f"{nic.field}.sriov"
    if not nic.resource:
        raise BadRequest(
            field,
            "Multus does not say which function its network is, and no resource is known of the network",
            "restart the VM: its Pod is made anew",
        )
    left = [address for address in _addresses(nic.resource, offered) if address not in taken]
    if not left:
        raise BadRequest(
            field,
            f"the Pod has no function of {nic.resource} for it: neither Multus nor {devices_variables(nic.resource)[0]}"
            " names one",
            "see that the node's SR-IOV device plugin has the resource, then restart the VM",
        )
    if len(rivals) > 1 or len(left) > 1:
        raise BadRequest(
            field,
            f"which function of {nic.resource} it is cannot be told: {len(left)} functions for"
            f" {', '.join(sorted(rivals)[:_MOST_SHOWN])}, and Multus tells no device-info",
            "use an SR-IOV device plugin of version 3.3 or later with Multus 3.8 or later, or give each interface a"
            " network with a resource of its own",
        )
    return left[0]


def _addresses(resource: str, offered: Mapping[str, str]) -> Iterator[str]:
    text = next((offered[name] for name in devices_variables(resource) if offered.get(name)), "")
    yield from dict.fromkeys(part for each in text.split(",") if (part := each.strip()))


def check_apart(wanted: Sequence[WantedFunction], paired: Mapping[str, str]) -> None:
    """Raises BadRequest when two interfaces are one function."""
    holders: dict[str, str] = {}
    for nic in wanted:
        address = paired.get(nic.name, "")
        other = holders.setdefault(address, nic.name)
        if address and other != nic.name:
            raise BadRequest(
                f"{nic.field}.sriov", f"its function {address} is that of interface {other} too", "restart the VM"
            )
