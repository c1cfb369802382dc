"""Whether the Pod CIDR is in use on this host by anything but our bridge.

Pure; `pod_network_plan` asks before it plans, `pod_network` for what came later.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

from kvedge.network.address_plan import gateway_address, parse_cidr
from kvedge.network.errors import OverlapError
from kvedge.network.link_types import Route
from kvedge.network.node_seen import NodeSeen
from kvedge.network.pods import ipv6_network_plan
from kvedge.network.pods.attachments import NodeNetworkConfig, our_ports

# 0.0.0.0/1 and 128.0.0.0/1 are the default route of a VPN that leaves the other one in place.
_LONGEST_DEFAULT: Final = 1


def check_overlap(config: NodeNetworkConfig, seen: NodeSeen) -> None:
    """Raises OverlapError when the Pod CIDR is in use on this host by anything that is not our bridge.

    Pods that live here keep their addresses, while a VPN may come and go: nothing is raised then. Nor is a route wider
    than the Pod CIDR in the way: the bridge's own route is longer, and takes the packets.
    """
    if _is_in_service(config, seen):
        return
    length = parse_cidr(config.cidr).prefixlen
    if config.ipv6_cidr:
        ipv6_network_plan.check_overlap(config.bridge, config.ipv6_cidr, seen)
    for network, name, is_address in _find_overlaps(config, seen):
        if is_address or IPv4Network(network, strict=False).prefixlen >= length:
            raise OverlapError(
                f"--pod-cidr {config.cidr} overlaps",
                subject=f"{network} of {name}",
                remedy="give another --pod-cidr, one that neither this host nor its network uses",
            )


def overlaps_of(config: NodeNetworkConfig, seen: NodeSeen) -> list[str]:
    """Other networks of this host with addresses of the Pod CIDR: Pods or the host cannot reach some of them."""
    found = {f"{IPv4Network(network, strict=False)} of {name}" for network, name, _ in _find_overlaps(config, seen)}
    return sorted(found)


def _find_overlaps(config: NodeNetworkConfig, seen: NodeSeen) -> list[tuple[str, str, bool]]:
    """(network, link, whether it is an address); a default route, also in pieces as a VPN sets it, is no overlap."""
    wanted = parse_cidr(config.cidr)
    names = {link.index: link.name for link in seen.links}
    used = [(f"{each.address}/{each.prefix_length}", each.link, True) for each in seen.addresses if each.version == 4]
    used += [(route.destination, route.link, False) for route in seen.routes if not is_default(route)]
    named = [(network, names.get(index, "several links"), is_address) for network, index, is_address in used]
    return [each for each in named if each[1] != config.bridge and wanted.overlaps(IPv4Network(each[0], strict=False))]


def is_default(route: Route) -> bool:
    return int(route.destination.partition("/")[2]) <= _LONGEST_DEFAULT


def _is_in_service(config: NodeNetworkConfig, seen: NodeSeen) -> bool:
    bridge, gateway = seen.link(config.bridge), gateway_address(config.cidr)
    has_gateway = any(bridge and each.link == bridge.index and each.address == gateway for each in seen.addresses)
    return has_gateway or bool(our_ports(config, seen.links))
