"""What the roles must agree on about masquerade: the guest's own little network, and what a mesh's sidecar keeps.

Called by admission, which refuses a network that has no room, by the controller, which tells the sidecar of the bridge,
and by the handler, which makes the network. Touches nothing.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from msgspec import Struct

from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Network

DEFAULT_CIDR: Final = "10.0.2.0/24"
DEFAULT_IPV6_CIDR: Final = "fd10:0:2::/120"
# The bridge's MAC is the same in every Pod, so that a guest that moves finds its router where it was.
BRIDGE_MAC: Final = "02:00:00:00:00:00"
# By this annotation of a VMI, its Pod gets a sidecar.
INJECT_SIDECAR: Final = "sidecar.istio.io/inject"
# By these of the Pod, the sidecar takes what comes from the guest: the older name, and the newer.
SIDECAR_BRIDGES: Final = ("traffic.sidecar.istio.io/kubevirtInterfaces", "istio.io/reroute-virtual-interfaces")
POD_BRIDGE: Final = "k6t-eth0"
# What the sidecar itself serves, on which no guest is.
SIDECAR_PORTS: Final = (15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090)
# The network's own address, the bridge's, the guest's, and the last, which is everybody's.
_FEWEST_ADDRESSES: Final = 4
_LONGEST_TEXT: Final = 64


class BadGuestNetwork(ValueError):
    """No network for a guest; the text says why, in KubeVirt's words."""


class GuestSubnet(Struct, frozen=True):
    """A guest's network in its Pod: the bridge's address and the guest's."""

    gateway: str
    guest: str
    prefix_length: int

    @property
    def cidr(self) -> str:
        """The network."""
        return str(ipaddress.ip_interface(f"{self.gateway}/{self.prefix_length}").network)


def guest_subnet(network: Network, version: int) -> GuestSubnet:
    """The guest's network of that IP version behind this network of a VMI. Raises BadGuestNetwork."""
    pod = network.pod
    asked = "" if pod is None else pod.vm_network_cidr if version == 4 else pod.vm_ipv6_network_cidr
    return parse_guest_subnet(asked or (DEFAULT_CIDR if version == 4 else DEFAULT_IPV6_CIDR), version)


def parse_guest_subnet(text: str, version: int) -> GuestSubnet:
    """The network that this text names; its address may be any of the network's. Raises BadGuestNetwork."""
    found = _network(text, version)
    if found.num_addresses < _FEWEST_ADDRESSES:
        raise BadGuestNetwork(
            f"VM CIDR subnet is too small, at least 2 host addresses are required: {text[:_LONGEST_TEXT]}"
        )
    if found.is_loopback or found.is_multicast or found.is_link_local or found.is_unspecified:
        raise BadGuestNetwork(f"no network for a guest: {text[:_LONGEST_TEXT]}")
    first = found.network_address
    return GuestSubnet(str(first + 1), str(first + 2), found.prefixlen)


def _network(text: str, version: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    address, slash, length = text[:_LONGEST_TEXT].partition("/")
    try:
        if version == 4:
            # Numbers may have leading zeros.
            address = ".".join(
                str(int(part)) if part.isascii() and part.isdigit() else part for part in address.split(".")
            )
            return ipaddress.IPv4Network(f"{address}{slash}{_length(length)}", strict=False)
        return ipaddress.IPv6Network(f"{address}{slash}{_length(length)}", strict=False)
    except ValueError as error:
        raise BadGuestNetwork(f"invalid CIDR address: {text[:_LONGEST_TEXT]}") from error


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def is_meshed(vmi: VirtualMachineInstance) -> bool:
    """Whether a mesh's sidecar takes the traffic of this VMI's Pod."""
    return vmi.metadata.annotations.get(INJECT_SIDECAR, "").lower() == "true"
