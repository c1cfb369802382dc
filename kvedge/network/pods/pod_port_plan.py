"""Which steps put one Pod on the node bridge, and take it away: its port, its own side, its addresses in the tables.

Pure; `pod_network` looks, asks here, and does.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kvedge.network.address_plan import gateway_address, ipv6_gateway, parse_cidr
from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.binding.port_rules import host_keys
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Link, Route
from kvedge.network.node_seen import NodeSeen
from kvedge.network.pods import ipv6_network_plan
from kvedge.network.pods.attachments import (
    DEFAULT_IPV6_ROUTE,
    DEFAULT_ROUTE,
    POD_INTERFACE,
    Attachment,
    NodeNetworkConfig,
    attachments_of,
    port_name,
)
from kvedge.network.pods.pod_tables import ipv6_way_out_of, ports_of, way_out_of
from kvedge.network.steps import (
    AddAddress,
    AddRoute,
    AddVeth,
    ChangeElements,
    DeleteLink,
    KnowMac,
    SetLink,
    SetSysctl,
    Step,
)


def join_bridge(
    config: NodeNetworkConfig, attachment: Attachment, port: Link | None, bridge: Link | None, bridged_calls: bool
) -> Iterator[Step]:
    """Put a port on the bridge: it learns no MACs, and the bridge is told the one MAC of its Pod.

    A guest may send from any number of MACs, and each that a bridge learns takes kernel memory for five minutes. Of two
    Pods with one MAC the earlier keeps it, so that no Pod takes a neighbour's frames by its MAC. Each look repeats the
    step: to list all MACs that the host's bridges know costs more.

    Where bridged frames pass the tables for IPv4, the bridge turns round what a guest sends to its own Service.
    Such a packet has to leave by the port by which it came.
    """
    if port is None or bridge is None or port.master != bridge.index:
        yield SetLink(attachment.port, master=config.bridge, learning=False, hairpin=bridged_calls or None)
    else:
        if port.learning is not False:
            # An earlier kvedge made ports that learn.
            yield SetLink(attachment.port, learning=False)
        if bridged_calls and not port.hairpin:
            yield SetLink(attachment.port, hairpin=True)
    yield KnowMac(attachment.port, attachment.mac)


def plan_port(
    config: NodeNetworkConfig, seen: NodeSeen, attachment: Attachment, netns: Path, whole: bool
) -> list[Step]:
    """The host's side of one Pod; `seen` need hold no more than the bridge and the Pod's port, unless that port was
    another attachment's so far: then all ports.

    `whole`: the pair that is there really leads into that namespace. Raises NetworkError when there is no bridge:
    what it would have as its MTU is not known then.
    """
    port, bridge = seen.link(attachment.port), seen.link(config.bridge)
    if bridge is None:
        raise NetworkError("there is no bridge", subject=config.bridge, errno=errno.ENODEV)
    steps: list[Step] = []
    if port is not None and not whole:
        steps.append(DeleteLink(attachment.port))
        port = None
    # A new port gets the MTU of the bridge.
    mtu = port.mtu if port is not None else bridge.mtu
    if port is None:
        steps.append(AddVeth(attachment.port, POD_INTERFACE, netns, attachment.mac, mtu))
    # The kernel has no settings of IPv6 for a link that is too small for it.
    if seen.ipv6 and mtu >= SMALLEST_IPV6_MTU:
        steps.append(SetSysctl(f"ipv6/conf/{attachment.port}/disable_ipv6", "1"))
    stale = [each for each in attachments_of(config, [port] if port else []) if each != attachment]
    if port is None or port.alias != attachment.alias:
        steps.append(SetLink(attachment.port, alias=attachment.alias))
    steps.append(ChangeElements(ports_of(config), add=attachment.keys, remove=stale[0].keys if stale else {}))
    left = _find_left_hosts(config, seen.links, stale[0]) if stale else {}
    steps.append(ChangeElements(way_out_of(config), add=host_keys(attachment.address), remove=left))
    if config.ipv6_cidr:
        steps += _change_ipv6_hosts(config, seen.links, attachment, stale[0] if stale else None)
    steps += join_bridge(config, attachment, port, bridge, seen.bridged_calls)
    if port is None or not port.up:
        steps.append(SetLink(attachment.port, up=True))
    return steps


def plan_inside(
    config: NodeNetworkConfig, links: Sequence[Link], addresses: Sequence[Address], attachment: Attachment
) -> list[Step]:
    """Plan the Pod's own side, in its namespace."""
    names = {link.name: link for link in links}
    steps: list[Step] = [] if names["lo"].up else [SetLink("lo", up=True)]
    nic = names[POD_INTERFACE]
    length = parse_cidr(config.cidr).prefixlen
    if nic.mac != attachment.mac:
        steps.append(SetLink(POD_INTERFACE, mac=attachment.mac))
    if attachment.address not in {each.address for each in addresses if each.link == nic.index}:
        steps.append(AddAddress(POD_INTERFACE, attachment.address, length))
    if not nic.up:
        steps.append(SetLink(POD_INTERFACE, up=True))
    ipv6 = bool(attachment.ipv6_address)
    if ipv6:
        here = {each.address for each in addresses if each.link == nic.index}
        steps += ipv6_network_plan.inside_steps(config.ipv6_cidr, attachment.ipv6_address, here)
    # The kernel forgets a route when its link goes down, and adding it again changes nothing.
    steps.append(AddRoute(POD_INTERFACE, Route(DEFAULT_ROUTE, gateway_address(config.cidr), nic.index)))
    if ipv6:
        steps.append(AddRoute(POD_INTERFACE, Route(DEFAULT_IPV6_ROUTE, ipv6_gateway(config.ipv6_cidr), nic.index)))
    return steps


def plan_detaching(config: NodeNetworkConfig, seen: NodeSeen, netns: str) -> list[Step]:
    """Remove one Pod's port, and its keys from the tables; `seen` holds all ports."""
    port = seen.link(port_name(config.bridge, netns))
    if port is None:
        return []
    steps: list[Step] = []
    for each in attachments_of(config, [port]):
        steps.append(ChangeElements(ports_of(config), remove=each.keys))
        steps.append(ChangeElements(way_out_of(config), remove=_find_left_hosts(config, seen.links, each)))
        if config.ipv6_cidr:
            steps += _change_ipv6_hosts(config, seen.links, None, each)
    return [*steps, DeleteLink(port.name)]


def _find_left_hosts(
    config: NodeNetworkConfig, links: Iterable[Link], attachment: Attachment
) -> dict[str, tuple[bytes, ...]]:
    """The address that goes with an attachment; none while another Pod has it, as the next Pod of a VM."""
    others = [each for each in attachments_of(config, links) if each.port != attachment.port]
    return {} if any(each.address == attachment.address for each in others) else host_keys(attachment.address)


def _change_ipv6_hosts(
    config: NodeNetworkConfig, links: Iterable[Link], now: Attachment | None, before: Attachment | None
) -> Iterator[Step]:
    """Change the IPv6 addresses to which packets may be forwarded, as for IPv4."""
    kept = {each.ipv6_address for each in attachments_of(config, links) if before and each.port != before.port}
    add = host_keys(now.ipv6_address) if now is not None and now.ipv6_address else {}
    goes = before is not None and before.ipv6_address not in ("", *kept)
    remove = host_keys(before.ipv6_address) if before is not None and goes else {}
    if add or remove:
        yield ChangeElements(ipv6_way_out_of(config), add=add, remove=remove)
