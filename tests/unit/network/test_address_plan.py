"""Which address a VM gets."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.network.address_plan import (
    gateway_address,
    ipv6_address_beside,
    ipv6_gateway,
    parse_cidr,
    plan_address,
)
from kvedge.network.errors import AddressesExhaustedError, NetworkError

SMALL = "10.99.0.0/29"


def test_the_gateway_is_the_first_address() -> None:
    assert gateway_address("10.99.0.0/24") == "10.99.0.1"


def test_the_first_vm_gets_the_first_address_after_the_gateway() -> None:
    assert plan_address(SMALL, []) == "10.99.0.2"


def test_a_vm_keeps_the_address_it_had() -> None:
    assert plan_address(SMALL, ["10.99.0.2"], wanted="10.99.0.5") == "10.99.0.5"


@pytest.mark.parametrize(
    "wanted",
    ["10.99.0.0", "10.99.0.1", "10.99.0.7", "10.99.0.3", "10.98.0.5"],
    ids=["network", "gateway", "broadcast", "taken", "outside"],
)
def test_an_address_that_cannot_be_given_is_replaced_by_the_lowest_free_one(wanted: str) -> None:
    assert plan_address(SMALL, ["10.99.0.3"], wanted=wanted) == "10.99.0.2"


def test_a_full_range_says_so_and_what_to_do() -> None:
    with pytest.raises(AddressesExhaustedError, match="--pod-cidr"):
        plan_address(SMALL, [f"10.99.0.{last}" for last in range(2, 7)])


@pytest.mark.parametrize("cidr", ["10.99.0.0", "10.99.0.5/24", "10.99.0.0/31", "10.0.0.0/7", "fd00::/64", "pods", ""])
def test_a_range_that_is_none_is_refused_by_the_name_of_its_option(cidr: str) -> None:
    with pytest.raises(NetworkError, match="--pod-cidr"):
        parse_cidr(cidr)


@given(st.integers(8, 30), st.sets(st.integers(0, 15), max_size=16), st.none() | st.integers(0, 15))
def test_what_is_given_is_usable_and_free(length: int, taken: set[int], wanted: int | None) -> None:
    network = IPv4Network(f"10.0.0.0/{length}")
    addresses = {str(network.network_address + number) for number in taken if number < network.num_addresses}
    before = None if wanted is None else str(network.network_address + wanted)
    try:
        got = IPv4Address(plan_address(str(network), addresses, before))
    except AddressesExhaustedError:
        usable = {str(host) for host in list(network.hosts())[1:]}
        assert usable <= addresses
        return
    assert got in network
    assert got not in (network.network_address, network.broadcast_address, IPv4Address(gateway_address(str(network))))
    assert str(got) not in addresses


def test_a_vm_has_the_same_place_in_both_ranges() -> None:
    assert ipv6_gateway("2001:db8:1::/64") == ipv6_address_beside("10.99.0.0/24", "2001:db8:1::/64", "10.99.0.1")
    assert ipv6_address_beside("10.99.0.0/24", "2001:db8:1::/64", "10.99.0.26") == "2001:db8:1::1a"
    assert ipv6_address_beside("10.98.0.0/15", "fd00::/111", "10.99.255.254") == "fd00::1:fffe"
