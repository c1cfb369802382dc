"""Which addresses a network gives away: what is written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.network.lan.lan_addresses import (
    AddressesError,
    LanAddresses,
    addresses_document,
    addresses_of_document,
    addresses_of_text,
)

HOME = LanAddresses(subnet="192.168.1.0/24", first="192.168.1.50", last="192.168.1.52", gateway="192.168.1.51")


def test_a_range_has_two_ways_to_be_written() -> None:
    assert addresses_of_text("192.168.1.50-192.168.1.52/24", "192.168.1.51") == HOME
    assert addresses_of_document(addresses_document(HOME)) == HOME


def test_the_lowest_address_is_free_that_nobody_has_and_that_is_not_the_gateways() -> None:
    assert HOME.free_address([]) == "192.168.1.50"
    assert HOME.free_address(["192.168.1.50"]) == "192.168.1.52"
    assert HOME.free_address(["192.168.1.50", "192.168.1.52"]) is None


def test_a_guest_may_have_an_address_of_the_subnet_outside_of_the_range() -> None:
    assert HOME.with_prefix("192.168.1.9") == "192.168.1.9/24"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("192.168.2.9", "192.168.2.9 is no address for a guest of 192.168.1.0/24"),
        ("192.168.1.255", "192.168.1.255 is no address for a guest"),
        ("192.168.1.51", "192.168.1.51 is the gateway's"),
        ("x", "an address 'x' is no IPv4 address"),
    ],
)
def test_no_guest_has_an_address_that_is_not_one_of_its_network(address: str, said: str) -> None:
    with pytest.raises(AddressesError, match=said):
        HOME.with_prefix(address)


@pytest.mark.parametrize(
    ("text", "gateway", "said"),
    [
        ("192.168.1.50", "", "'192.168.1.50' is no range such as"),
        ("192.168.1.50-192.168.1.99", "", "is no range such as"),
        ("192.168.1.50-192.168.2.99/24", "", "the last address 192.168.2.99 is no address of a host in 192.168.1.0/24"),
        ("192.168.1.99-192.168.1.50/24", "", "192.168.1.99-192.168.1.50 are 0 addresses: use 1 to 1024"),
        ("10.0.0.1-10.0.9.9/8", "", "10.0.0.1-10.0.9.9 are 2313 addresses"),
        ("10.0.0.1-10.0.0.2/31", "", "a subnet has a prefix of /8 to /30"),
        ("10.0.0.1-10.0.0.x/24", "", "the last '10.0.0.x' is no IPv4 address"),
        ("10.0.0.1-10.0.0.9/24", "10.0.1.1", "the gateway 10.0.1.1 is no address of a host in 10.0.0.0/24"),
    ],
)
def test_what_is_no_range_of_a_subnet_is_refused(text: str, gateway: str, said: str) -> None:
    with pytest.raises(AddressesError, match=said):
        addresses_of_text(text, gateway)


@pytest.mark.parametrize(
    "value", [[], {"subnet": "10.0.0.0/24", "more": 1}, {"subnet": 7}, {"subnet": "10.0.0.7/24"}, {"subnet": ""}]
)
def test_a_document_that_says_no_range_is_refused(value: Any) -> None:
    with pytest.raises(AddressesError):
        addresses_of_document(value)
