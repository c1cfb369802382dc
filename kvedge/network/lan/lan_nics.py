"""A NIC of a Pod on a network besides its own, of whichever type: what its configuration says, and the making.

Called by the node agent of one box, and by `node_lans` for the handler. Decides by `lan_plan` and `macvtap_plan`.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_addresses import AddressesError
from kvedge.network.lan.lan_config import parse_lan_config
from kvedge.network.lan.lan_plan import LanPort, lan_port
from kvedge.network.lan.lan_ports import attach_lan, detach_lan, switch_lan
from kvedge.network.lan.macvtap_config import parse_macvtap_config
from kvedge.network.lan.macvtap_plan import MacvtapPort, macvtap_port
from kvedge.network.lan.macvtap_ports import attach_macvtap, detach_macvtaps
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.resources.lan_reservations import RESERVATIONS, ReservationsError, annotation_of, reserved_address
from kvedge.resources.types.attachments import NetworkAttachmentDefinition

# A NIC on a bridge of the host, or on a NIC of it.
Port = LanPort | MacvtapPort


def wanted_nic(netns: str, interface: str, mac: str, network: NetworkAttachmentDefinition) -> Port:
    """The NIC that a network's configuration asks for, with the address that is reserved for its MAC.

    Raises:
        LanConfigError: when the configuration cannot be used here.
        ValueError: when the MAC is none, or has no address on a network that gives addresses.
    """
    text = network.spec.config
    if (macvtap := parse_macvtap_config(text)) is not None:
        return macvtap_port(netns, interface, mac, macvtap)
    config = parse_lan_config(text)
    if config.addresses is None:
        return lan_port(netns, interface, mac, config)
    try:
        port = lan_port(netns, interface, mac, config, reserved_address(network, mac) if mac else "")
    except AddressesError as error:
        given = config.addresses
        raise ReservationsError(
            f"metadata.annotations[{annotation_of(network, mac)}]: {mac.lower()}: {error}; reserve another for it, such"
            f" as one of {given.first}-{given.last}"
        ) from error
    if not port.address:
        raise ReservationsError(
            f"no address is reserved for {port.mac} yet; the controller reserves one within seconds while the network"
            " has any left, and otherwise says why by the VMI's event FailedReserve; or write one into"
            f" metadata.annotations[{RESERVATIONS}]"
        )
    return port


def attach_nic(config: NodeNetworkConfig, port: Port, path: Path | None = None) -> None:
    """Give the Pod this NIC; `path` leads to its namespace where that has no name.

    Raises:
        NetworkError: when there can be none of that kind there.
    """
    if isinstance(port, MacvtapPort):
        attach_macvtap(config, port, path)
    else:
        attach_lan(config, port, path)


def switch_nic(config: NodeNetworkConfig, present: Port, wanted: Port) -> None:
    """Take a NIC that a Pod has to another network, without its guest's losing it.

    Raises:
        NetworkError: when that cannot be while the guest runs.
    """
    if isinstance(present, MacvtapPort) or isinstance(wanted, MacvtapPort):
        raise NetworkError(
            "cannot move a NIC of a guest that runs",
            why="one of the two networks is a macvtap, which is a link of its own",
            remedy="restart the VM, which starts on its new network",
        )
    switch_lan(config, wanted)


def detach_nics(config: NodeNetworkConfig, netns: str, kept: Collection[str] = ()) -> None:
    """Take such NICs of a Pod, whose namespace has this name, away, all but those of these names.

    Raises:
        NetworkError: when the kernel refused.
    """
    detach_lan(config, netns, kept)
    detach_macvtaps(netns, kept)
