# Tests: kvedge/network/node_seen.py
"""What the IPv6 network of one box asks of the host, and what keeps it from being made."""

from __future__ import annotations

import pytest

from kvedge.network.binding.port_rules import is_translated
from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.link_types import Address, Link, Route
from kvedge.network.node_seen import Ipv6Seen, NodeSeen
from kvedge.network.pods.attachments import NodeNetworkConfig, attachment_for, attachments_of
from kvedge.network.pods.ipv6_network_plan import bridge_steps, check_overlap, inside_steps
from kvedge.network.steps import AddAddress
from tests.support.values import replace

CIDR = "2001:db8:1::/64"
NIC = Link(index=2, name="eno1", kind="", mac="", mtu=1500, up=True)
BRIDGE = Link(index=9, name="kvedge0", kind="bridge", mac="", mtu=1500, up=True)
CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="t", netns_prefix="p-", ipv6_cidr=CIDR)


def seen(*addresses: Address, routes: tuple[Route, ...] = ()) -> NodeSeen:
    return NodeSeen((NIC, BRIDGE), addresses, (), "1", ipv6=True, of_ipv6=Ipv6Seen("1", routes))


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(seen(Address(2, "2001:db8:1::7", 64, 6)), id="an address of the host's"),
        pytest.param(seen(Address(2, "2001:db8::7", 32, 6)), id="a neighbour's, whose network is wider"),
        pytest.param(seen(routes=(Route("2001:db8:1::/80", "", 2),)), id="a route"),
    ],
)
def test_a_range_in_use_is_refused_with_what_to_give(where: NodeSeen) -> None:
    with pytest.raises(OverlapError, match=r"--pod-cidr 2001:db8:1::/64 overlaps.*eno1"):
        check_overlap("kvedge0", CIDR, where)


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(seen(Address(9, "2001:db8:1::1", 64, 6)), id="our own bridge"),
        pytest.param(seen(routes=(Route("2001:db8::/32", "fe80::1", 2),)), id="a route that is wider"),
        pytest.param(seen(routes=(Route("2000::/3", "fe80::1", 2), Route("::/0", "fe80::1", 2))), id="ways out"),
        pytest.param(seen(Address(2, "fe80::7", 64, 6), Address(2, "192.0.2.1", 24)), id="others"),
    ],
)
def test_what_takes_no_packet_from_us_is_no_overlap(where: NodeSeen) -> None:
    check_overlap("kvedge0", CIDR, where)


def test_the_bridge_has_the_ranges_first_address_and_a_name_as_a_router() -> None:
    steps = [step for step in bridge_steps("kvedge0", CIDR, 1500, seen()) if isinstance(step, AddAddress)]
    assert [(each.address, each.prefix_length) for each in steps] == [("2001:db8:1::1", 64), ("fe80::1", 64)]
    present = seen(Address(9, "2001:db8:1::1", 64, 6), Address(9, "fe80::1", 64, 6))
    assert not [step for step in bridge_steps("kvedge0", CIDR, 1500, present) if isinstance(step, AddAddress)]


def test_a_host_without_ipv6_and_a_link_too_small_for_it_are_told_with_the_remedy() -> None:
    with pytest.raises(NetworkError, match=r"no IPv6 on this host.*--pod-cidr"):
        list(bridge_steps("kvedge0", CIDR, 1500, replace(seen(), ipv6=False)))
    with pytest.raises(NetworkError, match=r"MTU of 1280.*kvedge0 with 1200"):
        list(bridge_steps("kvedge0", CIDR, 1200, seen()))


def test_a_pod_that_has_its_address_is_not_given_it_again() -> None:
    given = [step for step in inside_steps(CIDR, "2001:db8:1::7", ()) if isinstance(step, AddAddress)]
    assert given == [AddAddress("eth0", "2001:db8:1::7", 64)]
    assert not [
        step for step in inside_steps(CIDR, "2001:db8:1::7", ("2001:db8:1::7",)) if isinstance(step, AddAddress)
    ]


@pytest.mark.parametrize(
    ("given", "kept"), [("2001:db8:1::7", "2001:db8:1::7"), ("2001:db8:2::7", ""), ("", "")], ids=str
)
def test_an_attachment_is_written_on_its_port_and_read_back(given: str, kept: str) -> None:
    made = attachment_for(CONFIG, "p-a", "10.99.0.7", "52:54:00:00:00:07", given)
    assert made.ipv6_address == kept
    port = replace(NIC, kind="veth", name=made.port, alias=made.alias)
    assert attachments_of(CONFIG, [port]) == [made]


def test_only_a_range_that_others_cannot_know_is_hidden_behind_the_host() -> None:
    assert [is_translated(cidr) for cidr in (CIDR, "fd12:3::/64", "10.0.0.0/8", "203.0.113.0/24")] == [
        False,
        True,
        True,
        True,
    ]
