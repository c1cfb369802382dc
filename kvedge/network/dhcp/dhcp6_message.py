"""DHCPv6 messages as bytes and as values: a strict parser and a renderer (RFC 8415).

Used by `ipv6_plan` (which decides) and `ipv6_server` (which moves the bytes), in the launcher. No I/O here. What
arrives was written by the guest: everything that a well-behaved client does not send is refused as a `BadPacket`,
never repaired.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvedge.network.dhcp.dhcp_message import LONGEST_LABEL, BadPacket

# The bytes that one Ethernet frame of 1500 bytes carries over UDP and IPv6.
LARGEST_MESSAGE: Final = 1452
# RFC 8415: a DUID has two bytes of type and at most 128 more.
LONGEST_DUID: Final = 130
# A NIC has one address; each further request of a client is answered with a refusal.
MOST_ASSOCIATIONS: Final = 8
MOST_ADDRESSES: Final = 16
LONGEST_NAMES: Final = 255
_HARDWARE_ETHERNET: Final = 1
_DUID_LL: Final = 3


class Option(enum.IntEnum):
    """The option numbers that kvedge reads or writes."""

    CLIENT_ID = 1
    SERVER_ID = 2
    ASSOCIATION = 3
    ADDRESS = 5
    PREFERENCE = 7
    RELAY_MESSAGE = 9
    STATUS = 13
    RAPID_COMMIT = 14
    DNS = 23
    SEARCH = 24


class MessageType(enum.IntEnum):
    """The first byte."""

    SOLICIT = 1
    ADVERTISE = 2
    REQUEST = 3
    CONFIRM = 4
    RENEW = 5
    REBIND = 6
    REPLY = 7
    RELEASE = 8
    DECLINE = 9
    INFORMATION_REQUEST = 11


FROM_CLIENTS: Final = frozenset(MessageType) - {MessageType.ADVERTISE, MessageType.REPLY}


class Status(enum.IntEnum):
    """Option 13."""

    SUCCESS = 0
    NO_ADDRESSES = 2
    NOT_ON_LINK = 4


@dataclass(frozen=True)
class Association:
    """A client's set of addresses (IA_NA): the client's number for it, and the addresses it names."""

    number: int
    addresses: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Request6:
    """A well-formed message of a client on this very link. Identifiers are None when they are absent."""

    type: MessageType
    transaction: bytes
    client_id: bytes | None = None
    server_id: bytes | None = None
    associations: tuple[Association, ...] = ()
    rapid_commit: bool = False


@dataclass(frozen=True)
class Reply6:
    """An answer, with its options in the order in which they are written."""

    type: MessageType
    transaction: bytes
    options: Sequence[tuple[int, bytes]]


def parse_request6(packet: bytes) -> Request6:
    """Reads one UDP payload; raises `BadPacket` for everything that is not exactly a client's message."""
    if len(packet) > LARGEST_MESSAGE:
        raise BadPacket("oversized")
    if len(packet) < 4:
        raise BadPacket("truncated")
    if packet[0] not in FROM_CLIENTS:
        raise BadPacket("not a client's message type")
    options = parse_options6(packet[4:])
    if Option.RELAY_MESSAGE in options:
        raise BadPacket("came through a relay")
    associations = tuple(_association(value) for value in options.get(Option.ASSOCIATION, ()))
    if len(associations) > MOST_ASSOCIATIONS:
        raise BadPacket("too many sets of addresses")
    return Request6(
        type=MessageType(packet[0]),
        transaction=packet[1:4],
        client_id=_identifier(options, Option.CLIENT_ID),
        server_id=_identifier(options, Option.SERVER_ID),
        associations=associations,
        rapid_commit=Option.RAPID_COMMIT in options,
    )


def parse_options6(data: bytes) -> dict[int, list[bytes]]:
    """The options by number, in their order."""
    options: dict[int, list[bytes]] = {}
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise BadPacket("an option runs past the end")
        code, length = struct.unpack_from("!HH", data, at)
        if at + 4 + length > len(data):
            raise BadPacket("an option runs past the end")
        options.setdefault(code, []).append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return options


def _identifier(options: Mapping[int, list[bytes]], code: Option) -> bytes | None:
    found = options.get(code, [])
    if not found:
        return None
    if len(found) > 1 or not 3 <= len(found[0]) <= LONGEST_DUID:
        raise BadPacket(f"option {code.value} of a wrong length, or given twice")
    return found[0]


def _association(value: bytes) -> Association:
    if len(value) < 12:
        raise BadPacket("a truncated set of addresses")
    addresses = []
    for address in parse_options6(value[12:]).get(Option.ADDRESS, ()):
        if len(address) < 24:
            raise BadPacket("a truncated address")
        addresses.append(address[:16])
    if len(addresses) > MOST_ADDRESSES:
        raise BadPacket("too many addresses")
    return Association(int.from_bytes(value[:4], "big"), tuple(addresses))


def render_reply6(reply: Reply6) -> bytes:
    """The UDP payload."""
    return bytes([reply.type]) + reply.transaction + render_options6(reply.options)


def render_options6(options: Sequence[tuple[int, bytes]]) -> bytes:
    """Options one after another."""
    return b"".join(struct.pack("!HH", code, len(value)) + value for code, value in options)


def encode_association(number: int, renewal: int, rebinding: int, options: Sequence[tuple[int, bytes]]) -> bytes:
    """An IA_NA's value; the times are seconds."""
    return struct.pack("!III", number, renewal, rebinding) + render_options6(options)


def encode_address(address: bytes, seconds: int) -> bytes:
    """An address's value: good, and preferred, for so many seconds."""
    return address + struct.pack("!II", seconds, seconds)


def encode_status(status: Status, message: str = "") -> bytes:
    """A status' value."""
    return struct.pack("!H", status) + message.encode()


def encode_names(domains: Sequence[str]) -> bytes:
    """Domain names as DNS labels, without back references (RFC 8415 §10), as many from the first as are worth it."""
    out = b""
    for domain in domains:
        labels = [label.encode("ascii") for label in domain.strip(".").split(".") if label]
        if any(len(label) > LONGEST_LABEL for label in labels):
            raise ValueError(f"no domain name: {domain}")
        name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
        if len(out) + len(name) > LONGEST_NAMES:
            break
        out += name if labels else b""
    return out


def link_layer_duid(mac: bytes) -> bytes:
    """The identifier of who has this MAC."""
    return struct.pack("!HH", _DUID_LL, _HARDWARE_ETHERNET) + mac
