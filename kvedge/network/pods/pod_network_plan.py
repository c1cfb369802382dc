"""Which steps make the network of one box: a node bridge, its way out, and one port per Pod.

Pure; `pod_network` looks, asks here, and does. Ours is what carries our mark: the bridge and the tables of the
configuration, and ports whose names begin with the bridge's own prefix. What must be remembered is written on the
links themselves, as their alias: it lives exactly as long as they do, and nobody can lose one without the other.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Final

from kvedge.network.address_plan import gateway_address, ipv6_gateway, parse_cidr
from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.binding.port_rules import host_keys, keys_of, nat_table, port_table
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.link_types import MAIN_TABLE, Address, Link, Route
from kvedge.network.nft_rules import Family, Table
from kvedge.network.pods import ipv6_forwarding_plan, ipv6_network_plan
from kvedge.network.pods.forward_rules import FENCE, OURS, fence_keys, fence_table
from kvedge.network.pods.forwarding_plan import (
    IP_FORWARD,
    MARK,
    NodeSeen,
    fence_steps,
    ip_forward_before,
    original_ip_forward,
    plan_forwarding_back,
)
from kvedge.network.services.service_plan import table_name
from kvedge.network.steps import (
    AddAddress,
    AddBridge,
    AddRoute,
    AddVeth,
    ChangeElements,
    DeleteLink,
    DeleteTable,
    KnowMac,
    ReplaceTable,
    SetLink,
    SetSysctl,
    Step,
)

DEFAULT_ROUTE: Final = "0.0.0.0/0"
DEFAULT_IPV6_ROUTE: Final = "::/0"
DEFAULT_MTU: Final = 1500
# 0.0.0.0/1 and 128.0.0.0/1 are the default route of a VPN that leaves the other one in place.
_LONGEST_DEFAULT: Final = 1
POD_INTERFACE: Final = "eth0"


@dataclass(frozen=True, kw_only=True)
class NodeNetworkConfig:
    """One box's Pod network. `table` names our nftables tables, `netns_prefix` begins the names of our namespaces."""

    bridge: str
    cidr: str
    table: str
    netns_prefix: str
    # The second network, of IPv6; empty for none.
    ipv6_cidr: str = ""
    # 0: that of the link by which the host reaches the world.
    mtu: int = 0
    # Not on a kernel without NFT_CONNLIMIT.
    limits_flows: bool = True


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """One Pod on the node bridge: its namespace's name, the host's end of its pair, its address and its NIC's MAC."""

    netns: str
    port: str
    address: str
    mac: str
    # Empty where the Pod has none.
    ipv6_address: str = ""

    @property
    def alias(self) -> str:
        """What is written on the port."""
        return f"{MARK} {self.netns} {self.address} {self.mac} {self.ipv6_address}".rstrip()

    @property
    def keys(self) -> dict[str, tuple[bytes, ...]]:
        """What it adds to the sets of the ports' table."""
        return keys_of(self.port, self.address, self.mac, self.ipv6_address)


def port_prefix(bridge: str) -> str:
    """What the names of this bridge's ports begin with; another instance's bridge has another."""
    return "v" + hashlib.sha256(bridge.encode()).hexdigest()[:6]


def policy_table_name(table: str) -> str:
    """What the tables of NetworkPolicies are called beside those of the node network."""
    return f"{table}_policies"


def netns_name(config: NodeNetworkConfig, uid: str) -> str:
    """The name of the namespace of the Pod with this UID."""
    return f"{config.netns_prefix}{uid}"


def port_name(bridge: str, netns: str) -> str:
    """The host's end of a Pod's pair: 15 letters, as many as a name may have."""
    return port_prefix(bridge) + hashlib.sha256(netns.encode()).hexdigest()[:8]


def stable_mac(*names: str) -> str:
    """A locally administered unicast MAC that belongs to these names."""
    return ":".join(f"{byte:02x}" for byte in (0x02, *hashlib.sha256("/".join(names).encode()).digest()[:5]))


def attachment_for(
    config: NodeNetworkConfig, netns: str, address: str, mac: str | None, ipv6_address: str = ""
) -> Attachment:
    """What a Pod's attachment is called; a Pod without a MAC of its own gets one from its namespace's name.

    An IPv6 address of a range that is no longer ours is not given: nobody would lead there.
    """
    chosen = (mac or stable_mac(config.bridge, netns)).lower()
    parse_mac(chosen)
    is_ours = bool(ipv6_address and config.ipv6_cidr) and IPv6Address(ipv6_address) in IPv6Network(config.ipv6_cidr)
    return Attachment(
        netns=netns,
        port=port_name(config.bridge, netns),
        address=str(IPv4Address(address)),
        mac=chosen,
        ipv6_address=ipv6_address if is_ours else "",
    )


def attachments_of(config: NodeNetworkConfig, links: Iterable[Link]) -> list[Attachment]:
    """Our ports, as their aliases tell; one that was cut short before it got its alias is not among them."""
    found = []
    for link in our_ports(config, links):
        words = link.alias.split()
        if len(words) in (4, 5) and words[0] == MARK:
            netns, address, mac, ipv6_address = (*words[1:], "")[:4]
            found.append(Attachment(netns=netns, port=link.name, address=address, mac=mac, ipv6_address=ipv6_address))
    return found


def our_ports(config: NodeNetworkConfig, links: Iterable[Link]) -> list[Link]:
    """All pairs' host ends that are ours, finished or not."""
    return [link for link in links if link.kind == "veth" and link.name.startswith(port_prefix(config.bridge))]


def check_overlap(config: NodeNetworkConfig, seen: NodeSeen) -> None:
    """Raises OverlapError when the Pod CIDR is in use on this host by anything that is not our bridge.

    Not once Pods live here: they have their addresses, and a VPN may come and go. Nor for a route that is wider than
    the Pod CIDR: it takes no packet from the bridge's own, which is longer.
    """
    if _is_in_service(config, seen):
        return
    length = parse_cidr(config.cidr).prefixlen
    if config.ipv6_cidr:
        ipv6_network_plan.check_overlap(config.bridge, config.ipv6_cidr, seen)
    for network, name, is_address in _overlaps(config, seen):
        if is_address or IPv4Network(network, strict=False).prefixlen >= length:
            raise OverlapError(
                f"--pod-cidr {config.cidr} overlaps",
                subject=f"{network} of {name}",
                remedy="give another --pod-cidr, one that neither this host nor its network uses",
            )


def overlaps_of(config: NodeNetworkConfig, seen: NodeSeen) -> list[str]:
    """What else on this host has addresses of the Pod CIDR, which are out of somebody's reach."""
    found = {f"{IPv4Network(network, strict=False)} of {name}" for network, name, _ in _overlaps(config, seen)}
    return sorted(found)


def _overlaps(config: NodeNetworkConfig, seen: NodeSeen) -> list[tuple[str, str, bool]]:
    """(network, link, whether it is an address); the default route, also in pieces as VPNs have it, is none."""
    wanted = parse_cidr(config.cidr)
    names = {link.index: link.name for link in seen.links}
    used = [(f"{each.address}/{each.prefix_length}", each.link, True) for each in seen.addresses if each.version == 4]
    used += [(route.destination, route.link, False) for route in seen.routes if not _is_default(route)]
    named = [(network, names.get(index, "several links"), is_address) for network, index, is_address in used]
    return [each for each in named if each[1] != config.bridge and wanted.overlaps(IPv4Network(each[0], strict=False))]


def _is_default(route: Route) -> bool:
    return int(route.destination.partition("/")[2]) <= _LONGEST_DEFAULT


def _is_in_service(config: NodeNetworkConfig, seen: NodeSeen) -> bool:
    bridge, gateway = seen.link(config.bridge), gateway_address(config.cidr)
    has_gateway = any(bridge and each.link == bridge.index and each.address == gateway for each in seen.addresses)
    return has_gateway or bool(our_ports(config, seen.links))


def mtu_for(config: NodeNetworkConfig, seen: NodeSeen) -> int:
    """The configured MTU, else the smallest of the links by which the host reaches the world, so that guests' packets
    need no fragmenting on any way.

    While there is no default route, what the bridge has; and never more than a Pod has that is on it: what is larger
    would be lost between the two.
    """
    outside = {route.link for route in seen.routes if _is_default(route) and route.table == MAIN_TABLE}
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
        steps += _on_bridge(config, attached[port.name], port, bridge, seen.bridged_calls)
        if not port.up:
            steps.append(SetLink(port.name, up=True))
    return steps


def _on_bridge(
    config: NodeNetworkConfig, attachment: Attachment, port: Link | None, bridge: Link | None, bridged_calls: bool
) -> Iterator[Step]:
    """Makes the port one that learns nothing, and tells the bridge the one MAC that the port has.

    A guest may send from any number of MACs, and each that a bridge learns takes kernel memory for five minutes. Of two
    Pods with one MAC the earlier keeps it: nobody takes a neighbour's frames by naming its MAC. The step is repeated at
    each look, because a list of all MACs that the host's bridges know costs more.

    Where bridged frames pass the tables for IPv4, what a guest sends to a Service of its own is turned round inside of
    the bridge, and has to leave it by the port by which it came.
    """
    if port is None or bridge is None or port.master != bridge.index:
        yield SetLink(attachment.port, master=config.bridge, learning=False, hairpin=bridged_calls or None)
    else:
        if port.learning is not False:
            # As an earlier kvedge made it.
            yield SetLink(attachment.port, learning=False)
        if bridged_calls and not port.hairpin:
            yield SetLink(attachment.port, hairpin=True)
    yield KnowMac(attachment.port, attachment.mac)


def _address_steps(config: NodeNetworkConfig, seen: NodeSeen, bridge: Link | None) -> list[Step]:
    gateway, length = gateway_address(config.cidr), parse_cidr(config.cidr).prefixlen
    has = {(each.address, each.prefix_length) for each in seen.addresses if bridge and each.link == bridge.index}
    return [] if (gateway, length) in has else [AddAddress(config.bridge, gateway, length)]


def plan_removal(config: NodeNetworkConfig, seen: NodeSeen) -> list[Step]:
    """The steps that leave the host as it was found; but who translates addresses by now needs forwarding too."""
    steps: list[Step] = [DeleteLink(link.name) for link in our_ports(config, seen.links)]
    steps += [DeleteTable(Family.IP, config.table), DeleteTable(Family.BRIDGE, config.table)]
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
    # What the node network was given.
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
    left = _left_hosts(config, seen.links, stale[0]) if stale else {}
    steps.append(ChangeElements(way_out_of(config), add=host_keys(attachment.address), remove=left))
    if config.ipv6_cidr:
        steps += _ipv6_hosts_changed(config, seen.links, attachment, stale[0] if stale else None)
    steps += _on_bridge(config, attachment, port, bridge, seen.bridged_calls)
    if port is None or not port.up:
        steps.append(SetLink(attachment.port, up=True))
    return steps


def plan_inside(
    config: NodeNetworkConfig, links: Sequence[Link], addresses: Sequence[Address], attachment: Attachment
) -> list[Step]:
    """The Pod's own side, in its namespace."""
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
    # The kernel forgets it whenever the link goes down, and adding it again changes nothing.
    steps.append(AddRoute(POD_INTERFACE, Route(DEFAULT_ROUTE, gateway_address(config.cidr), nic.index)))
    if ipv6:
        steps.append(AddRoute(POD_INTERFACE, Route(DEFAULT_IPV6_ROUTE, ipv6_gateway(config.ipv6_cidr), nic.index)))
    return steps


def plan_detaching(config: NodeNetworkConfig, seen: NodeSeen, netns: str) -> list[Step]:
    """Removes one Pod's port and what it was allowed to say; `seen` holds all ports."""
    port = seen.link(port_name(config.bridge, netns))
    if port is None:
        return []
    steps: list[Step] = []
    for each in attachments_of(config, [port]):
        steps.append(ChangeElements(ports_of(config), remove=each.keys))
        steps.append(ChangeElements(way_out_of(config), remove=_left_hosts(config, seen.links, each)))
        if config.ipv6_cidr:
            steps += _ipv6_hosts_changed(config, seen.links, None, each)
    return [*steps, DeleteLink(port.name)]


def _left_hosts(
    config: NodeNetworkConfig, links: Iterable[Link], attachment: Attachment
) -> dict[str, tuple[bytes, ...]]:
    """The address that goes with an attachment; not while another Pod has it, as a VM's next one."""
    others = [each for each in attachments_of(config, links) if each.port != attachment.port]
    return {} if any(each.address == attachment.address for each in others) else host_keys(attachment.address)


def _ipv6_hosts_changed(
    config: NodeNetworkConfig, links: Iterable[Link], now: Attachment | None, before: Attachment | None
) -> Iterator[Step]:
    """Whom packets may be forwarded to in IPv6: as for IPv4."""
    kept = {each.ipv6_address for each in attachments_of(config, links) if before and each.port != before.port}
    add = host_keys(now.ipv6_address) if now is not None and now.ipv6_address else {}
    goes = before is not None and before.ipv6_address not in ("", *kept)
    remove = host_keys(before.ipv6_address) if before is not None and goes else {}
    if add or remove:
        yield ChangeElements(ipv6_way_out_of(config), add=add, remove=remove)


def our_tables(config: NodeNetworkConfig) -> tuple[Table, ...]:
    """The tables of a node network; the fences are all instances', and not on each host."""
    tables = (way_out_of(config), ports_of(config), fence_table())
    return (*tables, ipv6_way_out_of(config), fence_table(Family.IP6)) if config.ipv6_cidr else tables


def way_out_of(config: NodeNetworkConfig) -> Table:
    """The table about what leaves this bridge, and comes back to it."""
    return nat_table(config.table, config.cidr, config.bridge, limits_flows=config.limits_flows)


def ipv6_way_out_of(config: NodeNetworkConfig) -> Table:
    """The same for the IPv6 network, which there is."""
    return nat_table(config.table, config.ipv6_cidr, config.bridge, limits_flows=config.limits_flows)


def ports_of(config: NodeNetworkConfig) -> Table:
    """The table about this bridge's ports."""
    return port_table(config.table, port_prefix(config.bridge), ipv6=bool(config.ipv6_cidr))


def all_keys(config: NodeNetworkConfig, links: Iterable[Link]) -> Mapping[str, tuple[bytes, ...]]:
    """The contents of the ports' sets for all present Pods."""
    keys: dict[str, tuple[bytes, ...]] = {}
    known = {each.name for each in ports_of(config).sets}
    for attachment in attachments_of(config, links):
        for name, more in attachment.keys.items():
            if name in known:
                keys[name] = (*keys.get(name, ()), *more)
    return keys


def all_ipv6_hosts(config: NodeNetworkConfig, links: Iterable[Link]) -> Mapping[str, tuple[bytes, ...]]:
    """The IPv6 addresses of all present Pods."""
    return host_keys(*{each.ipv6_address: None for each in attachments_of(config, links) if each.ipv6_address})


def all_hosts(config: NodeNetworkConfig, links: Iterable[Link]) -> Mapping[str, tuple[bytes, ...]]:
    """The addresses of all present Pods, and that of all at once: a bridged frame to it may pass there as well."""
    everybody = str(parse_cidr(config.cidr).broadcast_address)
    return host_keys(everybody, *{each.address: None for each in attachments_of(config, links)})
