"""What is wrong with the addresses of one box as settings name them: each by itself, and beside the others. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from kvedge.runtime.address_pool import AddressPool, address_pool
from kvedge.runtime.address_ranges import AddressRanges, address_ranges

POOL = "load-balancer-pool"


def wrong_networks(pod_cidr: str, service_cidr: str, pool: str) -> Iterator[tuple[str, str]]:
    """(setting, what is wrong with it) of each that cannot be used."""
    given = {"pod-cidr": pod_cidr, "service-cidr": service_cidr}
    found: dict[str, AddressRanges] = {}
    for key, text in given.items():
        try:
            found[key] = address_ranges(text)
        except ValueError as error:
            yield key, f"{text} is not an IPv4 network, such as 10.99.0.0/24: {error}"
    wrong = [(key, why) for key, ranges in found.items() for why in _wrong_ranges(key, ranges)]
    yield from wrong
    if wrong or len(found) < len(given):
        return
    pods, services = found["pod-cidr"], found["service-cidr"]
    if services.ipv6 and not pods.ipv6:
        yield "service-cidr", f"{services.ipv6} leads nowhere: give pod-cidr an IPv6 network as well"
    for one, other in zip(services.all, pods.all, strict=False):
        if ipaddress.ip_network(one).overlaps(ipaddress.ip_network(other)):
            yield "service-cidr", f"{one} overlaps with pod-cidr {other}"
    try:
        balancers = address_pool(pool)
    except ValueError as error:
        yield POOL, f"{pool} is no list of addresses, such as 192.168.1.240-192.168.1.250: {error}"
        return
    yield from ((POOL, why) for why in _wrong_pool(balancers, found))


def _wrong_ranges(key: str, ranges: AddressRanges) -> Iterator[str]:
    kind = "VMs" if key == "pod-cidr" else "Services"
    network = ipaddress.IPv4Network(ranges.ipv4)
    if network.prefixlen > 29:
        yield f"{network} has room for too few {kind}: use a prefix of 29 or shorter"
    if not ranges.ipv6:
        return
    ipv6 = ipaddress.IPv6Network(ranges.ipv6)
    if ipv6.is_link_local or ipv6.is_multicast or ipv6.is_unspecified or ipv6.is_loopback or ipv6.is_site_local:
        yield f"{ipv6} is no network for {kind}: use one of the site's, or one below fd00::/8"
    # Each VM has one of either kind, at the same place of its range.
    longest = 128 - network.max_prefixlen + network.prefixlen if key == "pod-cidr" else 125
    shortest = 48 if key == "pod-cidr" else 108
    if not shortest <= ipv6.prefixlen <= longest:
        yield f"{ipv6} has the wrong size: use a prefix of {shortest} to {longest} for {kind}"


def _wrong_pool(pool: AddressPool, others: Mapping[str, AddressRanges]) -> Iterator[str]:
    if pool.of_version(6) and not others["service-cidr"].ipv6:
        yield f"{pool.of_version(6)[0]} leads nowhere: give pod-cidr and service-cidr an IPv6 network as well"
    for key, ranges in others.items():
        for network in map(ipaddress.ip_network, ranges.all):
            for each in pool.ranges:
                if each.overlaps(network.network_address, network.broadcast_address):
                    yield f"{each} overlaps with {key} {network}: give addresses of the LAN"
