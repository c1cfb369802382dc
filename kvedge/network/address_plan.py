"""Which address of a Pod CIDR a VM gets. Pure; the node agent keeps the record and calls this."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Network, NetmaskValueError

from kvedge.network.errors import AddressesExhaustedError, NetworkError


def parse_cidr(cidr: str) -> IPv4Network:
    """The Pod CIDR; raises NetworkError for what is none or has no room for a gateway and one VM."""
    try:
        network = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise NetworkError(
            "--pod-cidr is not a network", subject=cidr, why=str(error), remedy="give one such as 10.99.0.0/24"
        ) from error
    if network.prefixlen > 30 or network.prefixlen < 8:
        raise NetworkError("--pod-cidr is too small or too large", subject=cidr, remedy="give a prefix of /8 to /30")
    return network


def gateway_address(cidr: str) -> str:
    """The bridge's own address: the first of the range."""
    return str(parse_cidr(cidr).network_address + 1)


def ipv6_gateway(cidr: str) -> str:
    """The bridge's own IPv6 address: the first of that range."""
    return str(IPv6Network(cidr).network_address + 1)


def ipv6_address_beside(cidr: str, ipv6_cidr: str, address: str) -> str:
    """The IPv6 address of the VM that has this IPv4 address: in its range it has the same place.

    So one record tells both, and whoever keeps the one keeps the other.
    """
    place = int(IPv4Address(address)) - int(parse_cidr(cidr).network_address)
    return str(IPv6Network(ipv6_cidr).network_address + place)


def plan_address(cidr: str, taken: Collection[str], wanted: str | None = None) -> str:
    """The address to give: `wanted` (what this VM had) when it is of the range and free, else the lowest free one.

    The network's, the broadcast and the gateway's address are never given. Raises AddressesExhaustedError.
    """
    network = parse_cidr(cidr)
    gateway = network.network_address + 1
    used = {IPv4Address(address) for address in taken}
    reserved = {network.network_address, gateway, network.broadcast_address}
    if wanted is not None:
        address = IPv4Address(wanted)
        if address in network and address not in reserved and address not in used:
            return wanted
    for address in network.hosts():
        if address != gateway and address not in used:
            return str(address)
    raise AddressesExhaustedError(
        "all addresses are in use",
        subject=cidr,
        why=f"{len(used)} are taken",
        remedy="delete VMs that are not needed, or start with a larger --pod-cidr",
    )
