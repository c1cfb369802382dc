"""Which steps give a Pod a NIC on a bridge of this host, keep it there, and take it off again.

Pure; `lan_ports` looks, asks here, and does. Ours is what carries our mark: ports whose names begin with this box's
own prefix, the table of its name, and bridges that kvedge made, by their alias. A bridge of the operator's is joined
and left, and never changed. What must be remembered of a port is its alias: it lives as long as the port does.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU
from kvedge.network.dhcp.dhcp_plan import parse_mac
from kvedge.network.errors import MacInUseError, NetworkError
from kvedge.network.lan.lan_bridges import LanSeen, bridge_steps, bridge_trouble, check_bridge, is_made
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_rules import lan_keys, lan_table
from kvedge.network.lan.lan_uplinks import uplink_steps
from kvedge.network.lan.vlan_trunk import TrunkError, trunk_of_text, trunk_text, vlans_of
from kvedge.network.link_types import Link, Route
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.pods.attachments import DEFAULT_MTU, DEFAULT_ROUTE, NodeNetworkConfig, stable_mac
from kvedge.network.pods.forwarding_plan import MARK
from kvedge.network.steps import (
    AddAddress,
    AddRoute,
    AddVeth,
    ChangeElements,
    DeleteLink,
    DeleteTable,
    ReplaceTable,
    SetLink,
    SetPortVlans,
    SetSysctl,
    Step,
)

_LAN: Final = "lan"
_METRIC: Final = 1024
# Flags in an alias.
_MADE, _ISOLATED, _SERVERS, _FILTERS, _NONE = "m", "i", "s", "f", "-"
# Behind the flags, where an earlier version sees nothing: the filter may still be that of another network; the number
# of the network.
_UNSETTLED, _NUMBER = "!", "@"
_NUMBERS: Final = 10**12


class LanPort(Struct, frozen=True, kw_only=True):
    """One NIC of one Pod: the Pod's namespace, the NIC's name there, its MAC, and the network that it joins.

    `address`, with its prefix, and `gateway` are those that the network gives it; empty for none. `number` is that of
    the network's name (:func:`number_of`), 0 where nobody has told it. `settled`: its filter is that of its network.
    """

    netns: str
    interface: str
    mac: str
    network: LanConfig
    address: str = ""
    gateway: str = ""
    number: int = 0
    settled: bool = True

    @property
    def alias(self) -> str:
        """What is written on the host's end."""
        network = self.network
        flags = (network.made, _MADE), (network.isolates_ports, _ISOLATED), (network.servers, _SERVERS)
        said = "".join(letter for is_set, letter in (*flags, (network.filters, _FILTERS)) if is_set) or _NONE
        said += ("" if self.settled else _UNSETTLED) + (f"{_NUMBER}{self.number}" if self.number else "")
        vlans = f"{network.vlan}+{trunk_text(network.trunk)}" if network.trunk else str(network.vlan)
        given = f" {self.address},{self.gateway}" if self.address else ""
        return f"{MARK} {_LAN} {self.netns} {self.interface} {self.mac} {network.bridge} {vlans} {said}{given}"


def lan_port(netns: str, interface: str, mac: str, network: LanConfig, reserved: str = "") -> LanPort:
    """A NIC that is wanted; one without a MAC of its own gets one from its place.

    `reserved` is its address on a network that gives addresses; empty where nobody has reserved one. Raises
    AddressesError for one that no guest of the network can have.
    """
    chosen = (mac or stable_mac(netns, interface)).lower()
    parse_mac(chosen)
    given = network.addresses
    address = given.with_prefix(reserved) if given is not None and reserved else ""
    gateway = given.gateway if given is not None and address else ""
    return LanPort(netns=netns, interface=interface, mac=chosen, network=network, address=address, gateway=gateway)


def number_of(reference: str) -> int:
    """What an alias, which is short, tells of a network's name: two names hardly ever have the same."""
    return 1 + int.from_bytes(hashlib.sha256(reference.encode()).digest()[:8]) % _NUMBERS


def lan_prefix(config: NodeNetworkConfig) -> str:
    """What the names of this box's ports on such networks begin with."""
    return "w" + hashlib.sha256(config.bridge.encode()).hexdigest()[:6]


def lan_port_name(config: NodeNetworkConfig, netns: str, interface: str) -> str:
    """The host's end of a NIC's pair: 15 letters, as many as a name may have."""
    return lan_prefix(config) + hashlib.sha256(f"{netns}/{interface}".encode()).hexdigest()[:8]


def lan_table_of(config: NodeNetworkConfig) -> Table:
    """The table about this box's ports on such networks."""
    return lan_table(f"{config.table}_{_LAN}", lan_prefix(config))


def lan_ports_of(config: NodeNetworkConfig, links: Iterable[Link]) -> dict[str, LanPort]:
    """This box's ports by their names, as their aliases tell; a port that was cut short before its alias is not among
    them.
    """
    found = {}
    for link in _our_ends(config, links):
        port = lan_port_of(link)
        if port is not None:
            found[link.name] = port
    return found


def lan_port_of(link: Link) -> LanPort | None:
    """The port that a box's alias on the host's end of a pair tells of; None without one."""
    words = link.alias.split()
    if len(words) not in (8, 9) or words[:2] != [MARK, _LAN]:
        return None
    _, _, netns, interface, mac, bridge, vlans, flags = words[:8]
    address, _, gateway = "".join(words[8:]).partition(",")
    vlan, plus, tagged = vlans.partition("+")
    try:
        trunk = trunk_of_text(tagged) if plus else ()
    except TrunkError:
        return None
    if not vlan.isdecimal():
        return None
    network = LanConfig(
        bridge=bridge,
        vlan=int(vlan),
        trunk=trunk,
        made=_MADE in flags,
        isolates_ports=_ISOLATED in flags,
        servers=_SERVERS in flags,
        filters=_FILTERS in flags,
    )
    number = flags.partition(_NUMBER)[2]
    return LanPort(
        netns=netns,
        interface=interface,
        mac=mac,
        network=network,
        address=address,
        gateway=gateway,
        number=int(number) if number.isdecimal() else 0,
        settled=_UNSETTLED not in flags,
    )


def plan_lan_port(config: NodeNetworkConfig, seen: LanSeen, wanted: LanPort, netns: Path, *, whole: bool) -> list[Step]:
    """The host's side of one NIC. `whole`: the pair that is there really leads into that namespace.

    Raises NetworkError when the bridge cannot be joined or somebody has the address there, MacInUseError when another
    Pod has the MAC there.
    """
    name = lan_port_name(config, wanted.netns, wanted.interface)
    check_bridge(config, seen, wanted.network)
    _check_others(config, seen, wanted)
    _check_host_address(seen, wanted)
    port, bridge = seen.link(name), seen.link(wanted.network.bridge)
    of_bridge = _with_mtu(seen, wanted.network, lan_ports_of(config, seen.links))
    steps = [*bridge_steps(config, seen, of_bridge), *uplink_steps(seen, wanted.network)]
    if port is not None and not whole:
        steps.append(DeleteLink(name))
        port = None
    # A bridge takes the smallest MTU of its ports for its own: the host's end has the bridge's.
    mtu = bridge.mtu if bridge is not None else of_bridge.mtu or DEFAULT_MTU
    if port is None:
        peer_mtu = wanted.network.mtu or mtu
        steps.append(AddVeth(name, wanted.interface, netns, wanted.mac, mtu, peer_mtu, mac=_host_mac(name)))
    if seen.ipv6 and (mtu if port is None else port.mtu) >= SMALLEST_IPV6_MTU:
        steps.append(SetSysctl(f"ipv6/conf/{name}/disable_ipv6", "1"))
    if port is not None and port.up and _is_of_another(port, wanted):
        steps.append(SetLink(name, up=False))
        port = dataclasses.replace(port, up=False)  # noqa: TID251 - of dataclasses: launchers do without msgspec
    steps += _naming_steps(config, seen, name, wanted)
    return [*steps, *_joining_steps(name, port, bridge, wanted.network)]


def plan_lan_inside(links: Iterable[Link], wanted: LanPort, *, ipv6: bool) -> list[Step]:
    """The Pod's own side, in its namespace: up, and with the address that the network gives it, or none.

    Whoever binds the guest to it finds the address there, and tells the guest of it.
    """
    nic = next(link for link in links if link.name == wanted.interface)
    steps: list[Step] = []
    if ipv6 and nic.mtu >= SMALLEST_IPV6_MTU:
        # The announcements of the LAN's routers are for the guest.
        steps.append(SetSysctl(f"ipv6/conf/{nic.name}/disable_ipv6", "1"))
    if nic.mac != wanted.mac:
        steps.append(SetLink(nic.name, mac=wanted.mac))
    if not nic.up:
        steps.append(SetLink(nic.name, up=True))
    if wanted.address:
        address, _, prefix = wanted.address.partition("/")
        steps.append(AddAddress(nic.name, address, int(prefix)))
    if wanted.gateway:
        # Beside the Pod's own, which stays the first, and those of other such networks: each has a metric of its own.
        steps.append(AddRoute(nic.name, Route(DEFAULT_ROUTE, wanted.gateway, nic.index, metric=_METRIC + nic.index)))
    return steps


def plan_lan_healing(config: NodeNetworkConfig, seen: LanSeen, *, whole: bool) -> list[Step]:
    """What has been undone since; `whole`: the table needs nothing. A bridge of the operator's is waited for."""
    ports = lan_ports_of(config, seen.links)
    steps: list[Step] = []
    unsettled = {name: port for name, port in ports.items() if not port.settled}
    if ports and (unsettled or not whole):
        steps.append(ReplaceTable(lan_table_of(config), _all_keys(ports)))
    steps += [SetLink(name, alias=replace(port, settled=True).alias) for name, port in unsettled.items()]
    for network in {port.network.bridge: port.network for port in ports.values() if port.network.made}.values():
        if bridge_trouble(config, seen, network) is None:
            steps += bridge_steps(config, seen, _with_mtu(seen, network, ports))
    for network in dict.fromkeys(port.network for port in ports.values()):
        steps += uplink_steps(seen, network)
    for name, port in ports.items():
        link, bridge = seen.link(name), seen.link(port.network.bridge)
        if bridge_trouble(config, seen, port.network) is None:
            steps += _joining_steps(name, link, bridge, port.network)
        elif _is_up(link) and _has_lost_vlan(bridge, port.network):
            steps.append(SetLink(name, up=False))
    return [*steps, *unused_steps(config, seen, ports)]


def plan_lan_detaching(config: NodeNetworkConfig, seen: LanSeen, netns: str, kept: Collection[str] = ()) -> list[Step]:
    """Removes one Pod's ports but for those of these NICs, what they were allowed to say, and what nobody uses any
    more."""
    ports = lan_ports_of(config, seen.links)
    gone = {name: port for name, port in ports.items() if port.netns == netns and port.interface not in kept}
    left = {name: port for name, port in ports.items() if name not in gone}
    steps: list[Step] = [DeleteLink(name) for name in gone]
    if seen.has_table and left and gone:
        steps.append(ChangeElements(lan_table_of(config), remove=_all_keys(gone)))
    return [*steps, *unused_steps(config, seen, left)]


def plan_lan_removal(config: NodeNetworkConfig, seen: LanSeen) -> list[Step]:
    """Everything of ours, finished or not."""
    ends: list[Step] = [DeleteLink(link.name) for link in _our_ends(config, seen.links)]
    return [*ends, *unused_steps(config, seen, {})]


def _check_others(config: NodeNetworkConfig, seen: LanSeen, wanted: LanPort) -> None:
    for other in lan_ports_of(config, seen.links).values():
        same_bridge = other.network.bridge == wanted.network.bridge
        same_network = same_bridge and not _vlans(other.network).isdisjoint(_vlans(wanted.network))
        same_nic = (other.netns, other.interface) == (wanted.netns, wanted.interface)
        if not same_network or same_nic:
            continue
        if other.mac == wanted.mac:
            raise MacInUseError(
                "cannot give a NIC its MAC",
                subject=wanted.mac,
                why=f"another Pod has it on {wanted.network.bridge}",
                remedy="give one of them another macAddress",
            )

        if wanted.address and _without_prefix(other.address) == _without_prefix(wanted.address):
            raise _address_error(wanted, f"the guest with MAC {other.mac} has it on {wanted.network.bridge}")


def _check_host_address(seen: LanSeen, wanted: LanPort) -> None:
    """The host is on a bridge itself by the bridge, and in a VLAN by a link on it."""
    bridge = seen.link(wanted.network.bridge)
    if bridge is None or not wanted.address:
        return
    on_bridge = [link for link in seen.links if link.lower == bridge.index] if wanted.network.vlan else [bridge]
    names = {link.index: link.name for link in on_bridge}
    for each in seen.addresses:
        if each.link in names and each.address == _without_prefix(wanted.address):
            raise _address_error(wanted, f"this host has it on {names[each.link]}")


def _address_error(wanted: LanPort, why: str) -> NetworkError:
    return NetworkError(
        "cannot give a NIC its address",
        subject=_without_prefix(wanted.address),
        why=why,
        remedy="give each network of a bridge, and the host, addresses of its own: spec.config.kvedge.addresses",
    )


def _without_prefix(address: str) -> str:
    return address.partition("/")[0]


def _host_mac(name: str) -> str:
    """A bridge takes the lowest MAC of its ports for its own: ours are higher than those of NICs, as libvirt's are."""
    return f"fe{stable_mac(name)[2:]}"


def _vlans(network: LanConfig) -> set[int]:
    untagged = {network.vlan} if network.vlan or not network.trunk else set()
    return untagged | set(vlans_of(network.trunk))


def _with_mtu(seen: LanSeen, network: LanConfig, ports: Mapping[str, LanPort]) -> LanConfig:
    """The network with the MTU that its bridge had: the ports have kept it."""
    names = {name for name, port in ports.items() if port.network.bridge == network.bridge}
    known = [link.mtu for link in seen.links if link.name in names]
    return replace(network, mtu=max([network.mtu, *known]))


def _joining_steps(name: str, port: Link | None, bridge: Link | None, network: LanConfig) -> Iterator[Step]:
    """A port is up when it is in its VLAN and isolated, and at no time before: a port that is down may lack either."""
    is_up = _is_up(port)
    if is_up and port is not None and bridge is not None and port.master == bridge.index:
        return
    if is_up:
        yield SetLink(name, up=False)
    if port is not None and bridge is not None and port.mtu != bridge.mtu:
        # The bridge may be another one than when the pair was made.
        yield SetLink(name, mtu=bridge.mtu)
    yield SetLink(name, master=network.bridge, isolated=network.isolates_ports)
    if network.has_vlans:
        yield SetPortVlans(name, network.vlan, network.trunk)
    yield SetLink(name, up=True)


def _is_up(port: Link | None) -> bool:
    return port is not None and port.up


def _has_lost_vlan(bridge: Link | None, network: LanConfig) -> bool:
    """Whether the bridge is there and takes the VLAN's guests for everybody's."""
    return network.has_vlans and bridge is not None and bridge.vlan_filtering is False


def _is_of_another(port: Link, wanted: LanPort) -> bool:
    """Whether a port has to go down before it is one of this network: by its alias, as not all of a network is told
    there."""
    known = lan_port_of(port)
    return known is not None and not (known.settled and port.alias == wanted.alias)


def _naming_steps(config: NodeNetworkConfig, seen: LanSeen, name: str, wanted: LanPort) -> Iterator[Step]:
    """The port's alias, and what it may say. Of a port that becomes one of another network the alias tells, until both
    are that network's, that the filter may be another one's: whoever comes after a cut makes it anew."""
    link = seen.link(name)
    known = lan_port_of(link) if link is not None else None
    if known is None or link is None or not _is_of_another(link, wanted):
        if known is None:
            yield SetLink(name, alias=wanted.alias)
        yield _table_step(config, seen, name, wanted)
        return
    unsettled = replace(wanted, settled=False).alias
    if link.alias != unsettled:
        yield SetLink(name, alias=unsettled)
    yield ReplaceTable(lan_table_of(config), _all_keys({**lan_ports_of(config, seen.links), name: wanted}))
    yield SetLink(name, alias=wanted.alias)


def _table_step(config: NodeNetworkConfig, seen: LanSeen, name: str, wanted: LanPort) -> Step:
    keys = lan_keys(name, wanted.mac, wanted.network, wanted.address)
    others = lan_ports_of(config, seen.links)
    if not seen.has_table or not seen.is_whole:
        # One of an earlier version lacks sets.
        return ReplaceTable(lan_table_of(config), _all_keys({**others, name: wanted}))
    known = others.get(name)
    stale = lan_keys(name, known.mac, known.network, known.address) if known is not None else {}
    left = {kind: tuple(key for key in stale[kind] if key not in keys.get(kind, ())) for kind in stale}
    return ChangeElements(lan_table_of(config), add=keys, remove={kind: gone for kind, gone in left.items() if gone})


def _all_keys(ports: dict[str, LanPort]) -> dict[str, tuple[bytes, ...]]:
    keys: dict[str, tuple[bytes, ...]] = {}
    for name, port in ports.items():
        for kind, more in lan_keys(name, port.mac, port.network, port.address).items():
            keys[kind] = (*keys.get(kind, ()), *more)
    return keys


def unused_steps(config: NodeNetworkConfig, seen: LanSeen, ports: Mapping[str, LanPort]) -> Iterator[Step]:
    """Removes bridges that kvedge made, and the table, once none of `ports`, which are all, needs them."""
    used: Collection[str] = {port.network.bridge for port in ports.values()}
    for link in seen.links:
        if is_made(config, link) and link.name not in used:
            yield DeleteLink(link.name)
    if seen.has_table and not ports:
        yield DeleteTable(Family.BRIDGE, lan_table_of(config).name)


def _our_ends(config: NodeNetworkConfig, links: Iterable[Link]) -> list[Link]:
    """All pairs' host ends that are ours, finished or not."""
    return [link for link in links if link.kind == "veth" and link.name.startswith(lan_prefix(config))]
