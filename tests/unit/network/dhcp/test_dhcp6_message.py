"""DHCPv6 messages against scapy, which shares nothing with our parser, and against whatever bytes there are."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dhcp6 import (
    DUID_LL,
    DHCP6_RelayForward,
    DHCP6_Solicit,
    DHCP6OptClientId,
    DHCP6OptIA_NA,
    DHCP6OptIAAddress,
    DHCP6OptOptReq,
    DHCP6OptRapidCommit,
)

from kvedge.network.dhcp.dhcp6_message import (
    LARGEST_MESSAGE,
    Association,
    MessageType,
    Reply6,
    encode_names,
    parse_request6,
    render_options6,
    render_reply6,
)
from kvedge.network.dhcp.dhcp_message import BadPacket

DUID = bytes(DUID_LL(lladdr="52:54:00:aa:bb:cc"))
CLIENT = DHCP6OptClientId(duid=DUID_LL(lladdr="52:54:00:aa:bb:cc"))
OTHER = "fd00::99"


def solicit(*options: object) -> bytes:
    packet = DHCP6_Solicit(trid=0x112233)
    for option in options:
        packet = packet / option
    return bytes(packet)


def test_a_solicit_is_read_as_it_was_written() -> None:
    wanted = DHCP6OptIA_NA(iaid=7, T1=0, T2=0, ianaopts=[DHCP6OptIAAddress(addr=OTHER)])
    found = parse_request6(solicit(CLIENT, DHCP6OptOptReq(), wanted, DHCP6OptRapidCommit()))
    assert (found.type, found.transaction, found.client_id) == (MessageType.SOLICIT, b"\x11\x22\x33", DUID)
    assert found.associations == (Association(7, (IPv6Address(OTHER).packed,)),)
    assert (found.server_id, found.rapid_commit) == (None, True)


def option(code: int, value: bytes) -> bytes:
    return render_options6([(code, value)])


HEAD = b"\x01\x11\x22\x33"


@pytest.mark.parametrize(
    ("packet", "rule"),
    [
        (b"\x01\x00", "truncated"),
        (b"\x02\x00\x00\x00", "message type"),
        (b"\x07\x00\x00\x00", "message type"),
        (bytes(DHCP6_RelayForward()), "message type"),
        (HEAD + option(9, b"x"), "relay"),
        (HEAD + b"\x00\x01\x00", "past the end"),
        (HEAD + b"\x00\x01\x00\x05\x00", "past the end"),
        (HEAD + option(1, b"\x00\x03"), "option 1 of a wrong length"),
        (HEAD + option(1, bytes(131)), "option 1 of a wrong length"),
        (HEAD + option(1, DUID) * 2, "given twice"),
        (HEAD + option(2, DUID) * 2, "given twice"),
        (HEAD + option(3, bytes(11)), "truncated set"),
        (HEAD + option(3, bytes(12) + option(5, bytes(23))), "truncated address"),
        (HEAD + option(3, bytes(12) + option(5, bytes(24)) * 17), "too many addresses"),
        (HEAD + option(3, bytes(12)) * 9, "too many sets"),
        (HEAD + option(1000, bytes(LARGEST_MESSAGE)), "oversized"),
    ],
)
def test_what_no_client_sends_is_refused_for_its_rule(packet: bytes, rule: str) -> None:
    with pytest.raises(BadPacket, match=rule):
        parse_request6(packet)


@settings(max_examples=300)
@given(st.binary(max_size=LARGEST_MESSAGE + 8))
def test_any_bytes_are_a_message_or_a_bad_packet(data: bytes) -> None:
    try:
        found = parse_request6(data)
    except BadPacket:
        return
    assert len(found.transaction) == 3


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 60))
def test_a_message_that_was_damaged_is_read_or_refused(noise: bytes, at: int) -> None:
    whole = solicit(CLIENT, DHCP6OptIA_NA(iaid=7, ianaopts=[DHCP6OptIAAddress(addr=OTHER)]))
    try:
        parse_request6(whole[:at] + noise + whole[at + len(noise) :])
    except BadPacket:
        return


def test_a_reply_is_its_type_its_transaction_and_its_options() -> None:
    assert render_reply6(Reply6(MessageType.REPLY, b"abc", [(23, b"\x01")])) == b"\x07abc\x00\x17\x00\x01\x01"


def test_names_are_labels_without_references_and_as_many_as_fit() -> None:
    assert encode_names(["a.bc", "", "d."]) == b"\x01a\x02bc\x00\x01d\x00"
    many = [f"{'x' * 60}.example{number}" for number in range(9)]
    assert 0 < len(encode_names(many)) <= 255


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no domain name"):
        encode_names(["x" * 64])
