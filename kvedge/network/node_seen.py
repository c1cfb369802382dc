"""What is seen of the host's own network namespace: links, addresses, routes and what it forwards.

Read by the doors of Pods' and Services' networks, judged by their plans. Facts alone; touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kvedge.network.link_types import Address, Link, Route


class LinkIpv6(Struct, frozen=True):
    """What a link does with IPv6: `accept_ra` and `forwarding`."""

    accept_ra: str
    forwarding: str


class Ipv6Seen(Struct, frozen=True):
    """What is seen of the host's IPv6; the fields are those of `NodeSeen`. `links` has `default` as well."""

    forwarding: str = ""
    routes: tuple[Route, ...] = ()
    links: Mapping[str, LinkIpv6] = field(default_factory=dict)
    foreign_nat: tuple[str, ...] = ()
    fenced: bool = False


class NodeSeen(Struct, frozen=True):
    """The host's namespace as it is."""

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    ip_forward: str
    ipv6: bool
    # Tables of others that translate addresses on the way out, as Docker and libvirt have them.
    foreign_nat: tuple[str, ...] = ()
    # Whether the table is there that keeps the host from forwarding between links of others.
    fenced: bool = False
    # Whether bridged frames pass the host's tables for IPv4 too, as Docker and Kubernetes want it (br_netfilter).
    bridged_calls: bool = False
    # Whether any link forwards by a setting of its own, which is lost when ip_forward is switched.
    forwards: bool = False
    of_ipv6: Ipv6Seen = Ipv6Seen()

    def link(self, name: str) -> Link | None:
        """The link of that name."""
        return next((link for link in self.links if link.name == name), None)
