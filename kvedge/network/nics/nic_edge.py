"""Addresses and routes of one link with everything that is written about them: the door to rtnetlink for `nic_move`.

What `kvedge.network.links` gives up (labels, scopes, preferred sources, tables) must not be lost of a host's own
addresses. Every pyroute2 error leaves as a `NetworkError`.
"""

from __future__ import annotations

import errno
import socket
from types import TracebackType
from typing import Any, Final

from pyroute2.iproute import IPRoute

from kvedge.network.link_messages import IFA_F_PERMANENT
from kvedge.network.link_types import FIRST_ADDRESS_MARK, PROTO_KERNEL
from kvedge.network.links import IFA_F_NOPREFIXROUTE, UNICAST
from kvedge.network.netlink_dump import whole_dump
from kvedge.network.netlink_errors import pass_over, translate_errors
from kvedge.network.nics.nic_rules import Carried
from kvedge.network.nics.nic_state import KeptAddress, KeptRoute

_IFA_F_NODAD: Final = 0x02
# Of linux/if_arp.h.
_ARPHRD_ETHER: Final = 1
# Of linux/rtnetlink.h: the route is a neighbour discovery's, and RTNH_F_ONLINK.
_PROTO_RA: Final = 9
_ONLINK: Final = 4
_LINK_SCOPE: Final = 253
# The attributes of a route that `KeptRoute` does not keep.
_NOT_KEPT: Final = ("multipath", "via", "encap", "encap_type", "nh_id", "metrics")


class NicEdge:
    """An open rtnetlink socket of the namespace in which it was made; a context manager, for one thread."""

    def __init__(self) -> None:
        with translate_errors("cannot open rtnetlink"):
            self._socket: Any = IPRoute(groups=0)

    def __enter__(self) -> NicEdge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def read_carried(self, index: int, name: str) -> Carried:
        """What the link carries, without what a box of kvedge looks after there. Raises NetworkError."""
        with translate_errors("cannot read what is on", name):
            addresses = self._addresses(index)
            routes = [
                item
                for family in (socket.AF_INET, socket.AF_INET6)
                for item in whole_dump(lambda family=family: list(self._socket.get_routes(family=family)))  # type: ignore[misc]
                if item["family"] == family and item["type"] == UNICAST and _leads_by(item, index)
            ]
            rules = whole_dump(lambda: list(self._socket.get_rules()))
        lasting = [item for item in addresses if _is_lasting(item)]
        ours = [item for item in routes if item["proto"] not in (PROTO_KERNEL, _PROTO_RA)]
        return Carried(
            addresses=tuple(map(_address, lasting)),
            routes=tuple(map(_route, sorted(ours, key=lambda item: bool(item.get("gateway"))))),
            leases=tuple(
                str(item.get("local"))
                for item in addresses
                if item["family"] == socket.AF_INET and not _flags(item) & IFA_F_PERMANENT
            ),
            peers=tuple(str(item.get("address")) for item in lasting if _has_peer(item)),
            odd_routes=tuple(_destination(item) for item in ours if any(item.get(key) for key in _NOT_KEPT)),
            learns=any(item["proto"] == _PROTO_RA for item in routes) or any(map(_is_learnt, addresses)),
            has_rules=any(name in (rule.get("iifname"), rule.get("oifname")) for rule in rules),
        )

    def lasting_addresses(self, index: int, name: str) -> tuple[KeptAddress, ...]:
        """The addresses among what the link carries; a host may have far more routes. Raises NetworkError."""
        with translate_errors("cannot read the addresses of", name):
            return tuple(_address(item) for item in self._addresses(index) if _is_lasting(item))

    def _addresses(self, index: int) -> list[Any]:
        found = whole_dump(lambda: list(self._socket.get_addr()))
        # Those of a load-balancer-pool are put where they belong by whoever has made them.
        return [each for each in found if each["index"] == index and (each.get("proto") or 0) < FIRST_ADDRESS_MARK]

    def is_ethernet(self, index: int) -> bool:
        """Whether the link has Ethernet's frames. Raises NetworkError."""
        with translate_errors("cannot look up link", str(index)):
            found = list(self._socket.link("get", index=index)) if index else []
        return any(message["ifi_type"] == _ARPHRD_ETHER for message in found)

    def give_address(self, index: int, name: str, address: KeptAddress) -> None:
        """Gives the link the address; one of IPv6 at once, without asking whether somebody else has it."""
        flags = (0 if address.connected else IFA_F_NOPREFIXROUTE) | (_IFA_F_NODAD if address.version == 6 else 0)
        more: dict[str, Any] = {"flags": flags} if flags else {}
        if address.broadcast:
            more["broadcast"] = address.broadcast
        if address.label.partition(":")[0] == name:
            more["label"] = address.label
        with translate_errors(f"cannot give {address.address} to", name), pass_over(errno.EEXIST):
            self._socket.addr(
                "add",
                index=index,
                address=address.address,
                prefixlen=address.prefix_length,
                scope=address.scope,
                **more,
            )

    def take_address(self, index: int, name: str, address: KeptAddress) -> None:
        """Takes it off the link."""
        with translate_errors(f"cannot take {address.address} off", name), pass_over(errno.EADDRNOTAVAIL):
            self._socket.addr("del", index=index, address=address.address, prefixlen=address.prefix_length)

    def lead_route(self, index: int, name: str, route: KeptRoute) -> None:
        """Has the route lead by the link, in place of the one to that destination with that metric."""
        settings: dict[str, Any] = {
            "dst": route.destination,
            "family": socket.AF_INET6 if route.version == 6 else socket.AF_INET,
            "oif": index,
            "table": route.table,
            "proto": route.protocol,
            "scope": route.scope,
            "tos": route.tos,
        }
        if route.gateway:
            settings["gateway"] = route.gateway
        if route.onlink:
            settings["flags"] = ["onlink"]
        if route.metric:
            settings["priority"] = route.metric
        if route.source:
            settings["prefsrc"] = route.source
        with translate_errors(f"cannot have {route.destination} lead by", name):
            self._socket.route("replace", **settings)

    def release(self, index: int, name: str) -> None:
        """Makes the link a port of nothing."""
        with translate_errors("cannot take from its bridge", name):
            self._socket.link("set", index=index, master=0)


def _flags(message: Any) -> int:
    return int(message.get("flags") or message["flags"])


def _is_lasting(message: Any) -> bool:
    return bool(_flags(message) & IFA_F_PERMANENT) and not _is_link_local(message)


def _is_link_local(message: Any) -> bool:
    return bool(message["family"] == socket.AF_INET6 and message["scope"] == _LINK_SCOPE)


def _is_learnt(message: Any) -> bool:
    return (
        message["family"] == socket.AF_INET6 and not _flags(message) & IFA_F_PERMANENT and not _is_link_local(message)
    )


def _has_peer(message: Any) -> bool:
    return bool(message.get("local")) and message.get("local") != message.get("address")


def _address(message: Any) -> KeptAddress:
    return KeptAddress(
        address=message.get("local") or message.get("address"),
        prefix_length=message["prefixlen"],
        broadcast=message.get("broadcast") or "",
        label=message.get("label") or "",
        scope=message["scope"],
        connected=not _flags(message) & IFA_F_NOPREFIXROUTE,
    )


def _destination(message: Any) -> str:
    any_address = "0.0.0.0" if message["family"] == socket.AF_INET else "::"
    return f"{message.get('dst') or any_address}/{message['dst_len']}"


def _route(message: Any) -> KeptRoute:
    return KeptRoute(
        destination=_destination(message),
        gateway=message.get("gateway") or "",
        table=message.get("table") or message["table"],
        protocol=message["proto"],
        metric=message.get("priority") or 0,
        scope=message["scope"],
        source=message.get("prefsrc") or "",
        tos=message["tos"],
        onlink=bool(message["flags"] & _ONLINK),
    )


def _leads_by(message: Any, index: int) -> bool:
    return message.get("oif") == index or any(hop["oif"] == index for hop in message.get("multipath") or ())
