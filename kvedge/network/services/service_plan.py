"""Which steps bring the service network of one box to what its Services say, and what of the host stands in its way.

Pure; `service_network` looks, asks here, and does. Only the node bridge and the table of that name are touched.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Final

from msgspec import Struct

from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.link_types import MAIN_TABLE, PROTO_STATIC, Route
from kvedge.network.nft.nft_tables import Table
from kvedge.network.node_seen import NodeSeen
from kvedge.network.services.service_rules import Balanced, Frontend, service_table
from kvedge.network.steps import AddRoute, ChangeElements, RemoveRoute, ReplaceTable, Step
from kvedge.runtime.address_pool import AddressRange

# A default route in two pieces, as VPNs have it, is wider than any range; in IPv6 all addresses of sites are a piece.
_LONGEST_DEFAULT: Final = {4: 1, 6: 3}

# A transaction is one packet to the kernel, whose longest a host's net.core.wmem_max sets: an element is some 50 bytes
# of it, up to three times.
MOST_KEYS: Final = 1000

Elements = Mapping[str, frozenset[bytes]]


class ServiceNetworkConfig(Struct, frozen=True, kw_only=True):
    """The addresses of Services, those of Pods, both of one version of IP, and the node bridge; `table` is the name of
    our table."""

    bridge: str
    pod_cidr: str
    service_cidr: str
    table: str
    # Addresses of the LAN that Services get, of the same version.
    pool: tuple[AddressRange, ...] = ()

    @property
    def version(self) -> int:
        """Of IP."""
        return ip_network(self.service_cidr).version

    @property
    def rules(self) -> Table:
        """Our table, without what is in its maps."""
        return service_table(self.table, self.service_cidr, self.pod_cidr, self.bridge, self.pool)


def table_name(node_table: str) -> str:
    """What our table is called beside the tables of the node network."""
    return f"{node_table}_services"


def check_overlap(config: ServiceNetworkConfig, seen: NodeSeen) -> None:
    """Raises OverlapError when the service CIDR is in use on this host.

    Not for a route that is wider: it takes no packet from our own, which is longer. Nor for one by our bridge, which
    may be of an earlier setting. Nor once our route is there, as a VPN may come and go.
    """
    bridge, wanted = seen.link(config.bridge), ip_network(config.service_cidr)
    if bridge is not None and any(each.link == bridge.index for each in _routes_to(config, seen)):
        return
    names = {link.index: link.name for link in seen.links}
    here = [each for each in seen.addresses if each.version == config.version]
    used = [(f"{each.address}/{each.prefix_length}", each.link, True) for each in here]
    used += [
        (route.destination, route.link, False) for route in seen.routes if bridge is None or route.link != bridge.index
    ]
    for text, index, is_address in used:
        network = ip_network(text, strict=False)
        longer = is_address or network.prefixlen >= wanted.prefixlen
        if network.prefixlen > _LONGEST_DEFAULT[config.version] and longer and network.overlaps(wanted):
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
    parts = _parts(config.rules, present or {}, wanted)
    if present is None:
        first = next(parts, ChangeElements(config.rules))
        yield ReplaceTable(config.rules, {each.name: first.add.get(each.name, ()) for each in config.rules.sets})
    yield from parts
    if not any(each.link == bridge.index for each in _routes_to(config, seen)):
        yield AddRoute(config.bridge, Route(config.service_cidr, "", bridge.index))
    for route in seen.routes:
        if route.link == bridge.index and _is_of_before(config, route):
            yield RemoveRoute(config.bridge, route)


def find_gone(before: Iterable[Balanced], after: Iterable[Balanced]) -> dict[Frontend, frozenset[tuple[str, int]]]:
    """Where clients of UDP were led, and are no longer: nothing tells them, and the kernel remembers."""
    there = {each.frontend: frozenset(each.endpoints) for each in after}
    gone = {
        each.frontend: frozenset(each.endpoints) - there.get(each.frontend, frozenset())
        for each in before
        if each.frontend.protocol == "UDP"
    }
    return {frontend: endpoints for frontend, endpoints in gone.items() if endpoints}


def _parts(rules: Table, present: Elements, wanted: Elements) -> Iterator[ChangeElements]:
    """What differs, in pieces that a socket takes. An element with another way has its new one in the same piece."""
    changes: dict[tuple[str, bytes], tuple[list[bytes], list[bytes]]] = {}
    for known in rules.sets:
        before, after = (each.get(known.name, frozenset()) for each in (present, wanted))
        for at, elements in enumerate((after - before, before - after)):
            for element in elements:
                key = known.name, element[: known.key_length]
                changes.setdefault(key, ([], []))[at].append(element)
    whole = sorted(changes.items())
    for first in range(0, len(whole), MOST_KEYS):
        both: tuple[dict[str, list[bytes]], dict[str, list[bytes]]] = ({}, {})
        for (name, _), change in whole[first : first + MOST_KEYS]:
            for part, differing in zip(both, change, strict=True):
                if differing:
                    part.setdefault(name, []).extend(differing)
        add, gone = ({name: tuple(each) for name, each in part.items()} for part in both)
        yield ChangeElements(rules, add=add, remove=gone)


def _is_of_before(config: ServiceNetworkConfig, route: Route) -> bool:
    """Whether it is one of ours, to the addresses that Services had under another setting."""
    is_ours = not route.gateway and route.protocol == PROTO_STATIC and route.table == MAIN_TABLE
    return is_ours and route.destination not in (config.service_cidr, config.pod_cidr)


def _routes_to(config: ServiceNetworkConfig, seen: NodeSeen) -> list[Route]:
    return [route for route in seen.routes if route.destination == config.service_cidr]
