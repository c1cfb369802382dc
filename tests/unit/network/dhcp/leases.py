"""One lease, and requests of its guest written by scapy: an encoder that shares nothing with ours."""

from __future__ import annotations

from typing import Any

from scapy.layers.dhcp import BOOTP, DHCP

from kvedge.network.dhcp.dhcp_message import HEADER, Reply, parse_request, render_reply
from kvedge.network.dhcp.dhcp_plan import DhcpLease, answer
from tests.support.values import replace

MAC = "52:54:00:aa:bb:cc"
ADDRESS = "10.99.0.7"
SERVER = "169.254.75.10"
XID = 0x11223344

LEASE = DhcpLease(
    guest_mac=MAC,
    address=ADDRESS,
    prefix_length=24,
    server=SERVER,
    gateway="10.99.0.1",
    dns=("192.0.2.53", "192.0.2.54"),
    search=("prod.svc.cluster.local", "svc.cluster.local", "cluster.local"),
    hostname="edge-vm",
    domain="prod.svc.cluster.local",
    mtu=1400,
)


def lease(**changes: Any) -> DhcpLease:
    """The lease with some things different."""
    return replace(LEASE, **changes)


def request(kind: str, *options: Any, mac: str = MAC, **header: Any) -> bytes:
    """One client packet; `header` are BOOTP's fields, `options` pairs as scapy takes them."""
    fields = {"chaddr": bytes.fromhex(mac.replace(":", "")), "xid": XID, **header}
    return bytes(BOOTP(**fields) / DHCP(options=[("message-type", kind), *options, "end"]))


def reply_to(packet: bytes, given: DhcpLease = LEASE) -> BOOTP | None:
    """What is answered to it, as scapy reads it."""
    reply = answer(given, parse_request(packet))
    return None if reply is None else BOOTP(render_reply(reply))


def planned_for(packet: bytes, given: DhcpLease = LEASE) -> Reply:
    """What is answered to it, before it is rendered; the test fails when it is nothing."""
    reply = answer(given, parse_request(packet))
    assert reply is not None
    return reply


def options_of(reply: BOOTP) -> dict[Any, Any]:
    """The options of a packet by scapy's names for them, an option with several values as a tuple."""
    pairs = [option for option in reply[DHCP].options if isinstance(option, tuple)]
    return {pair[0]: pair[1] if len(pair) == 2 else pair[1:] for pair in pairs}


def message_type(reply: BOOTP | None) -> str | None:
    """`offer`, `ack`, `nak`, or None for silence."""
    names = {2: "offer", 5: "ack", 6: "nak"}
    return None if reply is None else names[options_of(reply)["message-type"]]


def raw_options(packet: bytes, given: DhcpLease = LEASE) -> dict[int, bytes]:
    """The options of what is answered to it, as bytes and read without our parser; each number may come once."""
    return options_in(render_reply(planned_for(packet, given)))


def options_in(packet: bytes) -> dict[int, bytes]:
    """The options of a rendered packet."""
    found: dict[int, bytes] = {}
    at = HEADER.size + 4
    while packet[at] != 255:
        code, length = packet[at], packet[at + 1]
        assert code not in found
        found[code] = packet[at + 2 : at + 2 + length]
        at += 2 + length
    return found
