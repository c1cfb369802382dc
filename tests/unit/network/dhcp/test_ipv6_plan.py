"""What the IPv6 responder says: by RFC 8415 to each message, and as the Pod's own router."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dhcp6 import (
    DHCP6_Advertise,
    DHCP6_Reply,
    DHCP6OptClientId,
    DHCP6OptDNSDomains,
    DHCP6OptDNSServers,
    DHCP6OptIA_NA,
    DHCP6OptIAAddress,
    DHCP6OptPref,
    DHCP6OptRapidCommit,
    DHCP6OptServerId,
    DHCP6OptStatusCode,
)

from kvedge.network.dhcp.dhcp6_message import Association, MessageType, Request6, link_layer_duid, render_reply6
from kvedge.network.dhcp.dhcp_plan import BadLease, parse_mac
from kvedge.network.dhcp.ipv6_plan import ROUTER_SECONDS, Ipv6Lease, advertisement, answer6
from tests.support.values import replace

BRIDGE_MAC = "02:00:00:00:00:01"
OURS = link_layer_duid(parse_mac(BRIDGE_MAC))
THEIRS = link_layer_duid(parse_mac("02:00:00:00:00:02"))
CLIENT = link_layer_duid(parse_mac("52:54:00:aa:bb:cc"))
ADDRESS = "fd00::7"
LEASE = Ipv6Lease(
    address=ADDRESS,
    server_mac=BRIDGE_MAC,
    router="fe80::1",
    subnet="fd00::/64",
    routes=("fd00::/56",),
    dns=("fd00::53",),
    search=("svc.cluster.local", "cluster.local"),
    mtu=1450,
)
WANTED = (Association(7),)


def request(kind: MessageType, **fields: Any) -> Request6:
    return Request6(**{"type": kind, "transaction": b"abc", "client_id": CLIENT, **fields})


def answered(asked: Request6, lease: Ipv6Lease = LEASE) -> Any:
    """What is answered, as scapy reads it."""
    reply = answer6(lease, asked)
    assert reply is not None
    packet = render_reply6(reply)
    return (DHCP6_Advertise if packet[0] == MessageType.ADVERTISE else DHCP6_Reply)(packet)


def test_a_solicit_is_offered_the_address_and_all_that_goes_with_it() -> None:
    found = answered(request(MessageType.SOLICIT, associations=WANTED))
    assert isinstance(found, DHCP6_Advertise)
    assert found.trid == 0x616263
    assert (bytes(found[DHCP6OptServerId].duid), bytes(found[DHCP6OptClientId].duid)) == (OURS, CLIENT)
    assert (found[DHCP6OptIA_NA].iaid, found[DHCP6OptIA_NA].T1, found[DHCP6OptIA_NA].T2) == (7, 1800, 3150)
    given_address = found[DHCP6OptIAAddress]
    assert (given_address.addr, given_address.preflft, given_address.validlft) == (ADDRESS, 3600, 3600)
    assert found[DHCP6OptDNSServers].dnsservers == ["fd00::53"]
    assert found[DHCP6OptDNSDomains].dnsdomains == ["svc.cluster.local.", "cluster.local."]
    assert found[DHCP6OptPref].prefval == 255


def test_a_hasty_client_has_its_address_at_once() -> None:
    found = answered(request(MessageType.SOLICIT, associations=WANTED, rapid_commit=True))
    assert isinstance(found, DHCP6_Reply)
    assert DHCP6OptRapidCommit in found
    assert found[DHCP6OptIAAddress].addr == ADDRESS


@pytest.mark.parametrize(
    ("kind", "server"),
    [(MessageType.REQUEST, OURS), (MessageType.RENEW, OURS), (MessageType.REBIND, None)],
)
def test_the_address_is_given_and_given_again(kind: MessageType, server: bytes | None) -> None:
    found = answered(request(kind, server_id=server, associations=WANTED))
    assert found[DHCP6OptIAAddress].addr == ADDRESS


def test_an_address_from_elsewhere_ends_at_once() -> None:
    stale = Association(7, (IPv6Address("fd99::1").packed,))
    found = answered(request(MessageType.RENEW, server_id=OURS, associations=(stale,)))
    told = {each.addr: each.validlft for each in found[DHCP6OptIA_NA].ianaopts}
    assert told == {ADDRESS: 3600, "fd99::1": 0}


def test_there_is_one_address_and_no_second() -> None:
    found = answered(request(MessageType.SOLICIT, associations=(Association(1), Association(2))))
    second = found.getlayer(DHCP6OptIA_NA, 2)
    assert second.iaid == 2
    assert [type(each) for each in second.ianaopts] == [DHCP6OptStatusCode]
    assert second.ianaopts[0].statuscode == 2


@pytest.mark.parametrize(("address", "status"), [(ADDRESS, 0), ("fd99::1", 4)])
def test_a_client_that_comes_back_learns_whether_its_address_fits(address: str, status: int) -> None:
    had = Association(7, (IPv6Address(address).packed,))
    found = answered(request(MessageType.CONFIRM, associations=(had,)))
    assert found[DHCP6OptStatusCode].statuscode == status


@pytest.mark.parametrize("kind", [MessageType.RELEASE, MessageType.DECLINE])
def test_giving_the_address_back_changes_nothing(kind: MessageType) -> None:
    assert answered(request(kind, server_id=OURS, associations=WANTED))[DHCP6OptStatusCode].statuscode == 0


def test_who_asks_for_information_alone_needs_no_name() -> None:
    found = answered(request(MessageType.INFORMATION_REQUEST, client_id=None))
    assert found[DHCP6OptDNSServers].dnsservers == ["fd00::53"]
    assert DHCP6OptIA_NA not in found


@pytest.mark.parametrize(
    "asked",
    [
        request(MessageType.SOLICIT),
        request(MessageType.SOLICIT, server_id=OURS, associations=WANTED),
        request(MessageType.SOLICIT, client_id=None, associations=WANTED),
        request(MessageType.REQUEST, associations=WANTED),
        request(MessageType.REQUEST, server_id=THEIRS, associations=WANTED),
        request(MessageType.RENEW, server_id=THEIRS, associations=WANTED),
        request(MessageType.REBIND, server_id=OURS, associations=WANTED),
        request(MessageType.CONFIRM, associations=WANTED),
        request(MessageType.CONFIRM, server_id=OURS, associations=(Association(7, (bytes(16),)),)),
        request(MessageType.RELEASE, associations=WANTED),
        request(MessageType.DECLINE, server_id=THEIRS, associations=WANTED),
        request(MessageType.INFORMATION_REQUEST, server_id=THEIRS),
        request(MessageType.INFORMATION_REQUEST, associations=WANTED),
    ],
)
def test_what_is_for_others_or_breaks_the_rules_is_answered_with_silence(asked: Request6) -> None:
    assert answer6(LEASE, asked) is None


ASSOCIATIONS = st.builds(
    Association, st.integers(0, 2**32 - 1), st.lists(st.binary(min_size=16, max_size=16)).map(tuple)
)
REQUESTS = st.builds(
    Request6,
    st.sampled_from(sorted(set(MessageType) - {MessageType.ADVERTISE, MessageType.REPLY})),
    st.binary(min_size=3, max_size=3),
    st.none() | st.just(CLIENT),
    st.none() | st.sampled_from([OURS, THEIRS]),
    st.lists(ASSOCIATIONS, max_size=8).map(tuple),
    st.booleans(),
)


@settings(max_examples=300)
@given(REQUESTS)
def test_no_message_ever_gets_another_address(asked: Request6) -> None:
    reply = answer6(LEASE, asked)
    if reply is None:
        return
    packet = (DHCP6_Advertise if reply.type is MessageType.ADVERTISE else DHCP6_Reply)(render_reply6(reply))
    given_addresses = {
        each.addr
        for index in range(1, 9)
        if (association := packet.getlayer(DHCP6OptIA_NA, index)) is not None
        for each in association.ianaopts
        if isinstance(each, DHCP6OptIAAddress) and each.validlft
    }
    assert given_addresses <= {ADDRESS}


def test_the_router_leads_everywhere_and_is_believed_for_hours() -> None:
    told = advertisement(LEASE)
    assert (told.lifetime, told.subnet, told.routes, told.mtu) == (ROUTER_SECONDS, "fd00::/64", ("fd00::/56",), 1450)
    assert (told.dns, told.search) == (LEASE.dns, LEASE.search)


def test_a_router_of_some_routes_is_no_default_router() -> None:
    told = advertisement(replace(LEASE, is_default=False))
    assert (told.lifetime, told.routes) == (0, ("fd00::/56",))


def test_without_a_router_only_the_link_is_told_of() -> None:
    told = advertisement(replace(LEASE, router=""))
    assert (told.lifetime, told.routes, told.subnet) == (0, (), "fd00::/64")


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "10.0.0.1"},
        {"server_mac": "02:00"},
        {"router": "fd00::1"},
        {"subnet": "fd00::7/64"},
        {"routes": ("10.0.0.0/8",)},
        {"dns": ("10.0.0.1",)},
        {"search": ("x" * 64,)},
        {"mtu": 1279},
        {"lease_seconds": 1},
    ],
)
def test_a_lease_that_cannot_be_given_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadLease):
        replace(LEASE, **changes)
