# Tests: kvedge/network/dhcp/dhcp_message.py, kvedge/network/dhcp/dhcp_plan.py
"""The property to hold: for any sequence of packets, the set of addresses ever acknowledged is the reserved one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dhcp import BOOTP

from kvedge.network.dhcp.dhcp_message import LARGEST_PACKET, BadPacket, parse_request, render_reply
from kvedge.network.dhcp.dhcp_plan import answer
from tests.unit.network.dhcp.leases import ADDRESS, LEASE, MAC, SERVER, message_type, request

ADDRESSES = st.sampled_from([ADDRESS, "10.99.0.8", "10.99.0.1", "0.0.0.0", "255.255.255.255", SERVER, "8.8.8.8"])
KINDS = st.sampled_from(["discover", "request", "inform", "release", "decline", "offer", "ack", "nak"])
OPTIONS = st.one_of(
    st.tuples(st.just("requested_addr"), ADDRESSES),
    st.tuples(st.just("server_id"), ADDRESSES),
    st.tuples(st.just("max_dhcp_size"), st.integers(0, 65535)),
    st.tuples(st.just("client_id"), st.binary(max_size=40)),
    st.tuples(st.just("dhcp-option-overload"), st.integers(0, 3)),
    st.tuples(st.just("lease_time"), st.integers(0, 2**32 - 1)),
)


@st.composite
def client_packets(draw: st.DrawFn) -> bytes:
    """Packets that scapy can write: any message, any state, any mixture of addresses."""
    return request(
        draw(KINDS),
        *draw(st.lists(OPTIONS, max_size=4)),
        mac=draw(st.sampled_from([MAC, MAC, MAC, "52:54:00:aa:bb:cd"])),
        ciaddr=draw(ADDRESSES),
        yiaddr=draw(ADDRESSES),
        giaddr=draw(st.sampled_from(["0.0.0.0", "0.0.0.0", ADDRESS])),
        flags=draw(st.integers(0, 65535)),
        xid=draw(st.integers(0, 2**32 - 1)),
    )


@st.composite
def damaged_packets(draw: st.DrawFn) -> bytes:
    """Such packets with bytes changed, cut off, doubled or put in."""
    packet = bytearray(draw(client_packets()))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(packet)))
        match draw(st.sampled_from(["change", "cut", "insert", "double"])):
            case "change" if at < len(packet):
                packet[at] = draw(st.integers(0, 255))
            case "cut":
                del packet[at:]
            case "insert":
                packet[at:at] = draw(st.binary(max_size=20))
            case "double":
                packet[at:at] = packet[at : at + 8]
    return bytes(packet)


PACKETS = st.lists(st.one_of(client_packets(), damaged_packets(), st.binary(max_size=LARGEST_PACKET + 10)), max_size=8)


@settings(max_examples=400)
@given(PACKETS)
def test_the_only_address_ever_acknowledged_or_offered_is_the_reserved_one(packets: list[bytes]) -> None:
    for packet in packets:
        try:
            asked = parse_request(packet)
        except BadPacket:
            continue
        planned = answer(LEASE, asked)
        if planned is None:
            continue
        reply = BOOTP(render_reply(planned))
        kind = message_type(reply)
        # An answer to INFORM gives no address; it only repeats what the guest has.
        given_address = reply.yiaddr if reply.yiaddr != "0.0.0.0" else reply.ciaddr
        if kind in ("ack", "offer"):
            assert given_address == ADDRESS
            assert reply.chaddr[:6].hex(":") == MAC
        else:
            assert kind == "nak"
            assert (reply.yiaddr, reply.ciaddr) == ("0.0.0.0", "0.0.0.0")
        assert planned.unicast_to in (None, bytes([10, 99, 0, 7]))


@settings(max_examples=100)
@given(PACKETS)
def test_whatever_came_before_a_guest_gets_its_lease(packets: list[bytes]) -> None:
    for packet in packets:
        try:
            answer(LEASE, parse_request(packet))
        except BadPacket:
            continue
    ordinary = parse_request(request("request", ("requested_addr", ADDRESS), ("server_id", SERVER)))
    planned = answer(LEASE, ordinary)
    assert planned is not None
    assert BOOTP(render_reply(planned)).yiaddr == ADDRESS
