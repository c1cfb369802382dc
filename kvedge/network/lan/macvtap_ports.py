"""NICs of Pods that are macvtaps on a NIC of this host, for the node agent and the handler.

Called as root on the host. Touches links of its own in the Pods' namespaces; decides by `macvtap_plan`. Every call may
be repeated, and takes up where an earlier one was cut short. All else goes with the Pod's namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from kvedge.network.apply_step import apply_step, pass_over_gone
from kvedge.network.lan.macvtap_plan import (
    HostNics,
    MacvtapPort,
    find_replaced,
    macvtap_ports_of,
    plan_macvtap,
    plan_macvtap_inside,
    plan_macvtap_leaving,
)
from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, is_netns, netns_path, run_in_netns
from kvedge.network.nics.nic_managers import is_wireless
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.steps import Step
from kvedge.network.sysctls import read_sysctl

_IPV6: Final = "ipv6/conf/default/disable_ipv6"


def macvtap_ports(netns: str) -> list[MacvtapPort]:
    """The NICs that a Pod has of this kind already."""
    return macvtap_ports_of(netns, list_links_in(netns_path(netns))) if is_netns(netns_path(netns)) else []


def attach_macvtap(config: NodeNetworkConfig, wanted: MacvtapPort, path: Path | None = None) -> None:
    """Give the Pod, whose namespace is there, this NIC; `path` leads to the namespace where it has no name.

    Raises:
        NetworkError: when there can be none on that NIC of the host.
    """
    path = path or netns_path(wanted.netns)
    inside = list_links_in(path)
    with Links() as links:
        host = links.list_links()
        wireless = {link.name for link in host if link.name == wanted.network.nic and is_wireless(link.name)}
        seen = HostNics(tuple(host), frozenset(wireless))
        steps = plan_macvtap(config, seen, inside, wanted, path)
        for name in find_replaced(inside, wanted):
            detach_macvtap(path, name)
        _apply(links, steps)

    def finish() -> None:
        with Links() as links:
            ipv6 = read_sysctl(_IPV6) is not None
            _apply(links, plan_macvtap_inside(links.list_links(), wanted, ipv6=ipv6))

    run_in_netns(path, finish)


def detach_macvtaps(netns: str, kept: Collection[str] = ()) -> None:
    """Take such NICs of a Pod away, all but those of these names; nothing when there are none."""
    path = netns_path(netns)
    if is_netns(path):
        _leave(path, lambda name: name in kept)


def detach_macvtap(netns: NetnsRef, nic: str) -> None:
    """Take one such NIC of a Pod away; nothing when there is none, or somebody else has made it.

    Raises:
        NetworkError: when the kernel refused, or the namespace is gone.
    """
    _leave(netns, lambda name: name != nic)


def _leave(netns: NetnsRef, keeps: Callable[[str], bool]) -> None:
    def leave() -> None:
        with Links() as links:
            found = links.list_links()
            kept = {link.name for link in found if keeps(link.name)}
            for step in plan_macvtap_leaving(found, kept):
                with pass_over_gone():
                    apply_step(links, step)

    run_in_netns(netns, leave)


def list_links_in(netns: NetnsRef) -> list[Link]:
    """The links of a namespace. Raises NetworkError: when it is gone."""

    def look() -> list[Link]:
        with Links() as links:
            return links.list_links()

    return run_in_netns(netns, look)


def _apply(links: Links, steps: list[Step]) -> None:
    for step in steps:
        apply_step(links, step)
