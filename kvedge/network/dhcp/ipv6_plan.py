"""What the responder of one guest says of IPv6: one address, by DHCPv6, and who the router is, by its advertisements.

Called by `ipv6_server` in the launcher. Pure functions of the lease and the request, as `dhcp_plan` is for IPv4:
nothing is ever remembered, and the only address ever given is the Pod's.

The advertisements speak in the name of the Pod's own gateway, by its link-local address: a guest takes who sends them
for its router, so that its packets go straight there and the Pod forwards nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from kvedge.network.dhcp.dhcp6_message import (
    Association,
    MessageType,
    Option,
    Reply6,
    Request6,
    Status,
    encode_address,
    encode_association,
    encode_names,
    encode_status,
    link_layer_duid,
)
from kvedge.network.dhcp.dhcp_plan import DEFAULT_LEASE_SECONDS, SHORTEST_LEASE_SECONDS, BadLease, parse_mac
from kvedge.network.dhcp.router_message import Advertisement

# The longest that RFC 4861 lets a router be believed without a word from it.
ROUTER_SECONDS: Final = 9000
# No client waits for a better server then.
_THE_ONLY_ONE: Final = bytes([255])


@dataclass(frozen=True, kw_only=True)
class Ipv6Lease:
    """All that one guest NIC is told of IPv6. Empty strings and tuples leave out what they stand for.

    `router` is the link-local address of the Pod's gateway; `subnet` is on the link; `routes` lead by the router.
    Raises BadLease for what is no address, network, MAC or domain name.
    """

    address: str
    server_mac: str
    router: str = ""
    # Whether the router leads everywhere, and not to `routes` alone.
    is_default: bool = True
    subnet: str = ""
    routes: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    mtu: int = 1500
    lease_seconds: int = DEFAULT_LEASE_SECONDS

    def __post_init__(self) -> None:
        try:
            self._check()
        except ValueError as error:
            raise BadLease(str(error)) from error

    def _check(self) -> None:
        parse_mac(self.server_mac)
        for address in (self.address, *self.dns):
            IPv6Address(address)
        if self.router and not IPv6Address(self.router).is_link_local:
            raise ValueError(f"no link-local address: {self.router}")
        for network in (*self.routes, *([self.subnet] if self.subnet else [])):
            IPv6Network(network)
        encode_names(self.search)
        if not 1280 <= self.mtu <= 65535:
            raise ValueError(f"no MTU of IPv6: {self.mtu}")
        if self.lease_seconds < SHORTEST_LEASE_SECONDS:
            raise ValueError(f"a lease lasts {SHORTEST_LEASE_SECONDS} seconds at least")


def advertisement(lease: Ipv6Lease) -> Advertisement:
    """The router's advertisement for the guest."""
    return Advertisement(
        lifetime=ROUTER_SECONDS if lease.router and lease.is_default else 0,
        seconds=ROUTER_SECONDS,
        mtu=lease.mtu,
        subnet=lease.subnet,
        routes=lease.routes if lease.router else (),
        dns=lease.dns,
        search=lease.search,
    )


def answer6(lease: Ipv6Lease, request: Request6) -> Reply6 | None:
    """What to send, or None for silence: what is for other servers, or breaks the rules of RFC 8415 §16."""
    ours = link_layer_duid(parse_mac(lease.server_mac))
    names_us = request.server_id == ours
    names_nobody = request.server_id is None
    if request.client_id is None and request.type is not MessageType.INFORMATION_REQUEST:
        return None
    match request.type:
        case MessageType.SOLICIT if names_nobody and request.associations:
            kind = MessageType.REPLY if request.rapid_commit else MessageType.ADVERTISE
            rapid = [(int(Option.RAPID_COMMIT), b"")] if request.rapid_commit else []
            preference = [] if request.rapid_commit else [(int(Option.PREFERENCE), _THE_ONLY_ONE)]
            return _reply(lease, request, kind, [*rapid, *preference, *_associations(lease, request)])
        case MessageType.REQUEST | MessageType.RENEW if names_us:
            return _reply(lease, request, MessageType.REPLY, _associations(lease, request))
        case MessageType.REBIND if names_nobody:
            return _reply(lease, request, MessageType.REPLY, _associations(lease, request))
        case MessageType.CONFIRM if names_nobody:
            return _confirm(lease, request)
        case MessageType.RELEASE | MessageType.DECLINE if names_us:
            # The reservation outlives both.
            return _reply(lease, request, MessageType.REPLY, [_status(Status.SUCCESS)])
        case MessageType.INFORMATION_REQUEST if (names_us or names_nobody) and not request.associations:
            return _reply(lease, request, MessageType.REPLY, [])
        case _:
            return None


def _confirm(lease: Ipv6Lease, request: Request6) -> Reply6 | None:
    named = {address for each in request.associations for address in each.addresses}
    if not named:
        return None
    fits = named == {IPv6Address(lease.address).packed}
    return _reply(lease, request, MessageType.REPLY, [_status(Status.SUCCESS if fits else Status.NOT_ON_LINK)])


def _reply(lease: Ipv6Lease, request: Request6, kind: MessageType, options: list[tuple[int, bytes]]) -> Reply6:
    echoed = [] if request.client_id is None else [(int(Option.CLIENT_ID), request.client_id)]
    server = (int(Option.SERVER_ID), link_layer_duid(parse_mac(lease.server_mac)))
    told = [
        (int(Option.DNS), b"".join(IPv6Address(address).packed for address in lease.dns)),
        (int(Option.SEARCH), encode_names(lease.search)),
    ]
    return Reply6(kind, request.transaction, [*echoed, server, *options, *(each for each in told if each[1])])


def _associations(lease: Ipv6Lease, request: Request6) -> list[tuple[int, bytes]]:
    # The first gets the address; there is none for another.
    encoded = [
        _grant_address(lease, each)
        if index == 0
        else encode_association(each.number, 0, 0, [_status(Status.NO_ADDRESSES)])
        for index, each in enumerate(request.associations)
    ]
    return [(int(Option.ASSOCIATION), value) for value in encoded]


def _grant_address(lease: Ipv6Lease, wanted: Association) -> bytes:
    address = IPv6Address(lease.address).packed
    seconds = lease.lease_seconds
    # Addresses that the client had from elsewhere end at once.
    stale = [(int(Option.ADDRESS), encode_address(other, 0)) for other in wanted.addresses if other != address]
    options = [(int(Option.ADDRESS), encode_address(address, seconds)), *stale]
    return encode_association(wanted.number, seconds // 2, seconds * 7 // 8, options)


def _status(status: Status) -> tuple[int, bytes]:
    return int(Option.STATUS), encode_status(status)
