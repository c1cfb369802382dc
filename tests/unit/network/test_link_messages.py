"""What rtnetlink says, as facts: messages as pyroute2 gives them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kvedge.network.link_messages import read_address, read_counted, read_hops, read_link, read_whole_route

IFF_UP_WITH_CARRIER = 0x10001


class Message(dict[str, Any]):
    """A message: its header by items, its attributes by `get`."""


def a_link(**fields: Any) -> Message:
    return Message({"index": 3, "ifname": "eth0", "flags": IFF_UP_WITH_CARRIER, "link": 9} | fields)


def a_route(**fields: Any) -> Message:
    header = {"family": socket.AF_INET, "dst_len": 24, "table": 254, "proto": 4}
    return Message(header | {"dst": "10.0.0.0", "oif": 3} | fields)


@pytest.mark.parametrize(("kind", "peer", "lower"), [("veth", 9, 0), ("vlan", 0, 9), ("", 0, 9)])
def test_what_a_link_is_tied_to_is_the_peer_of_a_pair_alone(kind: str, peer: int, lower: int) -> None:
    link = read_link(a_link(linkinfo=Message({"kind": kind}) if kind else None))
    assert (link.kind, link.peer_index, link.lower) == (kind, peer, lower)
    assert (link.up, link.carrier, link.mac) == (True, True, "")


def test_settings_of_bridges_and_their_ports_are_unknown_elsewhere() -> None:
    data, port = Message({"br_vlan_filtering": 1, "br_mcast_snooping": 0}), Message({"learning": 0, "mode": 1})
    bridge = read_link(a_link(linkinfo=Message({"kind": "bridge", "data": data})))
    assert (bridge.vlan_filtering, bridge.snooping, bridge.learning) == (True, False, None)
    member = read_link(a_link(linkinfo=Message({"kind": "tun", "slave_kind": "bridge", "slave_data": port})))
    assert (member.vlan_filtering, member.learning, member.hairpin) == (None, False, True)


def test_what_a_queue_dropped_is_no_drop_of_the_link() -> None:
    stats = {"rx_packets": 5, "rx_bytes": 500, "rx_dropped": 1, "rx_missed_errors": 2, "tx_packets": 7}
    counted = read_counted(a_link(stats64=Message(stats)), 4)
    assert (counted.received.packets, counted.received.dropped, counted.received.missed) == (5, 1, 2)
    assert (counted.sent.packets, counted.sent.dropped, counted.sent.queue_dropped) == (7, 0, 4)


def test_the_near_end_of_a_point_to_point_address_is_the_host_s() -> None:
    message = Message(index=3, family=socket.AF_INET, prefixlen=32, flags=0x80, local="10.0.0.1", address="10.0.0.2")
    found = read_address(message)
    assert (found.address, found.version, found.dynamic) == ("10.0.0.1", 4, False)


@pytest.mark.parametrize(
    ("flags", "dynamic", "duplicate"), [(0x80, False, False), (0, True, False), (0x88, False, True)]
)
def test_an_ipv6_address_may_be_passing_or_somebody_else_s(flags: int, dynamic: bool, duplicate: bool) -> None:
    found = read_address(Message(index=3, family=socket.AF_INET6, prefixlen=64, flags=flags, address="fd00::1"))
    assert (found.version, found.dynamic, found.duplicate) == (6, dynamic, duplicate)


def test_a_route_without_destination_is_the_default_of_its_family() -> None:
    assert [route.destination for route in read_whole_route(a_route(dst=None, dst_len=0))] == ["0.0.0.0/0"]
    assert [route.destination for route in read_hops(a_route(dst=None, dst_len=0, family=socket.AF_INET6))] == ["::/0"]


def test_a_route_over_several_links_is_one_or_one_for_each() -> None:
    message = a_route(oif=None, multipath=[Message(oif=3, gateway="10.0.0.1"), Message(oif=4)])
    assert [(route.link, route.gateway) for route in read_whole_route(message)] == [(0, "")]
    assert [(route.link, route.gateway) for route in read_hops(message)] == [(3, "10.0.0.1"), (4, "")]
