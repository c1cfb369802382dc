"""The raw ICMPv6 socket of a Pod's bridge, opened by the handler for the launcher, and where a Pod's router is.

Called by the handler, as root on the host. Enters the Pod's network namespace; opens one socket there, hands it over
and keeps nothing: a socket that stayed open here would keep the namespace of a Pod that is gone.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from kvedge.network.binding.binding_state import is_link_local
from kvedge.network.dhcp.router_door import hand_over
from kvedge.network.dhcp.router_message import LINK_HOP_LIMIT, SOLICITATION
from kvedge.network.errors import NetworkError
from kvedge.network.link_types import Address, Link
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns

ALL_ROUTERS: Final = "ff02::2"
# Of linux/icmpv6.h and linux/in6.h; the socket module does not name them.
ICMPV6_FILTER: Final = 1
IPV6_FREEBIND: Final = 78
RECEIVE_BUFFER: Final = 16 * 1024


def hand_router_socket(netns: NetnsRef, bridge: str, launcher_pid: int) -> None:
    """Gives the launcher what it needs to speak as a router on that bridge. Raises NetworkError.

    `launcher_pid` tells the launcher among those at the doors of its own namespace, and nothing else is done by it.
    """

    def open_and_hand() -> None:
        try:
            with _open(bridge) as opened:
                hand_over(bridge, opened, launcher_pid)
        except OSError as error:
            raise NetworkError(
                "cannot hand the launcher its router socket",
                subject=bridge,
                errno=error.errno or 0,
                remedy="a launcher of an earlier version cannot take it: restart the VM",
            ) from error

    run_in_netns(netns, open_and_hand)


def _open(bridge: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    try:
        group = socket.inet_pton(socket.AF_INET6, ALL_ROUTERS) + struct.pack("@I", socket.if_nametoindex(bridge))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bridge.encode() + b"\0")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        opened.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, passing_only(SOLICITATION))
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, LINK_HOP_LIMIT)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
        # It speaks in the name of the Pod's gateway, whose address is not this namespace's.
        opened.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
    except OSError:
        opened.close()
        raise
    return opened


def passing_only(message_type: int) -> bytes:
    """A filter that lets one type of ICMPv6 message pass: a bit that is set blocks."""
    words = [0xFFFFFFFF] * 8
    words[message_type // 32] &= ~(1 << message_type % 32)
    return struct.pack("@8I", *words)


def router_of(gateway: str, peer_index: int) -> str:
    """The link-local address of a Pod's gateway, empty when it is not of this host. Raises NetworkError.

    `peer_index` is the node's end of the Pod's link.
    """
    if not gateway or is_link_local(gateway):
        return gateway
    with Links() as links:
        return find_router(gateway, peer_index, links.list_links(), links.list_addresses())


def find_router(gateway: str, peer_index: int, links: list[Link], addresses: list[Address]) -> str:
    """As `router_of`, of these. Pure.

    Several links may have the gateway's address, one for each Pod: the Pod's own end is meant, or the bridge it is
    a port of.
    """
    own = next((link for link in links if link.index == peer_index), None)
    having = [each.link for each in addresses if each.address == gateway]
    wanted = [own.index, own.master] if own is not None else []
    chosen = next((index for index in wanted if index in having), having[0] if len(having) == 1 else None)
    found = (each.address for each in addresses if each.link == chosen and is_link_local(each.address))
    return next(found, "")
