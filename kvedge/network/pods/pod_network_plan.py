"""Which steps make the network of one box: a node bridge and its way out, with the ports of the present Pods.

Pure; `pod_network` looks, asks here, and does. Ours is what carries our mark: the bridge and the tables of the
configuration, and ports whose names begin with the bridge's own prefix. What must be remembered is written on the
links themselves, as their alias: it lives exactly as long as they do, and nobody can lose one without the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kvedge.network.address_plan import gateway_address, parse_cidr
from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.link_types import MAIN_TABLE, Link
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.node_seen import NodeSeen
from kvedge.network.pods import ipv6_forwarding_plan, ipv6_network_plan
from kvedge.network.pods.attachments import (
    DEFAULT_MTU,
    NodeNetworkConfig,
    attachments_of,
    our_ports,
    policy_table_name,
    stable_mac,
)
from kvedge.network.pods.forward_rules import FENCE, OURS, fence_keys, fence_table
from kvedge.network.pods.forwarding_plan import (
    IP_FORWARD,
    MARK,
    fence_steps,
    ip_forward_before,
    original_ip_forward,
    plan_forwarding_back,
)
from kvedge.network.pods.overlap_rules import check_overlap, is_default
from kvedge.network.pods.pod_port_plan import join_bridge
from kvedge.network.pods.pod_tables import all_hosts, all_ipv6_hosts, all_keys, ipv6_way_out_of, ports_of, way_out_of
from kvedge.network.services.pool_plan import HostSeen, plan_pool_addresses
from kvedge.network.services.service_plan import table_name
from kvedge.network.steps import (
    AddAddress,
    AddBridge,
    ChangeElements,
    DeleteLink,
    DeleteTable,
    ReplaceTable,
    SetLink,
    SetSysctl,
    Step,
)


def mtu_for(config: NodeNetworkConfig, seen: NodeSeen) -> int:
    """The configured MTU, else the smallest of the links by which the host reaches the world, so that guests' packets
    need no fragmenting on any way.

    While there is no default route, what the bridge has; and never more than a Pod has that is on it: what is larger
    would be lost between the two.
    """
    outside = {route.link for route in seen.routes if is_default(route) and route.table == MAIN_TABLE}
    bridge = seen.link(config.bridge)
    kept = bridge.mtu if bridge is not None else DEFAULT_MTU
    wanted = config.mtu or min((link.mtu for link in seen.links if link.index in outside), default=kept)
    return min([wanted, *(port.mtu for port in our_ports(config, seen.links))])


def plan_node_network(config: NodeNetworkConfig, seen: NodeSeen) -> list[Step]:
    """The steps to a working bridge with NAT when the agent starts: whatever an earlier version has left there, the
    tables are put anew, whole, with the present ports, and the bridge is told its MTU."""
    return [*_keeping_mtu(config, seen), *plan_healing(config, seen, whole=())]


def _keeping_mtu(config: NodeNetworkConfig, seen: NodeSeen) -> list[Step]:
    """Only an MTU that is changed is kept: one from the making, which is no change, is given up with the last port.

    Smaller for an instant, as a larger one would lose what is not larger than it.
    """
    bridge, mtu = seen.link(config.bridge), mtu_for(config, seen)
    if bridge is None or bridge.mtu != mtu or mtu == DEFAULT_MTU:
        return []
    return [SetLink(config.bridge, mtu=mtu - 1), SetLink(config.bridge, mtu=mtu)]


def plan_healing(config: NodeNetworkConfig, seen: NodeSeen, whole: Collection[Table]) -> list[Step]:
    """What of a node network is missing or has been undone; `whole` are those of `our_tables` that need nothing."""
    check_overlap(config, seen)
    bridge = seen.link(config.bridge)
    mac, mtu = stable_mac(config.bridge), mtu_for(config, seen)
    steps: list[Step] = []
    if bridge is None:
        steps.append(AddBridge(config.bridge, mac, mtu))
    elif bridge.mtu != mtu:
        steps.append(SetLink(config.bridge, mtu=mtu))
    if bridge is not None and bridge.mac != mac:
        steps.append(SetLink(config.bridge, mac=mac))
    if bridge is not None and bridge.snooping:
        # Each group that a guest joins would be remembered; without a querier, of which there is none, for nothing.
        steps.append(SetLink(config.bridge, snooping=False))
    alias = _notes(config, seen, bridge)
    if bridge is None or bridge.alias != alias:
        # Written down before it is changed.
        steps.append(SetLink(config.bridge, alias=alias))
    if config.ipv6_cidr:
        steps += ipv6_network_plan.bridge_steps(config.bridge, config.ipv6_cidr, mtu, seen)
    elif seen.ipv6 and mtu >= SMALLEST_IPV6_MTU:
        steps.append(SetSysctl(f"ipv6/conf/{config.bridge}/disable_ipv6", "1"))
    steps += _address_steps(config, seen, bridge)
    tables = [
        ReplaceTable(way_out_of(config), all_hosts(config, seen.links)),
        ReplaceTable(ports_of(config), all_keys(config, seen.links)),
    ]
    if config.ipv6_cidr:
        tables.append(ReplaceTable(ipv6_way_out_of(config), all_ipv6_hosts(config, seen.links)))
    steps += [each for each in tables if each.table not in whole]
    # Before anything can be forwarded.
    steps += fence_steps(config.bridge, seen, whole)
    if config.ipv6_cidr:
        steps += ipv6_forwarding_plan.fence_steps(config.bridge, seen, whole)
    if bridge is None or not bridge.up:
        steps.append(SetLink(config.bridge, up=True))
    if seen.ip_forward != "1":
        steps.append(SetSysctl(IP_FORWARD, "1"))
    if config.ipv6_cidr:
        steps += ipv6_forwarding_plan.plan_forwarding(config.bridge, seen)
    elif bridge is not None and (ipv6_before := ipv6_forwarding_plan.forwarding_before(bridge)) is not None:
        # It had an IPv6 network under another setting.
        steps += ipv6_forwarding_plan.plan_forwarding_back(config.bridge, seen, ipv6_before)
        steps += [DeleteTable(Family.IP6, name) for name in (config.table, policy_table_name(config.table))]
    return [*steps, *_port_steps(config, seen, bridge)]


def _notes(config: NodeNetworkConfig, seen: NodeSeen, bridge: Link | None) -> str:
    """What is written on the bridge: how the host's settings were before."""
    before = ip_forward_before(bridge) if bridge is not None else None
    notes = f"{MARK} ip_forward={original_ip_forward(config.bridge, seen) if before is None else before}"
    if not config.ipv6_cidr:
        return notes
    return f"{notes} {ipv6_forwarding_plan.note(config.bridge, seen)}"


def describe(steps: Iterable[Step]) -> list[str]:
    """In words for the log what :func:`plan_healing` found to do; not what is only said again."""
    said: list[str] = []
    for step in steps:
        match step:
            case AddBridge(name):
                said.append(f"{name} was gone")
            case SetLink(name, mtu=int(mtu)):
                said.append(f"{name} has MTU {mtu} now")
            case SetLink(name, mac=str()):
                said.append(f"{name} had another MAC")
            case SetLink(name, up=True):
                said.append(f"{name} was down")
            case SetLink(name, master=str(master)):
                said.append(f"{name} was not on {master}")
            case SetLink(name, learning=False):
                said.append(f"{name} learnt MACs")
            case SetLink(name, hairpin=True):
                said.append(f"{name} let no guest reach itself by a Service")
            case SetLink(name, snooping=False):
                said.append(f"{name} remembered multicast groups")
            case AddAddress(name, address):
                said.append(f"{name} had no {address}")
            case ReplaceTable(table):
                said.append(f"table {table.family.name.lower()} {table.name} was not whole")
            case SetSysctl(setting) if setting == IP_FORWARD:
                said.append("ip_forward was 0")
            case SetSysctl(setting) if setting == ipv6_forwarding_plan.FORWARDING:
                said.append("IPv6 was not forwarded")
            case DeleteTable(name=name) if name == FENCE:
                said.append(f"others translate addresses by now: table ip {FENCE} no longer keeps them apart")
    return said


def _port_steps(config: NodeNetworkConfig, seen: NodeSeen, bridge: Link | None) -> list[Step]:
    """A bridge that was deleted has let go of its ports. Those whose attaching was cut short are not for here."""
    steps: list[Step] = []
    attached = {each.port: each for each in attachments_of(config, seen.links)}
    for port in our_ports(config, seen.links):
        if port.name not in attached:
            continue
        steps += join_bridge(config, attached[port.name], port, bridge, seen.bridged_calls)
        if not port.up:
            steps.append(SetLink(port.name, up=True))
    return steps


def _address_steps(config: NodeNetworkConfig, seen: NodeSeen, bridge: Link | None) -> list[Step]:
    gateway, length = gateway_address(config.cidr), parse_cidr(config.cidr).prefixlen
    has = {(each.address, each.prefix_length) for each in seen.addresses if bridge and each.link == bridge.index}
    return [] if (gateway, length) in has else [AddAddress(config.bridge, gateway, length)]


def plan_removal(config: NodeNetworkConfig, seen: NodeSeen) -> list[Step]:
    """The steps that leave the host as it was found; but who translates addresses by now needs forwarding too."""
    steps: list[Step] = [DeleteLink(link.name) for link in our_ports(config, seen.links)]
    steps += [DeleteTable(Family.IP, config.table), DeleteTable(Family.BRIDGE, config.table)]
    steps += plan_pool_addresses(config.bridge, HostSeen(seen.links, seen.addresses, ()), {})
    steps.append(DeleteTable(Family.IP, table_name(config.table)))
    steps += [DeleteTable(Family.IP6, name) for name in (config.table, table_name(config.table))]
    steps += [DeleteTable(family, policy_table_name(config.table)) for family in (Family.IP, Family.IP6, Family.BRIDGE)]
    if seen.fenced:
        steps.append(ChangeElements(fence_table(), remove={OURS.name: fence_keys([config.bridge], ())[OURS.name]}))
    bridge = seen.link(config.bridge)
    ipv6_before = ipv6_forwarding_plan.forwarding_before(bridge) if bridge is not None else None
    steps += ipv6_forwarding_plan.plan_forwarding_back(config.bridge, seen, ipv6_before)
    if bridge is None:
        return [*steps, *plan_forwarding_back(config.bridge, seen, None)]
    return [*steps, *plan_forwarding_back(config.bridge, seen, ip_forward_before(bridge)), DeleteLink(config.bridge)]
