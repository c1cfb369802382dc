"""NICs of Pods on bridges of this host besides the node bridge, for the node agent and the handler.

Called as root on the host. Touches ports of its own, the bridges that kvedge made, one nftables table of the bridge
family, and the Pods' namespaces; decides by `lan_plan`. Every call may be repeated, and takes up where an earlier one
was cut short.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.network.apply_step import apply_step, pass_over_gone
from kvedge.network.binding.binding_state import GUARD_PREFIX
from kvedge.network.errors import NotSupportedError
from kvedge.network.lan.lan_bridges import LanSeen
from kvedge.network.lan.lan_plan import (
    LanPort,
    lan_port_name,
    lan_ports_of,
    lan_table_of,
    plan_lan_detaching,
    plan_lan_healing,
    plan_lan_inside,
    plan_lan_port,
    plan_lan_removal,
)
from kvedge.network.lan.lan_switch_plan import plan_lan_switch
from kvedge.network.lan.lan_words import describe_lan, lan_troubles
from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.nft.nft_edge import is_whole, list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.pods.veth_ends import leads_into
from kvedge.network.steps import Step
from kvedge.network.sysctls import read_sysctl

# The table is put back with the keys of the ports that were seen: nobody is attached or detached between the two.
_changing: Final = threading.Lock()
_FILTERED: Final = "bridge/bridge-nf-call-iptables"
_IPV6: Final = "ipv6/conf/default/disable_ipv6"


class LanHealth(Struct, frozen=True):
    """What was put back of these networks, which guests are cut off from theirs, and the bridges on which this host
    filters bridged frames as if it forwarded them (`bridge-nf-call-iptables`), as k3s and Docker have it."""

    healed: tuple[str, ...]
    troubles: tuple[str, ...]
    filtered: tuple[str, ...] = ()


def lan_ports(config: NodeNetworkConfig, netns: str) -> list[LanPort]:
    """The NICs that a Pod has on such networks already, and that lead into the namespace of this name."""
    with Links() as links:
        seen = links.list_links()
    by_name, path = {link.name: link for link in seen}, netns_path(netns)
    ports = lan_ports_of(config, seen)
    return [port for name, port in ports.items() if port.netns == netns and leads_into(by_name[name], path)]


def lan_ports_here(config: NodeNetworkConfig) -> dict[str, LanPort]:
    """All of this host's, by their names, wherever they lead. Raises NetworkError."""
    with Links() as links:
        return lan_ports_of(config, links.list_links())


def attach_lan(config: NodeNetworkConfig, wanted: LanPort, path: Path | None = None) -> None:
    """Gives the Pod, whose namespace is there, this NIC; a bound NIC is left as it is inside.

    `path` leads to the namespace where it has no name.

    Raises NetworkError: when the bridge cannot be joined, or the MAC is another Pod's there.
    """
    path = path or netns_path(wanted.netns)
    name = lan_port_name(config, wanted.netns, wanted.interface)
    with _changing, Links() as links:
        seen = _look(links, config)
        addresses = tuple(links.list_addresses()) if wanted.address else ()
        seen = replace(seen, is_whole=seen.has_table and is_whole(lan_table_of(config)), addresses=addresses)
        whole = leads_into(seen.link(name), path)
        _apply(links, plan_lan_port(config, seen, wanted, path, whole=whole))

    def attach_inside() -> None:
        if any(guard.endswith(f"_{wanted.interface}") for guard in list_tables(Family.BRIDGE, GUARD_PREFIX)):
            return
        with Links() as links:
            _apply(links, plan_lan_inside(links.list_links(), wanted, ipv6=read_sysctl(_IPV6) is not None))

    run_in_netns(path, attach_inside)


def switch_lan(config: NodeNetworkConfig, wanted: LanPort) -> None:
    """Takes a NIC that the Pod has to another network; inside it stays as it is.

    Raises NetworkError: when the bridge cannot be joined, or the guest would have to be told of the change.
    """
    with _changing, Links() as links:
        seen = _look(links, config)
        seen = replace(seen, is_whole=seen.has_table and is_whole(lan_table_of(config)))
        for step in plan_lan_switch(config, seen, wanted):
            apply_step(links, step)


def detach_lan(config: NodeNetworkConfig, netns: str, kept: Collection[str] = ()) -> None:
    """Takes such NICs of a Pod away, all but those of these names; nothing when there are none."""
    with _changing, Links() as links:
        for step in plan_lan_detaching(config, _look(links, config), netns, kept):
            _apply_unless_gone(links, step)


def heal_lan(config: NodeNetworkConfig) -> LanHealth:
    """Puts back what somebody has undone since; cheap when that is nothing. Raises NetworkError."""
    with _changing, Links() as links:
        seen = _look(links, config)
        steps = plan_lan_healing(config, seen, whole=seen.has_table and is_whole(lan_table_of(config)))
        _apply(links, steps)
    bridges = {port.network.bridge for port in lan_ports_of(config, seen.links).values()}
    is_filtered = read_sysctl(_FILTERED) == "1"
    filtered = tuple(sorted(bridges)) if is_filtered else ()
    return LanHealth(tuple(describe_lan(steps)), tuple(lan_troubles(config, seen)), filtered)


def renew_keys(config: NodeNetworkConfig) -> None:
    """Take from the table what it knows of ports that have gone by themselves. Raises NetworkError."""
    with _changing, Links() as links:
        seen = _look(links, config)
        if seen.has_table:
            _apply(links, plan_lan_healing(config, seen, whole=False))


def remove_lan(config: NodeNetworkConfig) -> None:
    """Removes all that is ours: ports, table, bridges. Raises NetworkError."""
    with _changing, Links() as links:
        for step in plan_lan_removal(config, _look(links, config)):
            _apply_unless_gone(links, step)


def _look(links: Links, config: NodeNetworkConfig) -> LanSeen:
    table = lan_table_of(config).name
    try:
        has_table = table in list_tables(Family.BRIDGE, table)
    except NotSupportedError:
        # A kernel without nftables: links of ours can be removed all the same.
        has_table = False
    return LanSeen(tuple(links.list_links()), has_table, read_sysctl(_IPV6) is not None)


def _apply(links: Links, steps: list[Step]) -> None:
    for step in steps:
        apply_step(links, step)


def _apply_unless_gone(links: Links, step: Step) -> None:
    with pass_over_gone():
        apply_step(links, step)
