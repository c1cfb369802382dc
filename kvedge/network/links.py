"""Links, addresses and routes of the namespace the calling thread is in: the door to rtnetlink, with typed results.

Used by `bridge_binding` and `pod_network`, usually inside `netns.run_in_netns`. Every pyroute2 error leaves as a
`NetworkError` with the kernel's number in it. "Already so" and "already gone" are told apart by the callers, by that
number.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from pyroute2.iproute import IPRoute

from kvedge.network.errors import NetworkError
from kvedge.network.link_messages import (
    IFF_ALLMULTI,
    read_address,
    read_counted,
    read_hops,
    read_link,
    read_whole_route,
)
from kvedge.network.link_types import PROTO_STATIC, Address, CountedLink, Link, Route
from kvedge.network.netlink_dump import whole_dump
from kvedge.network.netlink_errors import pass_over, translate_errors

# Of linux/neighbour.h.
NUD_PERMANENT: Final = 0x80
# Of a bridge's MACs: configured, does not age.
NUD_NOARP: Final = 0x40
NTF_MASTER: Final = 0x04
IFA_F_NOPREFIXROUTE: Final = 0x200
UNICAST: Final = 1
# The queue at the top of a link's sending end.
TC_H_ROOT: Final = 0xFFFFFFFF


class Links:
    """An open rtnetlink socket of the namespace in which it was made; a context manager, for one thread."""

    def __init__(self) -> None:
        with translate_errors("cannot open rtnetlink"):
            # No multicast groups: nobody here waits for news, and a queue that nobody reads overflows.
            self._socket: Any = IPRoute(groups=0)

    def __enter__(self) -> Links:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def list_links(self) -> list[Link]:
        """All links of the namespace."""
        with translate_errors("cannot list links"):
            return [read_link(message) for message in whole_dump(lambda: list(self._socket.get_links()))]

    def list_counted(self) -> list[CountedLink]:
        """As :meth:`list_links`, with what each has counted."""
        with translate_errors("cannot list links"):
            lost = {
                message["index"]: int((message.get_attr("TCA_STATS") or {}).get("drop") or 0)
                for message in whole_dump(lambda: list(self._socket.get_qdiscs()))
                if message["parent"] == TC_H_ROOT
            }
            found = whole_dump(lambda: list(self._socket.get_links()))
            return [read_counted(message, lost.get(message["index"], 0)) for message in found]

    def find(self, name: str) -> Link | None:
        """The link of that name, or None."""
        try:
            with translate_errors("cannot look up", name):
                found = list(self._socket.link("get", ifname=name))
        except NetworkError as error:
            if error.errno in (errno.ENODEV, errno.ENOENT):
                return None
            raise
        return read_link(found[0]) if found else None

    def index(self, name: str) -> int:
        """The index of the link of that name; raises NetworkError (ENODEV) when there is none."""
        found = self.find(name)
        if found is None:
            raise NetworkError("there is no link", subject=name, errno=errno.ENODEV)
        return found.index

    def list_addresses(self) -> list[Address]:
        """All IPv4 and IPv6 addresses of the namespace."""
        with translate_errors("cannot list addresses"):
            return [read_address(message) for message in whole_dump(lambda: list(self._socket.get_addr()))]

    def list_routes(self) -> list[Route]:
        """All unicast IPv4 routes of all tables."""
        return self._list_routes(socket.AF_INET, read_whole_route)

    def list_hops(self) -> list[Route]:
        """As :meth:`list_routes`, with a route over several links once for each of them."""
        return self._list_routes(socket.AF_INET, read_hops)

    def list_ipv6_routes(self) -> list[Route]:
        """All unicast IPv6 routes of all tables; none where the kernel has no IPv6."""
        return self._list_routes(socket.AF_INET6, read_whole_route)

    def _list_routes(self, family: int, read: Callable[[Any], list[Route]]) -> list[Route]:
        with translate_errors("cannot list routes"):
            found = whole_dump(lambda: list(self._socket.get_routes(family=family)))
            # A kernel without a family answers for those it has.
            of_family = [item for item in found if item["family"] == family and item["type"] == UNICAST]
            return [route for item in of_family for route in read(item)]

    def list_own_macs(self) -> list[tuple[int, str]]:
        """(port, MAC) of what bridges take for their own ports' MACs, and keep for themselves."""
        with translate_errors("cannot list the MACs of bridges"):
            found = whole_dump(lambda: list(self._socket.fdb("dump")))
            return [
                (message["ifindex"], message.get("lladdr").lower())
                for message in found
                if message["state"] & NUD_PERMANENT and message.get("master")
            ]

    def forget_own_mac(self, name: str, mac: str) -> None:
        """Makes a bridge treat the MAC of its own port as any other; nothing when it does already."""
        with translate_errors("cannot change the MACs of bridge port", name), pass_over(errno.ENOENT):
            self._socket.fdb("del", ifindex=self.index(name), lladdr=mac, flags=NTF_MASTER, state=NUD_PERMANENT)

    def know_mac(self, name: str, mac: str) -> None:
        """Tells the bridge of this port that the MAC belongs to it, until the port goes; nothing when a port has it."""
        with translate_errors("cannot give a MAC to bridge port", name), pass_over(errno.EEXIST):
            self._socket.fdb("add", ifindex=self.index(name), lladdr=mac, flags=NTF_MASTER, state=NUD_NOARP)

    def add(self, name: str, kind: str, **settings: Any) -> int:
        """Makes a link of that kind with rtnetlink's settings for it. Returns its index; EEXIST when it exists."""
        with translate_errors(f"cannot make {kind}", name):
            self._socket.link("add", ifname=name, kind=kind, **settings)
        return self.index(name)

    def add_veth(
        self, name: str, peer: str, netns: Path, *, peer_mac: str, mtu: int, peer_mtu: int | None = None, mac: str = ""
    ) -> None:
        """Makes a pair with its other end already in the namespace at `netns`; both have one MTU unless told.

        `mac` is this end's; empty for one of the kernel's.
        """
        with translate_errors("cannot make veth", name):
            opened = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
            try:
                other = {"ifname": peer, "net_ns_fd": opened, "address": peer_mac, "mtu": peer_mtu or mtu}
                own = {"address": mac} if mac else {}
                self._socket.link("add", ifname=name, kind="veth", mtu=mtu, peer=other, **own)
            finally:
                os.close(opened)

    def add_macvtap(self, name: str, lower: str, netns: Path, *, mode: str, mac: str, mtu: int) -> None:
        """Makes a link on `lower`, which is here, with a character device for its frames, in the namespace at `netns`.

        EEXIST when that has a link of this name.
        """
        with translate_errors("cannot make macvtap", name):
            opened = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
            try:
                settings = {"link": self.index(lower), "macvtap_mode": mode, "address": mac, "mtu": mtu}
                self._socket.link("add", ifname=name, kind="macvtap", net_ns_fd=opened, **settings)
            finally:
                os.close(opened)

    def take_all_multicast(self, name: str) -> None:
        """Makes the link take the frames of every multicast group."""
        self.set(name, flags=IFF_ALLMULTI, change=IFF_ALLMULTI)

    def set(self, name: str, **settings: Any) -> None:
        """Changes a link by rtnetlink's settings (state, address, mtu, master, ifname, ifalias …)."""
        with translate_errors("cannot change", name):
            self._socket.link("set", index=self.index(name), **settings)

    def set_port(self, name: str, **settings: Any) -> None:
        """Changes a bridge port's settings (learning, isolated …)."""
        with translate_errors("cannot change bridge port", name):
            self._socket.brport("set", index=self.index(name), **settings)

    def set_port_vlans(self, name: str, untagged: int, tagged: Iterable[tuple[int, int]]) -> None:
        """Makes a bridge port one of these VLANs alone; `untagged` is that of frames without a tag, 0 for none."""
        index = self.index(name)
        with translate_errors("cannot change the VLANs of bridge port", name):
            self._socket.vlan_filter("del", index=index, vlan_info={"vid": "1-4094"})
        self.add_port_vlans(name, tagged)
        with translate_errors("cannot change the VLANs of bridge port", name):
            if untagged:
                of_untagged = {"vid": untagged, "flags": ["pvid", "untagged"]}
                self._socket.vlan_filter("add", index=index, vlan_info=of_untagged)

    def add_port_vlans(self, name: str, tagged: Iterable[tuple[int, int]]) -> None:
        """Makes a bridge port carry these VLANs with their tags, too."""
        index = self.index(name)
        with translate_errors("cannot change the VLANs of bridge port", name):
            for first, last in tagged:
                vids = first if first == last else f"{first}-{last}"
                self._socket.vlan_filter("add", index=index, vlan_info={"vid": vids})

    def set_bridge(self, name: str, **settings: Any) -> None:
        """Changes a bridge's own settings (br_mcast_snooping …)."""
        self.set(name, kind="bridge", **settings)

    def enslave(self, name: str, bridge: str) -> None:
        """Makes the link a port of the bridge; of none where that is empty."""
        self.set(name, master=self.index(bridge) if bridge else 0)

    def delete(self, name: str) -> None:
        """Removes the link; nothing when it is gone already."""
        with translate_errors("cannot delete", name), pass_over(errno.ENODEV):
            found = self.find(name)
            if found is not None:
                self._socket.link("del", index=found.index)

    def add_address(self, name: str, address: str, prefix_length: int, *, connected: bool = True) -> None:
        """Gives the link an address, with or without the route to its subnet; nothing when it has it."""
        flags = {} if connected else {"flags": IFA_F_NOPREFIXROUTE}
        with translate_errors("cannot give an address to", name), pass_over(errno.EEXIST):
            self._socket.addr("add", index=self.index(name), address=address, prefixlen=prefix_length, **flags)

    def add_side_address(self, name: str, address: str, protocol: int) -> None:
        """Gives the link an address beside its own, of that maker: no packet of the host's leaves with it by itself."""
        length, flags = 128 if ":" in address else 32, IFA_F_NOPREFIXROUTE
        # Of IPv6, one that is not preferred is taken as a source last.
        lifetimes = {"preferred": 0, "valid": 0xFFFFFFFF}
        with translate_errors("cannot give an address to", name), pass_over(errno.EEXIST):
            index = self.index(name)
            self._socket.addr(
                "add", index=index, address=address, prefixlen=length, flags=flags, proto=protocol, **lifetimes
            )

    def delete_address(self, name: str, address: str, prefix_length: int) -> None:
        """Takes an address off the link; nothing when it does not have it."""
        with translate_errors("cannot take an address off", name), pass_over(errno.EADDRNOTAVAIL):
            self._socket.addr("del", index=self.index(name), address=address, prefixlen=prefix_length)

    def add_route(self, destination: str, gateway: str, name: str, metric: int = 0) -> None:
        """A route by that link; an empty gateway means that the destination is on it. Nothing when it is there."""
        settings: dict[str, Any] = {"dst": destination, "oif": self.index(name), "proto": PROTO_STATIC}
        if gateway:
            # The gateway may be off the subnet (an address with /32): the link is named, that must be enough.
            settings |= {"gateway": gateway, "flags": ["onlink"]}
        elif ":" not in destination:
            settings["scope"] = 253
        if metric:
            settings["priority"] = metric
        with translate_errors(f"cannot add route to {destination} by", name), pass_over(errno.EEXIST):
            self._socket.route("add", **settings)

    def delete_route(self, destination: str, gateway: str, name: str, metric: int = 0) -> None:
        """The opposite of `add_route`. Nothing when it is not there."""
        settings: dict[str, Any] = {"dst": destination, "oif": self.index(name), "proto": PROTO_STATIC}
        if gateway:
            settings["gateway"] = gateway
        elif ":" not in destination:
            settings["scope"] = 253
        if metric:
            settings["priority"] = metric
        with translate_errors(f"cannot delete route to {destination} by", name), pass_over(errno.ESRCH):
            self._socket.route("del", **settings)

    def limit_rate(self, name: str, rate: int, bucket: int, queue: int) -> None:
        """Hold what the link sends to so many bytes a second, by a token bucket; a present bucket is changed."""
        index = self.index(name)
        with translate_errors("cannot limit the bandwidth of", name):
            self._socket.tc("replace", "tbf", index, rate=rate, burst=bucket, limit=queue)
