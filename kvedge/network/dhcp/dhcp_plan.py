"""What the responder of one guest says: one client, one address, and nothing is ever remembered.

`answer` is called by `dhcp_server` in the launcher for each request that `dhcp_message` could read. It is a pure
function of the lease and the request: no packet can change what the next one gets, so the only address ever
acknowledged is the reserved one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from kvedge.network.dhcp.dhcp_message import (
    BROADCAST_FLAG,
    NO_ADDRESS,
    MessageType,
    Option,
    Reply,
    Request,
    encode_routes,
    encode_search,
)

# Half of it, when clients renew, is how long a change of DNS or routes takes to arrive; seven eighths is how long a
# launcher may be away before a guest begins to look for another server. Renewals never leave the Pod, so a short
# lease costs nothing.
DEFAULT_LEASE_SECONDS: Final = 3600
SHORTEST_LEASE_SECONDS: Final = 60
ON_LINK: Final = "0.0.0.0"
# Longer values are legal when split over several options, and clients that cannot read that are common.
LONGEST_TEXT: Final = 255
PRIVATE_OPTIONS: Final = range(224, 255)
# IPv4 and UDP headers, which option 57 counts in.
HEADERS: Final = 28


class BadLease(ValueError):
    """A lease that cannot be given; the text says what is wrong with it."""


@dataclass(frozen=True)
class Route:
    """One route for the guest: `destination` as CIDR, `gateway` as dotted quad, 0.0.0.0 for what is on the link."""

    destination: str
    gateway: str = ON_LINK


@dataclass(frozen=True, kw_only=True)
class DhcpLease:
    """All that one guest NIC is told. Addresses are dotted quads; an empty string or tuple leaves its option out.

    Raises BadLease for what is no address, MAC or text of an option, so that no responder has a lease it cannot render.
    """

    guest_mac: str
    address: str
    prefix_length: int
    server: str
    gateway: str = ""
    routes: tuple[Route, ...] = ()
    dns: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    hostname: str = ""
    domain: str = ""
    mtu: int = 0
    ntp: tuple[str, ...] = ()
    tftp_server: str = ""
    boot_file: str = ""
    private_options: Mapping[int, str] = field(default_factory=dict)
    lease_seconds: int = DEFAULT_LEASE_SECONDS

    def __post_init__(self) -> None:
        try:
            self._check()
        except ValueError as error:
            raise BadLease(str(error)) from error

    def _check(self) -> None:
        parse_mac(self.guest_mac)
        IPv4Network(f"{self.address}/{self.prefix_length}", strict=False)
        for address in (self.server, *self.dns, *self.ntp, *([self.gateway] if self.gateway else [])):
            IPv4Address(address)
        for route in self.routes:
            IPv4Network(route.destination)
            IPv4Address(route.gateway)
        for text in (self.hostname, self.domain, self.tftp_server, self.boot_file, *self.private_options.values()):
            if not text.isascii() or len(text) > LONGEST_TEXT:
                raise ValueError(f"no text for a DHCP option: {text!r}")
        encode_search(self.search)
        if not set(self.private_options) <= set(PRIVATE_OPTIONS):
            raise ValueError("private options are 224 to 254")
        if self.lease_seconds < SHORTEST_LEASE_SECONDS:
            raise ValueError(f"a lease lasts {SHORTEST_LEASE_SECONDS} seconds at least")


def parse_mac(text: str) -> bytes:
    """Six bytes of `52:54:00:12:34:56` (or with dashes); raises ValueError."""
    mac = bytes.fromhex(text.replace(":", "").replace("-", ""))
    if len(mac) != 6:
        raise ValueError(f"no MAC address: {text}")
    return mac


def answer(lease: DhcpLease, request: Request) -> Reply | None:
    """What to send, or None for silence: other clients, and servers that this client chose, are not our business."""
    if request.mac != parse_mac(lease.guest_mac):
        return None
    if request.server is not None and request.server != _pack_address(lease.server):
        return None
    match request.type:
        case MessageType.DISCOVER:
            return _grant(lease, request, MessageType.OFFER)
        case MessageType.REQUEST:
            return _answer_request(lease, request)
        case MessageType.INFORM if request.ciaddr == _pack_address(lease.address):
            return _grant(lease, request, MessageType.ACK)
        case _:
            # RELEASE and DECLINE expect no answer and the reservation outlives them; an INFORM from elsewhere is not
            # our guest.
            return None


def _answer_request(lease: DhcpLease, request: Request) -> Reply | None:
    # SELECTING and INIT-REBOOT name the address in option 50, RENEWING and REBINDING in ciaddr. We are the only
    # server this client has, so a wrong one is refused in each of these states and the client starts over at once.
    named = {address for address in (request.requested, request.ciaddr) if address not in (None, NO_ADDRESS)}
    if not named:
        return None
    if named == {_pack_address(lease.address)}:
        return _grant(lease, request, MessageType.ACK)
    return _refuse(lease, request)


def _grant(lease: DhcpLease, request: Request, kind: MessageType) -> Reply:
    inform = request.type is MessageType.INFORM
    return Reply(
        type=kind,
        xid=request.xid,
        mac=request.mac,
        flags=request.flags & BROADCAST_FLAG,
        ciaddr=request.ciaddr if kind is MessageType.ACK else NO_ADDRESS,
        yiaddr=NO_ADDRESS if inform else _pack_address(lease.address),
        siaddr=_boot_server(lease.tftp_server),
        boot_file=lease.boot_file.encode(),
        options=_options(lease, request, kind),
        unicast_to=request.ciaddr if kind is MessageType.ACK and request.ciaddr != NO_ADDRESS else None,
        room=request.largest_message - HEADERS,
    )


def _refuse(lease: DhcpLease, request: Request) -> Reply:
    options = [
        (int(Option.MESSAGE_TYPE), bytes([MessageType.NAK])),
        (int(Option.SERVER), _pack_address(lease.server)),
        *_echo(request),
        (int(Option.MESSAGE), b"this address is not reserved for this machine"),
    ]
    # A client with a wrong address cannot be reached by it: always to the whole link.
    return Reply(
        type=MessageType.NAK,
        xid=request.xid,
        mac=request.mac,
        flags=BROADCAST_FLAG,
        ciaddr=NO_ADDRESS,
        yiaddr=NO_ADDRESS,
        siaddr=NO_ADDRESS,
        boot_file=b"",
        options=options,
        unicast_to=None,
    )


def _echo(request: Request) -> list[tuple[int, bytes]]:
    return [] if request.client_id is None else [(int(Option.CLIENT_ID), request.client_id)]


def _options(lease: DhcpLease, request: Request, kind: MessageType) -> list[tuple[int, bytes]]:
    """All options of the lease, what a guest cannot do without first: a small client's packet loses from the end."""
    network = IPv4Network(f"{lease.address}/{lease.prefix_length}", strict=False)
    found: list[tuple[int, bytes]] = [
        (Option.MESSAGE_TYPE, bytes([kind])),
        (Option.SERVER, _pack_address(lease.server)),
        *_echo(request),
    ]
    if request.type is not MessageType.INFORM:
        found += _times(lease.lease_seconds)
    found += [
        (Option.MASK, network.netmask.packed),
        (Option.ROUTER, _pack_address(lease.gateway) if lease.gateway else b""),
        (Option.ROUTES, encode_routes(guest_routes(lease))),
        (Option.DNS, b"".join(map(_pack_address, lease.dns))),
        (Option.MTU, struct.pack("!H", lease.mtu) if lease.mtu else b""),
        (Option.HOSTNAME, lease.hostname.encode()),
        (Option.DOMAIN, lease.domain.encode()),
        (Option.BOOT_FILE, lease.boot_file.encode()),
        (Option.TFTP_SERVER, lease.tftp_server.encode()),
        (Option.NTP, b"".join(map(_pack_address, lease.ntp))),
        (Option.SEARCH, _search(lease.search)),
        *((code, lease.private_options[code].encode()) for code in sorted(lease.private_options)),
    ]
    return [(int(code), value) for code, value in found if value]


def _times(seconds: int) -> list[tuple[int, bytes]]:
    return [
        (Option.LEASE_SECONDS, struct.pack("!I", seconds)),
        (Option.RENEWAL_SECONDS, struct.pack("!I", seconds // 2)),
        (Option.REBINDING_SECONDS, struct.pack("!I", seconds * 7 // 8)),
    ]


def guest_routes(lease: DhcpLease) -> list[tuple[bytes, int, bytes]]:
    """Option 121's routes, (destination, prefix length, gateway), the default one last.

    A client that reads this option ignores the router option (RFC 3442), so the default route is here too. The
    server's own address is on no subnet of the guest's: without a route on the link a unicast renewal would go to the
    gateway and be lost. The same holds for a gateway outside the subnet (an address with /32).
    """
    subnet = IPv4Network(f"{lease.address}/{lease.prefix_length}", strict=False)
    wanted = {IPv4Network(route.destination): IPv4Address(route.gateway) for route in lease.routes}
    if lease.gateway:
        wanted.setdefault(IPv4Network("0.0.0.0/0"), IPv4Address(lease.gateway))
    on_link = {IPv4Address(lease.server)} | set(wanted.values()) - {IPv4Address(ON_LINK)}
    for gateway in on_link:
        if gateway not in subnet:
            wanted.setdefault(IPv4Network(gateway), IPv4Address(ON_LINK))
    order = sorted(wanted.items(), key=lambda item: (item[0].prefixlen == 0, int(item[1]) != 0, item[0]))
    return [(net.network_address.packed, net.prefixlen, gateway.packed) for net, gateway in order]


def _search(domains: Sequence[str]) -> bytes:
    # As many of them, from the first, as one option holds.
    fitting = (encode_search(domains[:count]) for count in range(len(domains), -1, -1))
    return next(encoded for encoded in fitting if len(encoded) <= LONGEST_TEXT)


def _boot_server(server: str) -> bytes:
    # Boot ROMs read siaddr, not option 66; a name cannot be written there.
    try:
        return _pack_address(server) if server else NO_ADDRESS
    except ValueError:
        return NO_ADDRESS


def _pack_address(address: str) -> bytes:
    return IPv4Address(address).packed
