"""rtnetlink's messages as typed facts: links with their counters, addresses and routes.

Called by `links`, which asks for them. Reads what it is given, touches nothing.
"""

from __future__ import annotations

import socket
from dataclasses import replace  # noqa: TID251 - of dataclasses: launchers do without msgspec
from typing import Any, Final

from kvedge.network.link_types import Address, CountedLink, Link, Route, Traffic

IFF_UP: Final = 1
IFF_ALLMULTI: Final = 0x200
IFF_LOWER_UP: Final = 0x10000
IFA_F_DADFAILED: Final = 0x08
IFA_F_PERMANENT: Final = 0x80


def read_link(message: Any) -> Link:
    """A link, of RTM_NEWLINK."""
    info = message.get("linkinfo")
    kind = (info.get("kind") if info else None) or ""
    data = info.get("data") if info else None
    slave = info.get("slave_data") if info and info.get("slave_kind") == "bridge" else None
    learning = slave.get("learning") if slave else None
    hairpin = slave.get("mode") if slave else None
    return Link(
        index=message["index"],
        name=message.get("ifname"),
        kind=kind,
        mac=(message.get("address") or "").lower(),
        mtu=message.get("mtu") or 0,
        up=bool(message["flags"] & IFF_UP),
        carrier=bool(message["flags"] & IFF_LOWER_UP),
        master=message.get("master") or 0,
        alias=message.get("ifalias") or "",
        peer_index=message.get("link") or 0 if kind == "veth" else 0,
        lower=message.get("link") or 0 if kind != "veth" else 0,
        learning=None if learning is None else bool(learning),
        hairpin=None if hairpin is None else bool(hairpin),
        snooping=bool(data.get("br_mcast_snooping")) if kind == "bridge" and data else None,
        multi_queue=bool(data.get("multi_queue")) if kind == "tun" and data else False,
        vlan_filtering=bool(data.get("br_vlan_filtering")) if kind == "bridge" and data else None,
        all_multicast=bool(message["flags"] & IFF_ALLMULTI),
    )


def read_counted(message: Any, lost_by_queue: int) -> CountedLink:
    """The same with its counters; `lost_by_queue` is what the queue at its sending end dropped."""
    stats = message.get("stats64") or message.get("stats") or {}

    def traffic(way: str) -> Traffic:
        return Traffic(*(int(stats.get(f"{way}_{what}") or 0) for what in ("packets", "bytes", "dropped", "errors")))

    received = replace(traffic("rx"), missed=int(stats.get("rx_missed_errors") or 0))
    return CountedLink(read_link(message), received, replace(traffic("tx"), queue_dropped=lost_by_queue))


def read_address(message: Any) -> Address:
    """An address, of RTM_NEWADDR."""
    # For a point-to-point address the local end is IFA_LOCAL; IPv6 has IFA_ADDRESS alone.
    address = message.get("local") or message.get("address")
    version = 4 if message["family"] == socket.AF_INET else 6
    flags = message.get("flags") or message["flags"]
    return Address(
        link=message["index"],
        address=address,
        prefix_length=message["prefixlen"],
        version=version,
        dynamic=version == 6 and not flags & IFA_F_PERMANENT,
        protocol=message.get("proto") or 0,
        duplicate=version == 6 and bool(flags & IFA_F_DADFAILED),
    )


def _read_route(message: Any) -> Route:
    destination = message.get("dst") or ("0.0.0.0" if message["family"] == socket.AF_INET else "::")
    return Route(
        destination=f"{destination}/{message['dst_len']}",
        gateway=message.get("gateway") or "",
        link=message.get("oif") or 0,
        table=message.get("table") or message["table"],
        protocol=message["proto"],
        metric=message.get("priority") or 0,
    )


def read_whole_route(message: Any) -> list[Route]:
    """A route, of RTM_NEWROUTE; over several links it names none of them."""
    return [_read_route(message)]


def read_hops(message: Any) -> list[Route]:
    """A route once for each of the links that it leads over."""
    route = _read_route(message)
    several = [
        replace(route, link=hop["oif"], gateway=hop.get("gateway") or "") for hop in message.get("multipath") or ()
    ]
    return several or [route]
