"""What the parser takes and refuses, and what the renderer writes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dhcp import BOOTP, DHCP

from kvedge.network.dhcp.dhcp_message import (
    END,
    HEADER,
    LARGEST_PACKET,
    MAGIC,
    BadPacket,
    MessageType,
    Option,
    Reply,
    encode_routes,
    encode_search,
    parse_options,
    parse_request,
    render_option,
    render_reply,
)
from tests.unit.network.dhcp.leases import ADDRESS, MAC, SERVER, XID, options_in, request

GOOD = request("discover")
COOKIE_AT = HEADER.size


def with_options(*options: bytes, end: bool = True) -> bytes:
    """A client's packet with these raw options after the header."""
    return GOOD[: COOKIE_AT + 4] + b"".join(options) + (b"\xff" if end else b"")


DISCOVER = b"\x35\x01\x01"


def test_a_packet_of_another_encoder_is_read_field_by_field() -> None:
    packet = request(
        "request",
        ("requested_addr", ADDRESS),
        ("server_id", SERVER),
        ("client_id", b"\x01" + bytes(6)),
        ("max_dhcp_size", 1200),
        ("param_req_list", [1, 3, 6, 121]),
        flags=0x8000,
    )
    read = parse_request(packet)
    assert read.type is MessageType.REQUEST
    assert (read.xid, read.flags) == (XID, 0x8000)
    assert read.mac.hex(":") == MAC
    assert read.requested == bytes([10, 99, 0, 7])
    assert read.server == bytes([169, 254, 75, 10])
    assert read.client_id == b"\x01" + bytes(6)
    assert read.largest_message == 1200
    assert read.parameters == bytes([1, 3, 6, 121])


@pytest.mark.parametrize(("asked", "taken"), [(0, 576), (575, 576), (576, 576), (1500, 1500), (65535, 1500)])
def test_a_client_may_ask_for_replies_between_the_least_and_one_frame(asked: int, taken: int) -> None:
    assert parse_request(request("discover", ("max_dhcp_size", asked))).largest_message == taken


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        pytest.param(b"", "truncated", id="nothing at all"),
        pytest.param(GOOD[:235], "truncated", id="cut in the header"),
        pytest.param(GOOD[:239], "truncated", id="cut in the cookie"),
        pytest.param(with_options(DISCOVER, end=False), "no end mark", id="no end mark"),
        pytest.param(with_options(end=False), "no end mark", id="no options and no end mark"),
        pytest.param(with_options(b"\x35\x01", end=False), "past the end", id="an option without its value"),
        pytest.param(with_options(DISCOVER, b"\x0c", end=False), "past the end", id="an option without its length"),
        pytest.param(
            with_options(DISCOVER, b"\x0c\xff" + bytes(9), end=False), "past the end", id="a length too large"
        ),
        pytest.param(GOOD + bytes(LARGEST_PACKET), "oversized", id="larger than a frame"),
        pytest.param(b"\x02" + GOOD[1:], "not a request", id="a reply"),
        pytest.param(b"\x01\x06" + GOOD[2:], "not a request", id="not Ethernet"),
        pytest.param(b"\x01\x01\x10" + GOOD[3:], "not a request", id="a hardware address of 16 bytes"),
        pytest.param(b"\x01\x01\x00" + GOOD[3:], "not a request", id="a hardware address of no bytes"),
        pytest.param(GOOD[:3] + b"\x01" + GOOD[4:], "relay", id="hops counted"),
        pytest.param(request("discover", giaddr="10.0.0.1"), "relay", id="a relay's address"),
        pytest.param(with_options(DISCOVER, b"\x52\x02\x01\x00"), "relay", id="a relay's option"),
        pytest.param(GOOD[:COOKIE_AT] + b"abcd" + GOOD[COOKIE_AT + 4 :], "cookie", id="another cookie"),
        pytest.param(with_options(b"\x0c\x02vm"), "no message type", id="BOOTP without a message type"),
        pytest.param(with_options(DISCOVER, DISCOVER), "given twice", id="message type twice"),
        pytest.param(with_options(b"\x35\x00"), "wrong length", id="an empty message type"),
        pytest.param(with_options(b"\x35\x02\x01\x03"), "wrong length", id="two message types in one"),
        pytest.param(with_options(DISCOVER, b"\x34\x01\x01"), "overload", id="options in the file field"),
        pytest.param(with_options(DISCOVER, b"\x34\x01\x03"), "overload", id="options in both fields"),
        pytest.param(
            with_options(b"\x35\x01\x03", b"\x32\x03\x0a\x00\x00"), "wrong length", id="an address of 3 bytes"
        ),
        pytest.param(
            with_options(b"\x35\x01\x03", b"\x32\x04\x0a\x00\x00\x01" * 2), "wrong length", id="two requested addresses"
        ),
        pytest.param(with_options(b"\x35\x01\x03", b"\x36\x05" + bytes(5)), "wrong length", id="a server of 5 bytes"),
        pytest.param(with_options(DISCOVER, b"\x39\x01\x05"), "wrong length", id="a size of 1 byte"),
        pytest.param(request("offer"), "client's message type", id="a server's offer"),
        pytest.param(request("ack"), "client's message type", id="a server's acknowledgement"),
        pytest.param(with_options(b"\x35\x01\x00"), "client's message type", id="message type 0"),
        pytest.param(with_options(b"\x35\x01\x0d"), "client's message type", id="a lease query"),
    ],
)
def test_a_packet_that_no_client_sends_is_refused(packet: bytes, reason: str) -> None:
    with pytest.raises(BadPacket, match=reason):
        parse_request(packet)


def test_padding_before_and_rubbish_after_the_end_mark_do_not_matter() -> None:
    packet = with_options(b"\x00\x00", DISCOVER, b"\x00") + b"\x35\x01\x05rubbish"
    assert parse_request(packet).type is MessageType.DISCOVER


def test_pieces_of_a_long_option_are_put_together() -> None:
    data = b"\x3d\x02ab" + DISCOVER + b"\x3d\x01c" + b"\xff"
    assert parse_options(data)[Option.CLIENT_ID] == b"abc"


@given(st.binary(max_size=1600))
def test_any_bytes_are_read_or_refused_and_nothing_else(packet: bytes) -> None:
    with suppress(BadPacket):
        parse_request(packet)


@given(st.binary(max_size=400))
def test_any_bytes_after_a_good_header_are_read_or_refused(rest: bytes) -> None:
    with suppress(BadPacket):
        assert parse_request(GOOD[: COOKIE_AT + 4] + rest).type in MessageType


def reply(*options: tuple[int, bytes], room: int = 548, boot_file: bytes = b"") -> Reply:
    return Reply(
        type=MessageType.OFFER,
        xid=XID,
        mac=bytes.fromhex(MAC.replace(":", "")),
        flags=0x8000,
        ciaddr=bytes(4),
        yiaddr=bytes([10, 99, 0, 7]),
        siaddr=bytes([10, 99, 0, 1]),
        boot_file=boot_file,
        options=options,
        unicast_to=None,
        room=room,
    )


def test_another_decoder_reads_what_is_rendered() -> None:
    read = BOOTP(render_reply(reply((53, b"\x02"), (54, bytes([169, 254, 75, 10])), boot_file=b"boot.ipxe")))
    assert (read.op, read.xid, read.yiaddr, read.siaddr, int(read.flags)) == (2, XID, ADDRESS, "10.99.0.1", 0x8000)
    assert read.chaddr[:6].hex(":") == MAC
    assert read.file.rstrip(b"\0") == b"boot.ipxe"
    assert read[DHCP].options[:2] == [("message-type", 2), ("server_id", SERVER)]


def test_a_reply_is_never_shorter_than_bootp() -> None:
    assert len(render_reply(reply((53, b"\x02")))) == 300


def test_a_boot_file_that_its_field_cannot_hold_is_in_the_option_alone() -> None:
    assert BOOTP(render_reply(reply((67, b"x" * 200), boot_file=b"x" * 200))).file == bytes(128)


@given(st.lists(st.tuples(st.integers(1, 254), st.binary(max_size=200)), unique_by=lambda pair: pair[0]))
def test_a_reply_never_outgrows_the_room_and_keeps_the_order(options: list[tuple[int, bytes]]) -> None:
    packet = render_reply(reply(*options))
    assert len(packet) <= 548
    assert packet.rstrip(b"\0")[-1] == END or packet[-1] == END
    kept = list(options_in(packet).items())
    assert kept == [option for option in options if option in kept]


@given(st.binary(max_size=1000))
def test_a_long_value_is_split_so_that_a_reader_gets_it_whole(value: bytes) -> None:
    assert parse_options(render_option(226, value) + b"\xff")[226] == value


def test_a_route_takes_only_the_significant_bytes_of_its_destination() -> None:
    routes = [
        (bytes([169, 254, 75, 10]), 32, bytes(4)),
        (bytes([10, 17, 0, 0]), 16, bytes([10, 99, 0, 9])),
        (bytes([10, 128, 0, 0]), 9, bytes([10, 99, 0, 9])),
        (bytes(4), 0, bytes([10, 99, 0, 1])),
    ]
    assert encode_routes(routes) == bytes.fromhex("20a9fe4b0a00000000 100a110a630009 090a800a630009 000a630001")


def decode_names(data: bytes) -> list[str]:
    """RFC 1035's names, by the book: for holding our encoder against."""
    names, labels, at, back = [], [], 0, -1
    while at < len(data):
        length = data[at]
        if length >= 0xC0:
            back = at + 2 if back < 0 else back
            at = (length & 0x3F) << 8 | data[at + 1]
        elif length:
            labels.append(data[at + 1 : at + 1 + length].decode())
            at += 1 + length
        else:
            names.append(".".join(labels))
            at, labels, back = (back if back >= 0 else at + 1), [], -1
            continue
    return names


@given(
    st.lists(st.lists(st.text("abcdefgh-", min_size=1, max_size=12), min_size=1, max_size=5).map(".".join), max_size=12)
)
def test_a_search_list_is_read_back_whole(domains: list[str]) -> None:
    assert decode_names(encode_search(domains)) == domains


def test_a_search_list_says_each_name_once() -> None:
    assert encode_search(["prod.example.com", "example.com."]) == b"\x04prod\x07example\x03com\x00\xc0\x05"


@pytest.mark.parametrize("domain", ["x" * 64 + ".com", "exämple.com"])
def test_what_is_no_domain_name_is_refused(domain: str) -> None:
    with pytest.raises(ValueError, match=r"no domain name|ascii"):
        encode_search([domain])


def test_the_cookie_is_where_the_standard_has_it() -> None:
    assert render_reply(reply())[236:240] == MAGIC
