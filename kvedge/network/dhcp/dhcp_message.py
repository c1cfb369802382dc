"""DHCP packets as bytes and as values: a strict parser and a renderer (RFC 2131, 2132, 3396).

Used by `dhcp_plan` (which decides) and `dhcp_server` (which moves the bytes), in the launcher. No I/O here. What
arrives was written by the guest: everything that a well-behaved client does not send is refused as a `BadPacket`,
never repaired.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\x63\x82\x53\x63"
# op, htype, hlen, hops, xid, secs, flags, ciaddr, yiaddr, siaddr, giaddr, chaddr, sname, file
HEADER: Final = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s")
# The bytes that one Ethernet frame of 1500 bytes carries over UDP; a client has no reason to fragment a request.
LARGEST_PACKET: Final = 1472
# BOOTP's fixed size, which some old clients and relays still insist on.
SMALLEST_REPLY: Final = 300
LONGEST_LABEL: Final = 63
BROADCAST_FLAG: Final = 0x8000
NO_ADDRESS: Final = bytes(4)

PAD: Final = 0
END: Final = 255


class Option(enum.IntEnum):
    """The option numbers that kvedge reads or writes."""

    MASK = 1
    ROUTER = 3
    DNS = 6
    HOSTNAME = 12
    DOMAIN = 15
    MTU = 26
    BROADCAST = 28
    NTP = 42
    REQUESTED_ADDRESS = 50
    LEASE_SECONDS = 51
    OVERLOAD = 52
    MESSAGE_TYPE = 53
    SERVER = 54
    PARAMETERS = 55
    MESSAGE = 56
    LARGEST_MESSAGE = 57
    RENEWAL_SECONDS = 58
    REBINDING_SECONDS = 59
    CLIENT_ID = 61
    TFTP_SERVER = 66
    BOOT_FILE = 67
    RELAY = 82
    SEARCH = 119
    ROUTES = 121


class MessageType(enum.IntEnum):
    """Option 53."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    DECLINE = 4
    ACK = 5
    NAK = 6
    RELEASE = 7
    INFORM = 8


FROM_CLIENTS: Final = frozenset(
    {MessageType.DISCOVER, MessageType.REQUEST, MessageType.DECLINE, MessageType.RELEASE, MessageType.INFORM}
)
# A repeated option is concatenated (RFC 3396), so a second 53 or 50 shows as a wrong length.
FIXED_LENGTHS: Final[Mapping[int, int]] = {
    Option.MESSAGE_TYPE: 1,
    Option.REQUESTED_ADDRESS: 4,
    Option.LEASE_SECONDS: 4,
    Option.SERVER: 4,
    Option.LARGEST_MESSAGE: 2,
}


class BadPacket(ValueError):
    """Bytes that are no request we answer; the text says which rule they break."""


@dataclass(frozen=True)
class Request:
    """A well-formed request of a client on this very link. Addresses are 4 bytes; some options may be absent."""

    type: MessageType
    xid: int
    mac: bytes
    flags: int = 0
    ciaddr: bytes = NO_ADDRESS
    requested: bytes | None = None
    server: bytes | None = None
    # Option 61 as it came; a server must echo it (RFC 6842).
    client_id: bytes | None = None
    parameters: bytes = b""
    largest_message: int = 576


@dataclass(frozen=True)
class Reply:
    """An answer, with its options in the order in which they are written and where it must be sent."""

    type: MessageType
    xid: int
    mac: bytes
    flags: int
    ciaddr: bytes
    yiaddr: bytes
    siaddr: bytes
    boot_file: bytes
    options: Sequence[tuple[int, bytes]]
    # The client's own address for a client that has one, else None: the whole link.
    unicast_to: bytes | None
    # Bytes of UDP payload the client takes.
    room: int = 548


def parse_request(packet: bytes) -> Request:
    """Reads one UDP payload; raises `BadPacket` for everything that is not exactly a client's request."""
    if len(packet) > LARGEST_PACKET:
        raise BadPacket("oversized")
    if len(packet) < HEADER.size + len(MAGIC):
        raise BadPacket("truncated")
    op, htype, hlen, hops, xid, _secs, flags, ciaddr, _yi, _si, giaddr, chaddr, _sname, _file = HEADER.unpack_from(
        packet
    )
    if op != 1 or htype != 1 or hlen != 6:
        raise BadPacket("not a request over Ethernet")
    if hops or giaddr != NO_ADDRESS:
        raise BadPacket("came through a relay")
    if packet[HEADER.size : HEADER.size + len(MAGIC)] != MAGIC:
        raise BadPacket("no DHCP cookie")
    options = parse_options(packet[HEADER.size + len(MAGIC) :])
    return _request(xid, chaddr[:6], flags, ciaddr, options)


def parse_options(data: bytes) -> dict[int, bytes]:
    """The options by number, repeated ones concatenated; what follows the end mark is padding and not read."""
    options: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        code = data[at]
        at += 1
        if code == PAD:
            continue
        if code == END:
            return options
        if at >= len(data) or at + 1 + data[at] > len(data):
            raise BadPacket("an option runs past the end")
        options[code] = options.get(code, b"") + data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
    raise BadPacket("no end mark")


def _request(xid: int, mac: bytes, flags: int, ciaddr: bytes, options: Mapping[int, bytes]) -> Request:
    if Option.OVERLOAD in options:
        raise BadPacket("option overload")
    if Option.RELAY in options:
        raise BadPacket("came through a relay")
    for code, length in FIXED_LENGTHS.items():
        if code in options and len(options[code]) != length:
            raise BadPacket(f"option {code} of a wrong length, or given twice")
    if Option.MESSAGE_TYPE not in options:
        raise BadPacket("no message type")
    kind = options[Option.MESSAGE_TYPE][0]
    if kind not in FROM_CLIENTS:
        raise BadPacket("not a client's message type")
    largest = int.from_bytes(options.get(Option.LARGEST_MESSAGE, b"\x02\x40"), "big")
    return Request(
        type=MessageType(kind),
        xid=xid,
        mac=mac,
        flags=flags,
        ciaddr=ciaddr,
        requested=options.get(Option.REQUESTED_ADDRESS),
        server=options.get(Option.SERVER),
        client_id=options.get(Option.CLIENT_ID),
        parameters=options.get(Option.PARAMETERS, b""),
        # RFC 2131: nobody may announce less than 576; more than one frame is never sent.
        largest_message=min(max(largest, 576), 1500),
    )


def render_reply(reply: Reply) -> bytes:
    """The UDP payload. Options that do not fit any more are left out: the important ones come first."""
    header = HEADER.pack(
        2,
        1,
        6,
        0,
        reply.xid,
        0,
        reply.flags,
        reply.ciaddr,
        reply.yiaddr,
        reply.siaddr,
        NO_ADDRESS,
        reply.mac,
        b"",
        reply.boot_file if len(reply.boot_file) < 128 else b"",
    )
    packet = header + MAGIC
    for code, value in reply.options:
        encoded = render_option(code, value)
        if len(packet) + len(encoded) + 1 <= reply.room:
            packet += encoded
    return (packet + bytes([END])).ljust(SMALLEST_REPLY, b"\0")


def render_option(code: int, value: bytes) -> bytes:
    """One option; a value of more than 255 bytes is split over several of the same number (RFC 3396)."""
    pieces = [value[at : at + 255] for at in range(0, len(value), 255)] or [b""]
    return b"".join(bytes([code, len(piece)]) + piece for piece in pieces)


def encode_routes(routes: Sequence[tuple[bytes, int, bytes]]) -> bytes:
    """Option 121 (RFC 3442): of each (destination, prefix length, gateway) only the destination's significant bytes."""
    return b"".join(bytes([length]) + to[: (length + 7) // 8] + gateway for to, length, gateway in routes)


def encode_search(domains: Sequence[str]) -> bytes:
    """Option 119 (RFC 3397): names as DNS labels, with back references to what was written before."""
    out = b""
    seen: dict[str, int] = {}
    for domain in domains:
        labels = [label for label in domain.strip(".").split(".") if label]
        for at in range(len(labels) + 1):
            rest = ".".join(labels[at:])
            if not rest:
                out += b"\0"
                break
            if rest in seen:
                out += struct.pack("!H", 0xC000 | seen[rest])
                break
            if len(out) < 0x4000:
                seen[rest] = len(out)
            label = labels[at].encode("ascii")
            if len(label) > LONGEST_LABEL:
                raise ValueError(f"no domain name: {domain}")
            out += bytes([len(label)]) + label
    return out
