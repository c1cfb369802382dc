"""Where each port of each Service is named, and who answers there; and which load balancers the host can be. Pure.

Called by the loop that puts packets on their way. One box is its own load balancer: such a Service is at the host's
own address, at each of its ports that nobody else has there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.kube.work_queue import Key
from kvedge.network.services.service_rules import (
    ANY_OWN,
    ANY_OWN_IPV6,
    PROTOCOLS,
    Balanced,
    Frontend,
    element_count,
)
from kvedge.resources.types.services import (
    FIRST_NODE_PORT,
    IPV4,
    IPV6,
    LAST_NODE_PORT,
    Endpoint,
    EndpointSlice,
    Service,
    ServicePort,
)

# The kernel's maps hold so much at most: Services with many endpoints count 64 for each port and address.
MOST_ELEMENTS: Final = 20_000
_ANY_OWN: Final = {IPV4: ANY_OWN, IPV6: ANY_OWN_IPV6}
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MADE_HEADLESS: Final = "it was made headless by an earlier version: delete it and make it anew"


class LoadBalancer(Struct, frozen=True):
    """What becomes of a Service of that type: where it is, of each family, or why it is nowhere."""

    addresses: tuple[str, ...] = ()
    problem: str = ""


class Balancing(Struct, frozen=True):
    """What goes into the kernel; and for Services of which something does not, why."""

    ports: tuple[Balanced, ...]
    problems: Mapping[Key, str]


def plan_load_balancers(
    services: Iterable[Service],
    hosts: Collection[str],
    listening: Collection[tuple[str, int]],
    kept: Collection[tuple[str, int]] = (),
) -> dict[Key, LoadBalancer]:
    """Which of these get the host's addresses, none of the ports of which is another's; `listening` has the host's own.

    `hosts` has an address of each family by which others reach the host. A Service that wants both families and finds
    one is there.

    `kept` are ports that no Service gets, whether something listens there right now or not. A Service that has the
    address keeps it; of others the older comes first.
    """
    found: dict[Key, LoadBalancer] = {}
    owners: dict[tuple[str, str, int], Key] = {}
    usable = [host for host in hosts if _is_usable(host)]
    for service in sorted((item for item in services if is_load_balancer(item)), key=age_of):
        key = Key(service.metadata.namespace, service.metadata.name)
        ports = [(port.protocol, port.port) for port in service.spec.ports]
        families = service.spec.addresses
        addresses = tuple(host for host in usable if _family_of(host) in families)
        problem = "" if addresses else "this host has no address that others reach it by"
        if not families:
            problem = _MADE_HEADLESS
        wanted = [(host, *port) for host in addresses for port in ports]
        for host, protocol, number in () if problem else wanted:
            if (host, protocol, number) in owners:
                problem = f"port {number}/{protocol} of {host} belongs to service {owners[host, protocol, number]}"
            elif (protocol, number) in kept:
                problem = f"port {number}/{protocol} of {host} is kept for the host itself: choose another port"
            elif (protocol, number) in listening:
                problem = f"port {number}/{protocol} of {host} is in use by a program of the host: choose another port"
            if problem:
                break
        if not problem:
            owners.update(dict.fromkeys(wanted, key))
        found[key] = LoadBalancer(() if problem else addresses, problem)
    return found


def is_load_balancer(service: Service) -> bool:
    """Whether a Service is for the host to balance: a Service with a class is another program's."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def plan_balancing(
    services: Iterable[Service],
    slices: Mapping[Key, Sequence[EndpointSlice]],
    load_balancers: Mapping[Key, LoadBalancer],
    service_cidrs: Iterable[str],
    taken: Collection[tuple[str, int]] = (),
) -> Balancing:
    """Every port of every Service that has an address; `slices` by the Service that they name, `taken` as `listening`.

    What is stored may be of an earlier version or of other settings: nothing of it is trusted. Older Services come
    first, to an address that two have as to the room that there is.
    """
    plan = _Plan([ipaddress.ip_network(cidr) for cidr in service_cidrs], taken)
    for service in sorted(services, key=_sort_by_age):
        key = Key(service.metadata.namespace, service.metadata.name)
        if service.spec.type != "ExternalName":
            plan.add(key, service, slices.get(key, ()), load_balancers.get(key, LoadBalancer()).addresses)
    return Balancing(tuple(plan.ports), plan.problems)


class _Plan:
    """What is planned so far."""

    def __init__(self, service_cidrs: Iterable[_Network], taken: Collection[tuple[str, int]]) -> None:
        self._service_cidrs = {IPV4 if each.version == 4 else IPV6: each for each in service_cidrs}
        self._taken = taken
        self._owners: dict[Frontend, Key] = {}
        self._elements = 0
        self.ports: list[Balanced] = []
        self.problems: dict[Key, str] = {}

    def add(self, key: Key, service: Service, slices: Sequence[EndpointSlice], balancers: Collection[str]) -> None:
        """All ports of one Service, or none where there is no more room."""
        spec, found = service.spec, list[Balanced]()
        addresses = spec.addresses
        if not addresses:
            if spec.type in ("NodePort", "LoadBalancer") or not spec.cluster_ip:
                self.problems[key] = _MADE_HEADLESS
            return
        for port in spec.ports:
            if port.protocol not in PROTOCOLS:
                continue
            for family, address in addresses.items():
                endpoints = _endpoints(slices, port, family)
                own = [each for each in balancers if _family_of(each) == family]
                for front in self._claim_frontends(key, port, (family, address), own):
                    found.append(Balanced(front, endpoints, spec.session_affinity == "ClientIP"))
        count = sum(element_count(each) for each in found)
        if self._elements + count > MOST_ELEMENTS:
            for each in found:
                del self._owners[each.frontend]
            self.problems[key] = "one box has no room for the ports and endpoints of this many Services: delete some"
            return
        self._elements += count
        self.ports += found

    def _claim_frontends(
        self, key: Key, port: ServicePort, at: tuple[str, str], balancers: Iterable[str]
    ) -> Iterator[Frontend]:
        for front in self._find_wanted_frontends(key, port, at, balancers):
            if not _is_port(front.port):
                continue
            if front in self._owners:
                where = "the node" if front.address in _ANY_OWN.values() else front.address
                text = f"port {front.port}/{front.protocol} of {where} belongs to service {self._owners[front]}"
                self._tell(key, text)
                continue
            self._owners[front] = key
            yield front

    def _find_wanted_frontends(
        self, key: Key, port: ServicePort, at: tuple[str, str], balancers: Iterable[str]
    ) -> Iterator[Frontend]:
        family, address = at
        known, number = self._service_cidrs.get(family), port.node_port
        if known is None:
            self._tell(key, f"this box has no {family} addresses for Services any more: {address} leads nowhere")
            return
        if _is_within(address, known):
            yield Frontend(address, port.protocol, port.port)
        else:
            self._tell(key, f"its address {address} is not of {known}: delete it and make it anew")
        for balancer in balancers:
            yield Frontend(balancer, port.protocol, port.port)
        if not number:
            return
        if not FIRST_NODE_PORT <= number <= LAST_NODE_PORT:
            self._tell(key, f"node port {number} is not of {FIRST_NODE_PORT}-{LAST_NODE_PORT}: choose another one")
        elif (port.protocol, number) in self._taken:
            text = f"node port {number}/{port.protocol} is in use by a program of the host: choose another one"
            self._tell(key, text)
        else:
            yield Frontend(_ANY_OWN[family], port.protocol, number)

    def _tell(self, key: Key, problem: str) -> None:
        # The first one is enough to do something about.
        self.problems.setdefault(key, problem)


def _endpoints(slices: Sequence[EndpointSlice], port: ServicePort, family: str) -> tuple[tuple[str, int], ...]:
    """The ready endpoints; while there are none, those that still serve although they end."""
    ready: set[tuple[str, int]] = set()
    ending: set[tuple[str, int]] = set()
    for item in slices:
        number = next((each.port for each in item.ports if each.name == port.name and _fits(each.protocol, port)), 0)
        if item.address_type != family or not number or not _is_port(number):
            continue
        for endpoint in item.endpoints:
            ways = {(address, number) for address in endpoint.addresses[:1] if _is_usable(address, family)}
            if endpoint.conditions.ready is not False:
                ready |= ways
            elif _still_serves(endpoint):
                ending |= ways
    return tuple(sorted(ready or ending))


def _fits(protocol: str | None, port: ServicePort) -> bool:
    return (protocol or "TCP") == port.protocol


def _still_serves(endpoint: Endpoint) -> bool:
    return endpoint.conditions.serving is True and endpoint.conditions.terminating is True


def _is_usable(text: str, family: str = "") -> bool:
    """Not the loopback or a link: a writer of endpoints would reach programs that listen for the host alone."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if (family and _family_of(text) != family) or "%" in text or getattr(address, "ipv4_mapped", None) is not None:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _family_of(address: str) -> str:
    return IPV6 if ":" in address else IPV4


def _is_port(number: int) -> bool:
    return 0 < number < 1 << 16


def _is_within(text: str, network: _Network) -> bool:
    try:
        return ipaddress.ip_address(text) in network
    except ValueError:
        return False


def _sort_by_age(service: Service) -> tuple[str, str, str]:
    meta = service.metadata
    return meta.creation_timestamp or "", meta.namespace, meta.name


def age_of(service: Service) -> tuple[bool, tuple[str, str, str]]:
    """The order in which load balancers are given: Services with an address first, then the older."""
    return not service.status.load_balancer.ingress, _sort_by_age(service)
