"""Which steps bring the service network of one box to what its Services say, and what of the host stands in its way.

Pure; `service_network` looks, asks here, and does. Only the node bridge and the table of that name are touched.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.link_types import Route
from kvedge.network.nft_rules import Table
from kvedge.network.pods.forwarding_plan import NodeSeen
from kvedge.network.services.service_rules import service_table
from kvedge.network.steps import AddRoute, ChangeElements, ReplaceTable, Step

# A default route in two pieces, as VPNs have it, is wider than any range.
_LONGEST_DEFAULT: Final = 1

Elements = Mapping[str, frozenset[bytes]]


@dataclass(frozen=True, kw_only=True)
class ServiceNetworkConfig:
    """The addresses of Services, those of Pods, and the node bridge; `table` is the name of our table."""

    bridge: str
    pod_cidr: str
    service_cidr: str
    table: str

    @property
    def rules(self) -> Table:
        """Our table, without what is in its maps."""
        return service_table(self.table, self.service_cidr, self.pod_cidr, self.bridge)


def table_name(node_table: str) -> str:
    """What our table is called beside the tables of the node network."""
    return f"{node_table}_services"


def check_overlap(config: ServiceNetworkConfig, seen: NodeSeen) -> None:
    """Raises OverlapError when the service CIDR is in use on this host.

    Not for a route that is wider: it takes no packet from our own, which is longer. Nor once our route is there, as a
    VPN may come and go.
    """
    bridge, wanted = seen.link(config.bridge), IPv4Network(config.service_cidr)
    if bridge is not None and any(each.link == bridge.index for each in _routes_to(config, seen)):
        return
    names = {link.index: link.name for link in seen.links}
    used = [(f"{each.address}/{each.prefix_length}", each.link, True) for each in seen.addresses if each.version == 4]
    used += [(route.destination, route.link, False) for route in seen.routes if ":" not in route.destination]
    for text, index, is_address in used:
        network = IPv4Network(text, strict=False)
        longer = is_address or network.prefixlen >= wanted.prefixlen
        if network.prefixlen > _LONGEST_DEFAULT and longer and network.overlaps(wanted):
            raise OverlapError(
                f"--service-cidr {config.service_cidr} overlaps",
                subject=f"{text} of {names.get(index, 'several links')}",
                remedy="give another --service-cidr, one that neither this host nor its network uses",
            )


def plan_services(
    config: ServiceNetworkConfig, seen: NodeSeen, present: Elements | None, wanted: Elements
) -> Iterator[Step]:
    """From what our table has in its maps, or None where it is not whole, to what is wanted.

    Without the route, the host itself could not reach a Service while it has no default route; and it gives the host
    the bridge's address as its own towards guests. Raises NetworkError while there is no bridge.
    """
    bridge = seen.link(config.bridge)
    if bridge is None:
        raise NetworkError("there is no bridge", subject=config.bridge, errno=errno.ENODEV)
    if present is None:
        yield ReplaceTable(config.rules, {name: tuple(sorted(keys)) for name, keys in wanted.items()})
    else:
        add = {name: tuple(sorted(keys - present.get(name, frozenset()))) for name, keys in wanted.items()}
        gone = {name: tuple(sorted(keys - wanted.get(name, frozenset()))) for name, keys in present.items()}
        if any(add.values()) or any(gone.values()):
            yield ChangeElements(config.rules, add=add, remove=gone)
    if not any(each.link == bridge.index for each in _routes_to(config, seen)):
        yield AddRoute(config.bridge, Route(config.service_cidr, "", bridge.index))


def _routes_to(config: ServiceNetworkConfig, seen: NodeSeen) -> list[Route]:
    return [route for route in seen.routes if route.destination == config.service_cidr]
