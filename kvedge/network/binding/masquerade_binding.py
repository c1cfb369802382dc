"""Puts the guest of a launcher Pod behind the Pod's address, by a bridge and address translation in its namespace.

Called by the handler, as root on the host. Touches the bridge and the tap that it makes, the `kvedge_masquerade_*`
nftables tables, a few kernel settings of that namespace and /dev/net/tun; the Pod's NIC stays as the CNI left it.
Decides by `masquerade_plan`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvedge.network.apply_step import apply_step
from kvedge.network.binding.binding_state import Names, Seen, names_for
from kvedge.network.binding.bound_interface import BoundInterface, GuestIpv6
from kvedge.network.binding.masquerade_plan import (
    ROUTER,
    MasqueradeSeen,
    mtu_of,
    plan_masquerade,
    plan_wanted_masquerade,
    shortfalls,
    sysctls_to_read,
)
from kvedge.network.binding.masquerade_rules import Masquerade, fence_table, nat_table, table_prefix
from kvedge.network.binding.pod_namespace import pod_namespace
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns
from kvedge.network.nft.nft_edge import is_whole, list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.sysctls import read_sysctl
from kvedge.resources.masquerade import BRIDGE_MAC, GuestSubnet


def masquerade_pod_interface(
    netns: NetnsRef,
    *,
    guest_mac: str,
    subnets: Mapping[int, GuestSubnet],
    ports: frozenset[tuple[int, int]] = frozenset(),
    ranges: frozenset[tuple[int, int, int]] = frozenset(),
    meshed: bool = False,
    pod_interface: str = "eth0",
    index: int = 0,
    tap_owner: tuple[int, int] = (107, 107),
    queues: int = 1,
) -> BoundInterface:
    """Makes the binding, or what is missing of it; the same answer each time for the same Pod.

    `subnets` has the guest's network of each IP version that it may have, `ports` the (protocol, port) pairs that reach
    it and `ranges` the (protocol, first, last), all when there are none of either. What is there already stays: no
    connection of the guest's breaks. Nothing undoes it: everything goes with the Pod's namespace. Raises NetworkError
    for what a later try may cure.
    """
    names = names_for(pod_interface, index)
    pod_namespace(netns)

    def bind() -> BoundInterface:
        with Links() as links:
            seen = _look(links, names)
            wanted = plan_wanted_masquerade(
                seen, names, guest_mac.lower(), subnets, ports=ports, ranges=ranges, meshed=meshed
            )
            for step in plan_masquerade(wanted, _with_tables(seen, wanted), tap_owner, queues):
                apply_step(links, step)
            return _bind(wanted, subnets, mtu_of(seen, names), tuple(shortfalls(wanted, seen)))

    return run_in_netns(netns, bind)


def _look(links: Links, names: Names) -> Seen:
    settings = {name: read_sysctl(name) for name in sysctls_to_read(names)}
    return Seen(
        links=tuple(links.list_links()),
        addresses=tuple(links.list_addresses()),
        routes=(*links.list_routes(), *links.list_ipv6_routes()),
        guards=(),
        sysctls={name: value for name, value in settings.items() if value is not None},
    )


def _with_tables(seen: Seen, wanted: Masquerade) -> MasqueradeSeen:
    tables = (fence_table(wanted), nat_table(wanted))
    prefix = table_prefix(wanted.names)
    found = {(family, name) for family in (Family.BRIDGE, Family.INET) for name in list_tables(family, prefix)}
    whole = {(table.family, table.name) for table in tables if is_whole(table)}
    return MasqueradeSeen(namespace=seen, tables=frozenset(found), whole=frozenset(whole))


def _bind(wanted: Masquerade, subnets: Mapping[int, GuestSubnet], mtu: int, lacks: tuple[str, ...]) -> BoundInterface:
    names, ipv4, ipv6 = wanted.names, wanted.of(4), wanted.of(6)
    return BoundInterface(
        tap=names.tap,
        bridge=names.bridge,
        mac=wanted.guest_mac,
        mtu=mtu,
        address=ipv4.guest if ipv4 else "",
        prefix_length=ipv4.prefix_length if ipv4 else 0,
        gateway=ipv4.gateway if ipv4 else "",
        server=ipv4.gateway if ipv4 else "",
        ipv6=GuestIpv6(address=ipv6.guest, gateway=ROUTER, subnet=subnets[6].cidr) if ipv6 else None,
        bridge_mac=BRIDGE_MAC,
        pod_addresses=tuple(each.pod for each in wanted.addresses),
        shortfalls=lacks,
    )
