"""A network namespace as far as the plans can tell: takes their steps and refuses what the kernel refuses.

It exists to try every crash point and every order in milliseconds; the machine tests do the same things to real
namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_interface

from kvedge.network.binding.binding_state import GUARD_PREFIX, Names, Seen
from kvedge.network.binding.bridge_binding_plan import (
    IPV6_OF_NEW_LINKS,
)
from kvedge.network.binding.masquerade_plan import FORWARDING, MasqueradeSeen
from kvedge.network.link_types import PROTO_KERNEL, Address, Link, Route
from kvedge.network.nft.nft_tables import Family
from kvedge.network.node_seen import NodeSeen
from kvedge.network.pods.forward_rules import FENCE
from kvedge.network.pods.forwarding_plan import IP_FORWARD
from kvedge.network.steps import (
    AddAddress,
    AddBridge,
    AddPortVlans,
    AddRoute,
    AddStandIn,
    AddTable,
    AddTap,
    AddVeth,
    ChangeElements,
    DeleteLink,
    DeleteTable,
    ForgetOwnMac,
    KnowMac,
    LimitRate,
    RemoveAddress,
    ReplaceTable,
    SetLink,
    SetPortVlans,
    SetSysctl,
    Step,
)
from tests.support.values import replace

# The settings a new link has, with the values this model's kernel gives them.
OF_LINKS = {
    "ipv4/conf/{}/rp_filter": "1",
    "ipv4/conf/{}/accept_local": "0",
    "ipv6/conf/{}/disable_ipv6": "0",
    "ipv6/conf/{}/accept_ra": "1",
    "ipv6/conf/{}/accept_dad": "1",
    "ipv4/conf/{}/route_localnet": "0",
}


class RefusedByKernelError(Exception):
    """The kernel would have said no."""


@dataclass
class NamespaceModel:
    """The state; `ipv6` false is a kernel without it."""

    ipv6: bool = True
    links: dict[int, Link] = field(default_factory=dict)
    addresses: list[Address] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    tables: dict[tuple[Family, str], dict[str, set[bytes]]] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    own_macs: set[tuple[int, str]] = field(default_factory=set)
    # Which port a bridge was told that a MAC belongs to.
    known_macs: dict[tuple[int, str], int] = field(default_factory=dict)
    # Which VLAN a port is of; which ports reach none that is isolated as well.
    vlans: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    # The VLANs that a port carries besides.
    carried: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    isolated: set[int] = field(default_factory=set)
    # The MTUs of the other ends of pairs.
    peer_mtus: dict[str, int] = field(default_factory=dict)
    # Bridges whose MTU was set, so that they keep it; the others take the smallest of their ports'.
    own_mtus: set[int] = field(default_factory=set)
    next_index: int = 1

    def __post_init__(self) -> None:
        self.sysctls |= {
            "ipv4/conf/all/arp_ignore": "0",
            "ipv4/conf/all/rp_filter": "2",
            "ipv4/ip_unprivileged_port_start": "1024",
            IP_FORWARD: "0",
        }
        if self.ipv6:
            self.sysctls |= {IPV6_OF_NEW_LINKS: "0", FORWARDING[6]: "0"}

    def add_link(self, name: str, kind: str, **fields: object) -> Link:
        """A new link, down."""
        if any(link.name == name for link in self.links.values()):
            raise RefusedByKernelError(f"{name} exists")
        given = {"mac": f"be:00:00:00:00:{self.next_index:02x}", "mtu": 1500, "up": False, **fields}
        link = Link(index=self.next_index, name=name, kind=kind, **given)  # type: ignore[arg-type]
        self.links[link.index] = link
        self.next_index += 1
        for setting, value in OF_LINKS.items():
            if (self.ipv6 and link.mtu >= 1280) or not setting.startswith("ipv6"):
                self.sysctls[setting.format(name)] = value
        return link

    def link(self, name: str) -> Link:
        """The link of that name, which must be there."""
        found = [link for link in self.links.values() if link.name == name]
        if not found:
            raise RefusedByKernelError(f"no link {name}")
        return found[0]

    def apply(self, step: Step) -> None:
        """Makes one change, as the kernel would."""
        match step:
            case AddBridge(name, mac, mtu):
                self.own_mtus.add(self.add_link(name, "bridge", mac=mac, mtu=mtu, snooping=False).index)
            case AddStandIn(name, mac, mtu):
                self.add_link(name, "dummy", mac=mac, mtu=mtu)
            case AddTap(name, owner, multi_queue):
                self.add_link(name, "tun", multi_queue=multi_queue)
                self.owners[name] = owner
            case AddVeth(name):
                self.add_link(name, "veth", mtu=step.mtu, peer_index=1000 + self.next_index)
                self.peer_mtus[name] = step.peer_mtu or step.mtu
            case DeleteLink(name):
                self._delete(self.link(name))
            case SetLink():
                self._set(step)
            case SetPortVlans(name, untagged, tagged):
                port = self.link(name)
                if not port.master or not self.links[port.master].vlan_filtering:
                    raise RefusedByKernelError(f"{name} is no port of a bridge that keeps VLANs apart")
                self.vlans[port.index] = (untagged, tagged)
            case AddPortVlans(name, tagged):
                port = self.link(name)
                if not port.master:
                    raise RefusedByKernelError(f"{name} is no bridge port")
                self.carried.setdefault(port.index, set()).update(tagged)
            case LimitRate(name):
                self.link(name)
            case KnowMac(link, mac):
                if not self.link(link).master:
                    raise RefusedByKernelError(f"{link} is no bridge port")
                self.known_macs.setdefault((self.link(link).master, mac), self.link(link).index)
            case ForgetOwnMac(link, mac):
                self.own_macs.discard((self.link(link).index, mac))
            case AddAddress(link, address, length, connected):
                self._add_address(self.link(link), address, length, connected)
            case RemoveAddress(link, address, _):
                self._remove_address(self.link(link), address)
            case AddRoute(link, route):
                self._add_route(self.link(link), route)
            case SetSysctl(name, value):
                if name not in self.sysctls:
                    raise RefusedByKernelError(f"no setting {name}")
                self.sysctls[name] = value
                self._obey_sysctl(name)
            case AddTable(table):
                self.tables.setdefault((table.family, table.name), {each.name: set() for each in table.sets})
            case ReplaceTable(table, elements, instead_of):
                for gone in instead_of:
                    self.tables.pop((table.family, gone), None)
                self.tables[table.family, table.name] = {
                    each.name: set(elements.get(each.name, ())) for each in table.sets
                }
            case ChangeElements(table, add, remove):
                sets = self.tables[table.family, table.name]
                for name, keys in remove.items():
                    sets[name] -= set(keys)
                for name, keys in add.items():
                    sets[name] |= set(keys)
            case DeleteTable(family, name):
                self.tables.pop((family, name), None)

    def _delete(self, gone: Link) -> None:
        del self.links[gone.index]
        for link in list(self.links.values()):
            if link.master == gone.index:
                self.links[link.index] = replace(link, master=0, learning=None)
                self._forget_port(link)
        self.known_macs = {key: port for key, port in self.known_macs.items() if gone.index not in (key[0], port)}
        self.addresses = [each for each in self.addresses if each.link != gone.index]
        self.routes = [each for each in self.routes if each.link != gone.index]
        self._forget_port(gone)
        for name in [name for name in self.sysctls if f"/{gone.name}/" in name]:
            del self.sysctls[name]

    def _set(self, step: SetLink) -> None:
        link = self.link(step.name)
        if step.rename is not None:
            link = self._rename(link, step.rename)
        if step.mac is not None:
            link = replace(link, mac=step.mac)
            self._take_own_mac(link)
        if step.mtu is not None:
            link = replace(link, mtu=step.mtu)
            self.own_mtus.add(link.index)
            if step.mtu < 1280:
                self.sysctls = {
                    key: value for key, value in self.sysctls.items() if f"ipv6/conf/{link.name}/" not in key
                }
            elif self.ipv6:
                settings = {name.format(link.name): value for name, value in OF_LINKS.items()}
                self.sysctls = settings | self.sysctls
        if step.alias is not None:
            link = replace(link, alias=step.alias)
        if step.vlan_filtering is not None:
            link = replace(link, vlan_filtering=step.vlan_filtering)
        if step.snooping is not None:
            link = replace(link, snooping=step.snooping)
        if step.master == "":
            self._forget_port(link)
            link = replace(link, master=0)
        elif step.master is not None:
            bridge = self.link(step.master)
            if link.master != bridge.index:
                self._forget_port(link)
            if bridge.index not in self.own_mtus:
                self.links[bridge.index] = replace(bridge, mtu=min(bridge.mtu, link.mtu))
            link = replace(link, master=bridge.index, learning=True)
            self._take_own_mac(link)
        if step.learning is not None:
            if link.master == 0:
                raise RefusedByKernelError(f"{link.name} is no bridge port")
            link = replace(link, learning=step.learning)
        if step.isolated is not None:
            if link.master == 0:
                raise RefusedByKernelError(f"{link.name} is no bridge port")
            self.isolated = self.isolated - {link.index} | ({link.index} if step.isolated else set())
        if step.hairpin is not None:
            link = replace(link, hairpin=step.hairpin)
        if step.up is not None:
            link = self._switch(link, step.up)
        self.links[link.index] = link

    def _forget_port(self, port: Link) -> None:
        """What a bridge knew of its port."""
        self.vlans.pop(port.index, None)
        self.isolated.discard(port.index)

    def _take_own_mac(self, port: Link) -> None:
        self.own_macs = {each for each in self.own_macs if each[0] != port.index}
        if port.master:
            self.own_macs.add((port.index, port.mac))

    def _rename(self, link: Link, name: str) -> Link:
        if link.up:
            raise RefusedByKernelError(f"{link.name} is up")
        if any(other.name == name for other in self.links.values()):
            raise RefusedByKernelError(f"{name} exists")
        for setting in [setting for setting in self.sysctls if f"/{link.name}/" in setting]:
            self.sysctls[setting.replace(f"/{link.name}/", f"/{name}/")] = self.sysctls.pop(setting)
        return replace(link, name=name)

    def _switch(self, link: Link, up: bool) -> Link:
        if not up:
            # The kernel forgets a link's routes and, but for the configured ones of IPv4, its addresses.
            self.routes = [route for route in self.routes if route.link != link.index]
            self.addresses = [each for each in self.addresses if each.link != link.index or each.version == 4]
        link = replace(link, up=up)
        self.links[link.index] = link
        for address in self.addresses:
            if address.link == link.index and up:
                self._connect(address)
        return link

    def _add_address(self, link: Link, address: str, length: int, connected: bool = True) -> None:
        version = ip_interface(address).version
        if version == 6 and self.sysctls.get(f"ipv6/conf/{link.name}/disable_ipv6", "1") == "1":
            raise RefusedByKernelError("IPv6 is off")
        added = Address(link.index, address, length, version)
        if added not in self.addresses:
            self.addresses.append(added)
        if link.up and connected:
            self._connect(added)

    def _connect(self, address: Address) -> None:
        if not address.address.startswith("fe80") and address.prefix_length < (32 if address.version == 4 else 128):
            network = ip_interface(f"{address.address}/{address.prefix_length}").network
            route = Route(str(network), "", address.link, protocol=PROTO_KERNEL)
            if route not in self.routes:
                self.routes.append(route)

    def _remove_address(self, link: Link, address: str) -> None:
        self.addresses = [each for each in self.addresses if (each.link, each.address) != (link.index, address)]

    def _add_route(self, link: Link, route: Route) -> None:
        if not link.up:
            raise RefusedByKernelError(f"{link.name} is down")
        added = replace(route, link=link.index)
        if added not in self.routes:
            self.routes.append(added)

    def _obey_sysctl(self, name: str) -> None:
        parts = name.split("/")
        if parts[-1] == "disable_ipv6" and self.sysctls[name] == "1" and parts[2] != "default":
            index = self.link(parts[2]).index
            self.addresses = [each for each in self.addresses if each.link != index or each.version == 4]

    def seen(self, names: Names) -> Seen:
        """What the binding would see."""
        return Seen(
            links=tuple(self.links.values()),
            addresses=tuple(self.addresses),
            routes=tuple(self.routes),
            guards=tuple(name for family, name in self.tables if name.startswith(GUARD_PREFIX)),
            sysctls=dict(self.sysctls),
            own_macs=tuple(self.own_macs),
        )

    def seen_by_masquerade(self, names: Names) -> MasqueradeSeen:
        """What a masquerade would see; a table of this model is whole or not there."""
        return MasqueradeSeen(namespace=self.seen(names), tables=frozenset(self.tables), whole=frozenset(self.tables))

    def seen_by_node(self) -> NodeSeen:
        """What the node network would see."""
        return NodeSeen(
            links=tuple(self.links.values()),
            addresses=tuple(self.addresses),
            routes=tuple(self.routes),
            ip_forward=self.sysctls[IP_FORWARD],
            ipv6=self.ipv6,
            fenced=(Family.IP, FENCE) in self.tables,
        )

    def picture(self) -> dict[str, object]:
        """The state by names, for comparing two namespaces whose indexes differ."""
        names = {link.index: link.name for link in self.links.values()} | {0: ""}
        links = {
            link.name: replace(link, index=0, master=0, peer_index=0, mac="" if link.kind == "tun" else link.mac)
            for link in self.links.values()
        }
        return {
            "links": links,
            "masters": {link.name: names[link.master] for link in self.links.values()},
            "addresses": {(names[each.link], each.address, each.prefix_length) for each in self.addresses},
            "routes": {(names[each.link], each.destination, each.gateway) for each in self.routes},
            "tables": {
                key: {name: frozenset(keys) for name, keys in sets.items()} for key, sets in self.tables.items()
            },
            "sysctls": dict(self.sysctls),
            "vlans": {names[port]: vlan for port, vlan in self.vlans.items()},
            "isolated": {names[port] for port in self.isolated},
            "known MACs": {(names[bridge], mac, names[port]) for (bridge, mac), port in self.known_macs.items()},
        }
