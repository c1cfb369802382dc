"""What a guest is told of the network its Pod was given."""

from __future__ import annotations

import pytest

from kvedge.network.binding.binding_state import Record, names_for
from kvedge.network.binding.bound_interface import make_bound_interface, make_unserved_interface
from kvedge.network.dhcp import dhcp_plan
from kvedge.network.link_types import PROTO_KERNEL, Address, Route
from tests.support.values import replace

NAMES = names_for("eth0", 0)
MAC = "02:00:00:00:00:99"
FLANNEL = Record(
    netns="boot/4:1",
    index=2,
    name="eth0",
    mac="52:54:00:aa:bb:cc",
    mtu=1450,
    addresses=(Address(2, "10.42.0.7", 24), Address(2, "fd00::7", 64, 6)),
    routes=(
        Route("10.42.0.0/24", "", 2, protocol=PROTO_KERNEL),
        Route("0.0.0.0/0", "10.42.0.1", 2, protocol=3),
        Route("10.42.0.0/16", "10.42.0.1", 2, protocol=3),
        Route("169.254.20.10/32", "", 2, protocol=3),
        Route("fd00::/64", "", 2, protocol=PROTO_KERNEL, metric=256),
        Route("fd00::/56", "fd00::1", 2, protocol=3, metric=1024),
        Route("::/0", "fd00::1", 2, protocol=3, metric=1024),
    ),
)
# As the CNI plugin ptp leaves it: the neighbours of the subnet are behind the gateway.
PTP = replace(
    FLANNEL,
    routes=(
        Route("0.0.0.0/0", "10.42.0.1", 2, protocol=3),
        Route("10.42.0.0/24", "10.42.0.1", 2, protocol=3),
        Route("10.42.0.1/32", "", 2, protocol=3),
        Route("fd00::1/128", "", 2, protocol=3),
        Route("fd00::/64", "fd00::1", 2, protocol=3),
        Route("::/0", "fd00::1", 2, protocol=3),
    ),
)


def test_the_guest_is_told_what_the_pod_was() -> None:
    bound = make_bound_interface(FLANNEL, NAMES, MAC)
    assert (bound.tap, bound.bridge, bound.mac, bound.mtu) == ("tap0", "k6t-eth0", MAC, 1450)
    assert (bound.address, bound.prefix_length, bound.gateway, bound.server) == (
        "10.42.0.7",
        24,
        "10.42.0.1",
        "169.254.75.10",
    )
    assert bound.routes == (
        dhcp_plan.Route("10.42.0.0/16", "10.42.0.1"),
        dhcp_plan.Route("169.254.20.10/32", "0.0.0.0"),
    )
    assert bound.shortfalls == ()


def test_a_guest_whose_addresses_are_not_ours_to_give_is_told_none() -> None:
    bound = make_unserved_interface(FLANNEL, NAMES, MAC)
    assert (bound.tap, bound.bridge, bound.mac, bound.mtu) == ("tap0", "k6t-eth0", MAC, 1450)
    assert (bound.address, bound.ipv6, bound.server, bound.shortfalls) == ("", None, "", ())
    assert bound.pod_addresses == ("10.42.0.7", "fd00::7")


def test_the_guest_is_told_its_ipv6_address_and_where_it_leads() -> None:
    ipv6 = make_bound_interface(FLANNEL, NAMES, MAC).ipv6
    assert ipv6 is not None
    assert (ipv6.address, ipv6.gateway, ipv6.subnet, ipv6.routes) == ("fd00::7", "fd00::1", "fd00::/64", ("fd00::/56",))


def test_neighbours_that_only_the_gateway_leads_to_are_not_looked_for_on_the_link() -> None:
    bound = make_bound_interface(PTP, NAMES, MAC)
    assert (bound.prefix_length, bound.gateway) == (32, "10.42.0.1")
    assert dhcp_plan.Route("10.42.0.0/24", "10.42.0.1") in bound.routes
    assert bound.ipv6 is not None
    assert (bound.ipv6.subnet, bound.ipv6.routes) == ("", ("fd00::/64",))


def test_of_several_default_routes_the_preferred_one_counts() -> None:
    worse = Route("0.0.0.0/0", "10.42.0.254", 2, metric=100)
    assert make_bound_interface(replace(FLANNEL, routes=(worse, *FLANNEL.routes)), NAMES, MAC).gateway == "10.42.0.1"


def test_a_default_route_without_a_gateway_is_handed_on_as_one() -> None:
    bound = make_bound_interface(replace(FLANNEL, routes=(Route("0.0.0.0/0", "", 2, protocol=3),)), NAMES, MAC)
    assert bound.gateway == ""
    assert bound.routes == (dhcp_plan.Route("0.0.0.0/0", dhcp_plan.ON_LINK),)


def test_a_pod_without_ipv4_has_no_dhcp_server_for_it() -> None:
    bound = make_bound_interface(replace(FLANNEL, addresses=FLANNEL.addresses[1:]), NAMES, MAC)
    assert (bound.address, bound.server, bound.gateway, bound.routes) == ("", "", "", ())
    assert bound.ipv6 is not None
    assert bound.shortfalls == ()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (replace(FLANNEL, addresses=()), "gave the Pod's eth0 no address"),
        (
            replace(FLANNEL, addresses=(*FLANNEL.addresses, Address(2, "10.42.0.8", 24))),
            "the guest gets 10.42.0.7 alone, nobody answers for 10.42.0.8",
        ),
        (replace(FLANNEL, mtu=1279), "the guest gets no IPv6: the MTU"),
        (replace(FLANNEL, mtu=65535), "the guest's MTU is 65521"),
    ],
    ids=["no address", "two of IPv4", "an MTU too small for IPv6", "an MTU too large for a tap"],
)
def test_what_the_guest_does_not_get_is_said(record: Record, words: str) -> None:
    shortfalls = make_bound_interface(record, NAMES, MAC).shortfalls
    assert len(shortfalls) == 1
    assert words in shortfalls[0]


def test_an_mtu_too_small_for_ipv6_keeps_the_guest_from_it() -> None:
    assert make_bound_interface(replace(FLANNEL, mtu=1279), NAMES, MAC).ipv6 is None
