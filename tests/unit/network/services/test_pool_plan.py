"""Where the pool's addresses stand on the host, and which a pool must not have."""

from __future__ import annotations

import pytest

from kvedge.network.errors import OverlapError
from kvedge.network.link_types import Address, Link, Route
from kvedge.network.services.pool_plan import (
    HostSeen,
    address_mark,
    addresses_of_nobody,
    check_pool,
    plan_pool_addresses,
    pool_problems,
    uplinks,
)
from kvedge.network.steps import AddSideAddress, RemoveAddress
from kvedge.runtime.address_pool import address_pool
from tests.support.values import replace

BRIDGE = "kvedge0"
MARK = address_mark(BRIDGE)
LINKS = tuple(
    Link(index, name, "", "52:54:00:00:00:01", 1500, up=True)
    for index, name in ((1, "lo"), (2, "eno1"), (3, "eno2"), (4, BRIDGE))
)
OWN = (Address(2, "192.0.2.2", 24), Address(3, "198.51.100.2", 24), Address(4, "10.99.0.1", 24))
ROUTES = (Route("0.0.0.0/0", "198.51.100.1", 3), Route("::/0", "fe80::1", 2))
SEEN = HostSeen(LINKS, OWN, ROUTES)


def with_more(*addresses: Address) -> HostSeen:
    return replace(SEEN, addresses=(*OWN, *addresses))


def test_an_address_is_on_the_link_whose_network_it_is_of_or_on_that_to_the_router() -> None:
    wanted = ["192.0.2.100", "198.51.100.9", "203.0.113.5", "2001:db8::5"]
    assert uplinks(wanted, BRIDGE, SEEN) == {
        "192.0.2.100": "eno1",
        "198.51.100.9": "eno2",
        "203.0.113.5": "eno2",
        "2001:db8::5": "eno1",
    }


def test_the_narrowest_network_counts_and_an_address_of_ours_makes_none() -> None:
    seen = with_more(Address(3, "192.0.2.130", 25), Address(3, "192.0.2.100", 32, protocol=MARK))
    assert uplinks(["192.0.2.200", "192.0.2.100"], BRIDGE, seen) == {"192.0.2.200": "eno2", "192.0.2.100": "eno1"}


def test_what_is_missing_comes_what_is_ours_and_not_wanted_goes_and_the_rest_stays() -> None:
    other = address_mark("kvedge1")
    assert other != MARK
    seen = with_more(
        Address(2, "192.0.2.100", 32, protocol=MARK),
        Address(2, "192.0.2.101", 32, protocol=MARK),
        # One that moved to another network, one of another box, and one that the host was given.
        Address(2, "198.51.100.9", 32, protocol=MARK),
        Address(2, "192.0.2.109", 32, protocol=other),
        Address(2, "192.0.2.110", 32),
    )
    places = {"192.0.2.100": "eno1", "198.51.100.9": "eno2", "192.0.2.102": "eno1", "192.0.2.110": "eno1"}
    assert list(plan_pool_addresses(BRIDGE, seen, places)) == [
        RemoveAddress("eno1", "192.0.2.101", 32),
        RemoveAddress("eno1", "198.51.100.9", 32),
        AddSideAddress("eno2", "198.51.100.9", MARK),
        AddSideAddress("eno1", "192.0.2.102", MARK),
    ]


def test_what_leads_nowhere_is_told() -> None:
    seen = with_more(Address(2, "192.0.2.110", 24), Address(2, "2001:db8::5", 128, 6, protocol=MARK, duplicate=True))
    places = {"192.0.2.110": "eno1", "2001:db8::5": "eno1", "192.0.2.100": "eno1"}
    found = pool_problems(BRIDGE, seen, ["203.0.113.5", *places], places)
    assert list(found) == ["203.0.113.5", "192.0.2.110", "2001:db8::5"]
    assert "no link of this host is in a network with 203.0.113.5" in found["203.0.113.5"]
    assert "192.0.2.110 of load-balancer-pool is the host's own" in found["192.0.2.110"]
    assert "another host on eno1 has 2001:db8::5" in found["2001:db8::5"]


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        pytest.param("192.0.2.0/28", "192.0.2.2 of eno1|192.0.2.0, an end", id="the host's own address"),
        pytest.param("192.0.2.250-192.0.2.255", "192.0.2.255, an end of the network 192.0.2.0/24", id="broadcast"),
        pytest.param("198.51.100.1", "198.51.100.1, this host's router", id="the router's"),
    ],
)
def test_a_pool_with_an_address_that_is_needed_is_refused(pool: str, words: str) -> None:
    with pytest.raises(OverlapError, match=f"load-balancer-pool has ({words})"):
        check_pool(address_pool(pool), BRIDGE, SEEN)


def test_a_pool_is_not_refused_for_addresses_of_its_own_services() -> None:
    check_pool(address_pool("192.0.2.100-192.0.2.109"), BRIDGE, with_more(Address(2, "192.0.2.100", 32, protocol=MARK)))


def test_the_first_address_of_a_network_of_ipv6_is_its_routers_and_goes_to_nobody() -> None:
    seen = with_more(
        Address(2, "2001:db8::2", 120, 6),
        Address(3, "2001:db8:1::7", 127, 6),
        Address(2, "2001:db8:2::5", 128, 6, protocol=MARK),
    )
    own = {each.address for each in OWN}
    assert addresses_of_nobody(BRIDGE, seen) == own | {"2001:db8::2", "2001:db8::", "2001:db8:1::7"}
    # A pool that begins there is as good as any other.
    check_pool(address_pool("2001:db8::-2001:db8::1"), BRIDGE, seen)
