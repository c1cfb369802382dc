"""Advertisements of a router as scapy reads them, and solicitations as strictly as they are judged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet6 import (
    ICMPv6ND_RA,
    ICMPv6ND_RS,
    ICMPv6NDOptDNSSL,
    ICMPv6NDOptMTU,
    ICMPv6NDOptPrefixInfo,
    ICMPv6NDOptRDNSS,
    ICMPv6NDOptRouteInfo,
    ICMPv6NDOptSrcLLAddr,
)

from kvedge.network.dhcp.dhcp_message import BadPacket
from kvedge.network.dhcp.router_message import Advertisement, check_solicitation, render_advertisement

TOLD = Advertisement(
    lifetime=9000,
    seconds=8000,
    mtu=1450,
    subnet="fd00:1::/64",
    routes=("fd00::/48", "::/0", "fd00:2::/96"),
    dns=("fd00::53", "fd00::54"),
    search=("svc.example.com", "example.com"),
)


def test_an_advertisement_says_who_leads_where_and_that_addresses_come_from_dhcp() -> None:
    found = ICMPv6ND_RA(render_advertisement(TOLD))
    assert (found.type, found.code, found.M, found.O, found.routerlifetime, found.chlim) == (134, 0, 1, 1, 9000, 64)
    assert found[ICMPv6NDOptMTU].mtu == 1450
    prefix = found[ICMPv6NDOptPrefixInfo]
    assert (prefix.prefix, prefix.prefixlen, prefix.L, prefix.A) == ("fd00:1::", 64, 1, 0)
    assert (prefix.validlifetime, prefix.preferredlifetime) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert (found[ICMPv6NDOptRDNSS].dns, found[ICMPv6NDOptRDNSS].lifetime) == (list(TOLD.dns), 8000)
    assert found[ICMPv6NDOptDNSSL].searchlist == ["svc.example.com.", "example.com."]
    routes = [found.getlayer(ICMPv6NDOptRouteInfo, index) for index in (1, 2, 3)]
    assert [(each.prefix, each.plen, each.len, each.rtlifetime) for each in routes] == [
        ("fd00::", 48, 2, 8000),
        ("::", 0, 1, 8000),
        ("fd00:2::", 96, 3, 8000),
    ]


def test_of_what_there_is_nothing_nothing_is_said() -> None:
    found = ICMPv6ND_RA(render_advertisement(Advertisement(lifetime=0, seconds=60, mtu=1280)))
    assert found.routerlifetime == 0
    absent = (ICMPv6NDOptPrefixInfo, ICMPv6NDOptRDNSS, ICMPv6NDOptDNSSL, ICMPv6NDOptRouteInfo)
    assert not [kind for kind in absent if kind in found]


@pytest.mark.parametrize(
    "packet",
    [bytes(ICMPv6ND_RS()), bytes(ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(lladdr="52:54:00:00:00:01"))],
    ids=["bare", "with its MAC"],
)
def test_a_solicitation_is_one(packet: bytes) -> None:
    check_solicitation(packet, 255)


@pytest.mark.parametrize(
    ("packet", "hop_limit", "rule"),
    [
        (bytes(ICMPv6ND_RS()), 254, "through a router"),
        (bytes(ICMPv6ND_RS())[:7], 255, "wrong length"),
        (bytes(ICMPv6ND_RS()) + bytes(1280), 255, "wrong length"),
        (bytes(ICMPv6ND_RA()), 255, "no solicitation"),
        (b"\x85\x01" + bytes(6), 255, "no solicitation"),
        (bytes(ICMPv6ND_RS()) + b"\x01\x00" + bytes(6), 255, "past the end"),
        (bytes(ICMPv6ND_RS()) + b"\x01\x02" + bytes(6), 255, "past the end"),
        (bytes(ICMPv6ND_RS()) + b"\x01", 255, "past the end"),
    ],
)
def test_what_is_no_solicitation_is_refused_for_its_rule(packet: bytes, hop_limit: int, rule: str) -> None:
    with pytest.raises(BadPacket, match=rule):
        check_solicitation(packet, hop_limit)


@settings(max_examples=300)
@given(st.binary(max_size=1300), st.integers(0, 255))
def test_any_bytes_are_judged_in_time(data: bytes, hop_limit: int) -> None:
    try:
        check_solicitation(data, hop_limit)
    except BadPacket:
        return
    assert data[0] == 133
