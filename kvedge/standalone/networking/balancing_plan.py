"""Where each port of each Service is named, and who answers there; and which load balancers the host can be. Pure.

Called by the loop that puts packets on their way. One box is its own load balancer: such a Service is at the host's
own address, at each of its ports that nobody else has there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvedge.kube.work_queue import Key
from kvedge.network.services.service_rules import ANY_OWN, PROTOCOLS, Balanced, Frontend
from kvedge.resources.types.services import Endpoint, EndpointSlice, Service, ServicePort


@dataclass(frozen=True, slots=True)
class LoadBalancer:
    """What becomes of a Service of that type: where it is, or why it is nowhere."""

    address: str = ""
    problem: str = ""


def plan_load_balancers(
    services: Iterable[Service], host: str, listening: Collection[tuple[str, int]]
) -> dict[Key, LoadBalancer]:
    """Which of these get the host's address, None of the ports of which is another's; `listening` has the host's own.

    A Service that has the address keeps it; of others the older comes first.
    """
    found: dict[Key, LoadBalancer] = {}
    owners: dict[tuple[str, int], Key] = {}
    for service in sorted((item for item in services if is_load_balancer(item)), key=_age):
        key = Key(service.metadata.namespace, service.metadata.name)
        ports = [(port.protocol, port.port) for port in service.spec.ports]
        problem = "" if _is_usable(host) else "this host has no address that others reach it by"
        for protocol, number in ports:
            if problem:
                break
            if (protocol, number) in owners:
                problem = f"port {number}/{protocol} of {host} belongs to service {owners[protocol, number]}"
            elif (protocol, number) in listening:
                problem = f"port {number}/{protocol} of {host} is in use by a program of the host: choose another port"
        if not problem:
            owners.update(dict.fromkeys(ports, key))
        found[key] = LoadBalancer("" if problem else host, problem)
    return found


def is_load_balancer(service: Service) -> bool:
    """Whether a Service is for the host to balance: one that names a class is somebody else's."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def plan_balancing(
    services: Iterable[Service],
    slices: Mapping[Key, Sequence[EndpointSlice]],
    load_balancers: Mapping[Key, LoadBalancer],
) -> Iterator[Balanced]:
    """Every port of every Service that has an address; `slices` by the Service that they name."""
    for service in services:
        spec, key = service.spec, Key(service.metadata.namespace, service.metadata.name)
        if spec.type == "ExternalName" or spec.cluster_ip in ("", "None"):
            continue
        addresses = [spec.cluster_ip]
        if balancer := load_balancers.get(key, LoadBalancer()).address:
            addresses.append(balancer)
        for port in spec.ports:
            if port.protocol not in PROTOCOLS:
                continue
            endpoints = _endpoints(slices.get(key, ()), port)
            sticky = spec.session_affinity == "ClientIP"
            fronts = [Frontend(address, port.protocol, port.port) for address in addresses]
            if port.node_port:
                fronts.append(Frontend(ANY_OWN, port.protocol, port.node_port))
            for front in fronts:
                yield Balanced(front, endpoints, sticky)


def _endpoints(slices: Sequence[EndpointSlice], port: ServicePort) -> tuple[tuple[str, int], ...]:
    """Those that are ready; while none is, those that still serve although they end."""
    ready: set[tuple[str, int]] = set()
    ending: set[tuple[str, int]] = set()
    for item in slices:
        number = next((each.port for each in item.ports if each.name == port.name and _fits(each.protocol, port)), None)
        if item.address_type != "IPv4" or not number:
            continue
        for endpoint in item.endpoints:
            ways = {(address, number) for address in endpoint.addresses[:1] if _is_usable(address)}
            if endpoint.conditions.ready is not False:
                ready |= ways
            elif _still_serves(endpoint):
                ending |= ways
    return tuple(sorted(ready or ending))


def _fits(protocol: str | None, port: ServicePort) -> bool:
    return (protocol or "TCP") == port.protocol


def _still_serves(endpoint: Endpoint) -> bool:
    return endpoint.conditions.serving is True and endpoint.conditions.terminating is True


def _is_usable(text: str) -> bool:
    """Not the loopback or a link: whoever writes endpoints would reach what listens for the host alone."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _age(service: Service) -> tuple[bool, str, str, str]:
    meta = service.metadata
    return not service.status.load_balancer.ingress, meta.creation_timestamp or "", meta.namespace, meta.name
