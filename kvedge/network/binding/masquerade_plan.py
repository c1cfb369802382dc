"""Which steps lead from what is seen in a launcher Pod's network namespace to a guest that is masqueraded there.

Pure; `masquerade_binding` looks, asks here, and does. The plan is computed from what is there alone: the Pod's own NIC
is never touched, so there is nothing to remember. It may be asked again at any time, plans what is missing, and nothing
when nothing is.

The objects are KubeVirt's: bridge `k6t-eth0` with the first address of the guest's network, and `tap0` on it. The
guest's packets are routed, and leave with the Pod's address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface
from typing import Final

from msgspec import Struct

from kvedge.network.binding.binding_state import SMALLEST_IPV6_MTU, Names, Record, Seen, is_link_local
from kvedge.network.binding.bridge_binding_plan import IPV6_OF_NEW_LINKS, sysctl_steps, tap_steps
from kvedge.network.binding.masquerade_rules import (
    GuestAddress,
    Masquerade,
    fence_table,
    nat_table,
    port_keys,
    table_prefix,
)
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address
from kvedge.network.nft.nft_tables import Family, Table
from kvedge.network.steps import AddAddress, AddBridge, RemoveAddress, ReplaceTable, SetLink, SetSysctl, Step
from kvedge.resources.masquerade import BRIDGE_MAC, GuestSubnet

# The bridge's address in router advertisements: the same whatever addresses the kernel gives new links by itself.
ROUTER: Final = "fe80::1"
_ROUTER_LENGTH: Final = 64
FORWARDING: Final = {4: "ipv4/ip_forward", 6: "ipv6/conf/all/forwarding"}


class MasqueradeSeen(Struct, frozen=True, kw_only=True):
    """The namespace as it is; `tables` are those of ours, of each family, and `whole` those that lack nothing."""

    namespace: Seen
    tables: frozenset[tuple[Family, str]] = frozenset()
    whole: frozenset[tuple[Family, str]] = frozenset()


def sysctls_to_read(names: Names) -> list[str]:
    """All settings that a plan looks at."""
    wanted = _of_namespace() | _of_links(names, ipv6=True)
    return [*wanted, *FORWARDING.values(), _sysctl_of_accepting(names), IPV6_OF_NEW_LINKS]


def plan_wanted_masquerade(
    seen: Seen,
    names: Names,
    guest_mac: str,
    subnets: Mapping[int, GuestSubnet],
    *,
    ports: frozenset[tuple[int, int]] = frozenset(),
    ranges: frozenset[tuple[int, int, int]] = frozenset(),
    meshed: bool = False,
) -> Masquerade:
    """What the Pod's own addresses make of it: a guest has the IP versions that its Pod has.

    Raises NetworkError when the Pod has no such interface.
    """
    pod = seen.link(names.pod)
    if pod is None:
        raise NetworkError(
            "cannot bind",
            subject=names.pod,
            why="the Pod has no such interface",
            remedy="look at the CNI configuration of this node, then replace the Pod",
        )
    found = []
    for version, subnet in sorted(subnets.items()):
        address = _pod_address(seen.addresses_of(pod), version)
        if address and (version == 4 or _can_ipv6(seen, names)):
            found.append(GuestAddress(version, subnet.guest, subnet.gateway, subnet.prefix_length, address))
    check_overlap(seen, names, tuple(found))
    return Masquerade(names, guest_mac, tuple(found), ports, ranges, meshed)


def check_overlap(seen: Seen, names: Names, addresses: tuple[GuestAddress, ...]) -> None:
    """Raises NetworkError when an address or a gateway of the Pod's lies in the guest's network: the way out is lost.

    That the guest's network is a part of a wider one of the Pod's is a shortfall, and no more.
    """
    theirs = [each.address for each in _not_of_guest(seen, names)] + [route.gateway for route in seen.routes]
    for each in addresses:
        ours = _network_of(each)
        for address in theirs:
            if address and ip_address(address) in ours:
                field = "vmNetworkCIDR" if each.version == 4 else "vmIPv6NetworkCIDR"
                raise NetworkError(
                    f"the guest's network {ours} has",
                    subject=address,
                    why="that is an address of the Pod's network",
                    remedy=f"give another network in networks[].pod.{field}",
                )


def _not_of_guest(seen: Seen, names: Names) -> list[Address]:
    bridge = seen.link(names.bridge)
    return [each for each in seen.addresses if bridge is None or each.link != bridge.index]


def _network_of(address: GuestAddress) -> IPv4Network | IPv6Network:
    return ip_interface(f"{address.gateway}/{address.prefix_length}").network


def mtu_of(seen: Seen, names: Names) -> int:
    """The guest's: the Pod's, as far as a tap can have it."""
    return _record(seen, names).guest_mtu


def plan_masquerade(wanted: Masquerade, looked: MasqueradeSeen, owner: tuple[int, int], queues: int) -> list[Step]:
    """The steps that are still missing, in their order; none when all is as it should be.

    The filters stand before the Pod forwards anything.
    """
    seen, names = looked.namespace, wanted.names
    record = _record(seen, names)
    steps: list[Step] = []
    steps += _table_steps(looked, names, fence_table(wanted), {})
    steps += _table_steps(looked, names, nat_table(wanted), port_keys(wanted))
    steps += sysctl_steps({name: value for name, value in _of_namespace().items() if name in seen.sysctls}, seen)
    steps += _bridge_steps(wanted, seen, record)
    steps += tap_steps(record, seen, names, owner, queues)
    bridge = seen.link(names.bridge)
    if bridge is None or not bridge.up:
        steps.append(SetLink(names.bridge, up=True))
    if wanted.of(6) is not None and seen.sysctls.get(_sysctl_of_accepting(names)) == "1":
        # A router forgets what routers told it, unless it is told to listen all the same: the Pod may have its own
        # address and way out from one.
        steps.append(SetSysctl(_sysctl_of_accepting(names), "2"))
    steps += sysctl_steps({FORWARDING[each.version]: "1" for each in wanted.addresses}, seen)
    return steps


def _table_steps(
    looked: MasqueradeSeen, names: Names, table: Table, elements: dict[str, tuple[bytes, ...]]
) -> Iterator[Step]:
    prefix = table_prefix(names)
    ours = {name for family, name in looked.tables if family is table.family and name.startswith(prefix)}
    if ours != {table.name} or (table.family, table.name) not in looked.whole:
        yield ReplaceTable(table, elements, tuple(sorted(ours - {table.name})))


def _of_namespace() -> dict[str, str]:
    return {
        # No link answers for the address of another: a neighbour on the Pod's link may have the guest's network.
        "ipv4/conf/all/arp_ignore": "1",
        # The launcher serves port 67 without a capability; usually the Pod's own sysctl says so already.
        "ipv4/ip_unprivileged_port_start": "0",
        # A frame of the guest's passes the filters of routed packets once, and not as a bridged one before.
        "bridge/bridge-nf-call-iptables": "0",
        "bridge/bridge-nf-call-ip6tables": "0",
        "bridge/bridge-nf-call-arptables": "0",
    }


def _of_links(names: Names, *, ipv6: bool) -> dict[str, str]:
    return {
        # A process of the Pod reaches the guest by the loopback; the fence keeps the guest from it.
        f"ipv4/conf/{names.bridge}/route_localnet": "1",
        f"ipv6/conf/{names.bridge}/accept_ra": "0",
        f"ipv6/conf/{names.bridge}/accept_dad": "0",
        f"ipv6/conf/{names.bridge}/disable_ipv6": "0" if ipv6 else "1",
        f"ipv6/conf/{names.tap}/disable_ipv6": "1",
    }


def _sysctl_of_accepting(names: Names) -> str:
    return f"ipv6/conf/{names.pod}/accept_ra"


def _bridge_steps(wanted: Masquerade, seen: Seen, record: Record) -> Iterator[Step]:
    names = wanted.names
    bridge, mtu = seen.link(names.bridge), record.guest_mtu
    if bridge is None:
        yield AddBridge(names.bridge, BRIDGE_MAC, mtu)
    elif (bridge.mac, bridge.mtu) != (BRIDGE_MAC, mtu):
        yield SetLink(names.bridge, mac=BRIDGE_MAC, mtu=mtu)
    settings = _of_links(names, ipv6=wanted.of(6) is not None)
    of_bridge = {name: value for name, value in settings.items() if f"/{names.bridge}/" in name}
    if record.mtu < SMALLEST_IPV6_MTU:
        # The kernel has no settings of IPv6 for a link that is too small for it.
        of_bridge = {name: value for name, value in of_bridge.items() if name.startswith("ipv4/")}
    yield from sysctl_steps(of_bridge, seen, fresh=bridge is None)
    should = {(each.gateway, each.prefix_length) for each in wanted.addresses}
    if wanted.of(6) is not None:
        should.add((ROUTER, _ROUTER_LENGTH))
    has = {(each.address, each.prefix_length) for each in seen.addresses_of(bridge)}
    for address, length in sorted(has - should):
        # The kernel's own is link-local.
        if not is_link_local(address):
            yield RemoveAddress(names.bridge, address, length)
    for address, length in sorted(should - has):
        yield AddAddress(names.bridge, address, length)


def _record(seen: Seen, names: Names) -> Record:
    """What the steps that all bindings share are planned from; nothing of it has to be remembered."""
    pod = seen.link(names.pod)
    assert pod is not None, "asked for a masquerade of nothing"
    return Record(netns="", index=pod.index, name=pod.name, mac=pod.mac, mtu=pod.mtu, addresses=(), routes=())


def _pod_address(addresses: tuple[Address, ...], version: int) -> str:
    """The first that others may know the Pod by; empty when there is none."""
    for each in addresses:
        if each.version == version and _is_global(each.address):
            return each.address
    return ""


def _is_global(text: str) -> bool:
    address = ip_address(text)
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _can_ipv6(seen: Seen, names: Names) -> bool:
    pod = seen.link(names.pod)
    return pod is not None and pod.mtu >= SMALLEST_IPV6_MTU


def shortfalls(wanted: Masquerade, seen: Seen) -> Iterator[str]:
    """What the guest does not get of the Pod's network, and why: sentences for the user."""
    names, record = wanted.names, _record(seen, wanted.names)
    if not wanted.addresses:
        yield f"the CNI gave the Pod's {names.pod} no address: the guest has no network"
    for each in wanted.addresses:
        ours = _network_of(each)
        for address in _not_of_guest(seen, names):
            theirs = ip_interface(f"{address.address}/{address.prefix_length}").network
            if theirs.version == ours.version and theirs.overlaps(ours):
                yield f"the guest cannot reach {ours} in the Pod's network {theirs}: it is the guest's own"
    pod = seen.link(names.pod)
    if not _can_ipv6(seen, names) and _pod_address(seen.addresses_of(pod), 6):
        yield f"the guest gets no IPv6: the MTU of the Pod's {names.pod} is {record.mtu}, IPv6 needs 1280"
    if record.mtu > record.guest_mtu:
        yield f"the guest's MTU is {record.guest_mtu}, the largest of a tap: the Pod's {names.pod} has {record.mtu}"
