"""A masqueraded guest's own network, as its VMI asks for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.masquerade import (
    INJECT_SIDECAR,
    BadGuestNetwork,
    GuestSubnet,
    guest_subnet,
    is_meshed,
    parse_guest_subnet,
)
from kvedge.resources.types.volumes import Network, PodNetwork
from tests.support.builders import bridged, vmi_with


@pytest.mark.parametrize(
    ("text", "version", "found"),
    [
        ("10.0.2.0/24", 4, GuestSubnet("10.0.2.1", "10.0.2.2", 24)),
        # Any address of the network names it, and numbers may have leading zeros.
        ("10.10.010.77/24", 4, GuestSubnet("10.10.10.1", "10.10.10.2", 24)),
        ("192.168.0.0/30", 4, GuestSubnet("192.168.0.1", "192.168.0.2", 30)),
        ("fd10:0:2::/120", 6, GuestSubnet("fd10:0:2::1", "fd10:0:2::2", 120)),
        ("fd00::/126", 6, GuestSubnet("fd00::1", "fd00::2", 126)),
    ],
)
def test_the_router_has_the_first_address_and_the_guest_the_second(text: str, version: int, found: GuestSubnet) -> None:
    assert parse_guest_subnet(text, version) == found


@pytest.mark.parametrize("text", ["", "10.0.2.0", "10.0.2/24", "10.0.2.0/33", "x/24", "10.0.2.0/24/24", "fd00::/64"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(BadGuestNetwork, match="invalid CIDR address"):
        parse_guest_subnet(text, 4)


@pytest.mark.parametrize(("text", "version"), [("10.0.2.0/31", 4), ("10.0.2.1/32", 4), ("fd00::/127", 6)])
def test_a_network_without_room_for_two_is_refused(text: str, version: int) -> None:
    with pytest.raises(BadGuestNetwork, match="at least 2 host addresses are required"):
        parse_guest_subnet(text, version)


@pytest.mark.parametrize(("text", "version"), [("127.0.0.0/8", 4), ("224.0.0.0/24", 4), ("fe80::/64", 6)])
def test_a_network_that_cannot_be_routed_is_refused(text: str, version: int) -> None:
    with pytest.raises(BadGuestNetwork, match="no network for a guest"):
        parse_guest_subnet(text, version)


@given(st.text(max_size=200), st.sampled_from([4, 6]))
def test_any_text_is_a_network_or_refused(text: str, version: int) -> None:
    try:
        found = parse_guest_subnet(text, version)
    except BadGuestNetwork:
        return
    assert found.gateway != found.guest


def test_a_refusal_repeats_no_more_than_a_little_of_what_was_asked() -> None:
    with pytest.raises(BadGuestNetwork) as refused:
        parse_guest_subnet("1" * 100_000, 4)
    assert len(str(refused.value)) < 200


def test_a_network_that_asks_for_nothing_has_kubevirts() -> None:
    network = Network(name="default", pod=PodNetwork())
    assert (guest_subnet(network, 4).cidr, guest_subnet(network, 6).cidr) == ("10.0.2.0/24", "fd10:0:2::/120")
    asked = Network(name="default", pod=PodNetwork(vm_network_cidr="10.9.0.0/16", vm_ipv6_network_cidr="fd09::/64"))
    assert (guest_subnet(asked, 4).cidr, guest_subnet(asked, 6).cidr) == ("10.9.0.0/16", "fd09::/64")


@pytest.mark.parametrize(("asked", "meshed"), [("true", True), ("True", True), ("false", False), (None, False)])
def test_a_sidecar_stands_before_a_vmi_that_asks_for_one(asked: str | None, meshed: bool) -> None:
    annotations = {} if asked is None else {INJECT_SIDECAR: asked}
    assert is_meshed(vmi_with(bridged(), annotations=annotations)) is meshed
