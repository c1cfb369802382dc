"""The sockets of the IPv6 responder: a thread in the launcher that moves bytes between a bridge and `ipv6_plan`.

Touches a UDP socket on port 547, bound to one bridge of the Pod's network namespace, as `dhcp_server` does on port 67;
and a raw ICMPv6 socket that the handler hands over by `router_door`, as nobody without a capability can open one.
Until it has come, nobody tells the guest of its router, and clients that wait for that ask for nothing.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import struct
import threading
import time
from ipaddress import IPv6Address
from typing import Final

from kvedge.network.dhcp.dhcp6_message import LARGEST_MESSAGE, MessageType, parse_request6, render_reply6
from kvedge.network.dhcp.dhcp_message import BadPacket
from kvedge.network.dhcp.ipv6_plan import Ipv6Lease, advertisement, answer6
from kvedge.network.dhcp.router_door import open_door, take_over
from kvedge.network.dhcp.router_message import LARGEST_SOLICITATION, check_solicitation, render_advertisement
from kvedge.network.errors import NetworkError
from kvedge.network.packet_budget import PacketBudget
from kvedge.runtime.background import survive

log = logging.getLogger(__name__)

SERVER_PORT: Final = 547
SERVERS: Final = "ff02::1:2"
ALL_NODES: Final = "ff02::1"
RECEIVE_BUFFER: Final = 64 * 1024
# A guest asks when its link comes up; this is for one whose question, or our answer to it, was lost.
ADVERTISE_SECONDS: Final = 300.0


class Ipv6Server:
    """Tells the one guest on `bridge` of its address and its router, by `lease`."""

    def __init__(self, bridge: str, lease: Ipv6Lease) -> None:
        self._bridge = bridge
        self._lease = lease
        self._thread: threading.Thread | None = None
        self._wake = -1
        self._stopping = False
        self._said: set[str] = set()

    def start(self) -> None:
        """Binds and begins to answer; raises NetworkError when the bridge is missing or the port cannot be had."""
        if self._thread is not None:
            return
        sockets = _Sockets(self._bridge)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run, args=(sockets, self._wake), name=f"ipv6-{self._bridge}", daemon=True
        )
        self._thread.start()

    def update(self, lease: Ipv6Lease) -> None:
        """Answers by another lease from the next packet on, and says so to the guest."""
        if lease == self._lease:
            return
        self._said.clear()
        self._lease = lease
        if self._thread is not None:
            os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """Ends the thread and closes the sockets; may be called again, and before start."""
        if self._thread is None:
            return
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        self._thread = None

    def _run(self, sockets: _Sockets, wake: int) -> None:
        budget = PacketBudget()
        advertise_at = time.monotonic()
        with sockets:
            while not self._stopping:
                if time.monotonic() >= advertise_at:
                    advertise_at = time.monotonic() + ADVERTISE_SECONDS
                    with survive(f"ipv6-{self._bridge}"):
                        self._advertise(sockets)
                ready = sockets.wait(wake, advertise_at - time.monotonic())
                if wake in ready:
                    os.eventfd_read(wake)
                    advertise_at = 0.0
                asked = bool(ready - {wake})
                with survive(f"ipv6-{self._bridge}"):
                    if sockets.door.fileno() in ready and self._let_in(sockets):
                        advertise_at = 0.0
                    asked = self._hear(sockets, ready)
                pause = budget.spend(time.monotonic()) if asked else 0.0
                if pause:
                    sockets.pause(wake, pause)

    def _let_in(self, sockets: _Sockets) -> bool:
        try:
            router = take_over(sockets.door)
        except OSError as error:
            self._say(logging.WARNING, f"the door of the handler failed: {error}")
            return False
        if router is None:
            self._say(logging.WARNING, "somebody was at the door of the handler, and is not it")
            return False
        sockets.take(router)
        return True

    def _hear(self, sockets: _Sockets, ready: set[int]) -> bool:
        heard = False
        if sockets.dhcp.fileno() in ready:
            heard = True
            self._receive(sockets)
        if sockets.router is not None and sockets.router.fileno() in ready:
            heard = True
            self._take_solicitation(sockets, sockets.router)
        return heard

    def _receive(self, sockets: _Sockets) -> None:
        try:
            packet, peer = sockets.dhcp.recvfrom(LARGEST_MESSAGE + 1)
        except OSError as error:
            self._say(logging.WARNING, f"receiving a request failed: {error}")
            return
        lease = self._lease
        try:
            request = parse_request6(packet)
        except BadPacket as error:
            log.debug("%s: ignored a message: %s", self._bridge, error)
            return
        # A client asks from its link-local address (RFC 8415 §13.1): other senders are not on this link.
        if not IPv6Address(peer[0].split("%")[0]).is_link_local:
            return
        reply = answer6(lease, request)
        if reply is None:
            return
        if request.type is MessageType.DECLINE:
            self._say(logging.WARNING, f"the guest declined {lease.address}: somebody else has this address")
        try:
            sockets.dhcp.sendto(render_reply6(reply), peer)
        except OSError as error:
            self._say(logging.WARNING, f"answering {request.type.name} failed: {error}")
            return
        self._say(logging.INFO, f"{request.type.name} answered with {reply.type.name}: {lease.address}")

    def _take_solicitation(self, sockets: _Sockets, router: socket.socket) -> None:
        try:
            packet, ancillary, _, _ = router.recvmsg(LARGEST_SOLICITATION + 1, socket.CMSG_SPACE(4))
        except OSError as error:
            self._say(logging.WARNING, f"receiving a solicitation failed: {error}")
            return
        limits = [struct.unpack("@i", data)[0] for _, kind, data in ancillary if kind == socket.IPV6_HOPLIMIT]
        try:
            check_solicitation(packet, limits[0] if limits else 0)
        except BadPacket as error:
            log.debug("%s: ignored a solicitation: %s", self._bridge, error)
            return
        self._advertise(sockets)

    def _advertise(self, sockets: _Sockets) -> None:
        if sockets.router is None:
            return
        lease = self._lease
        sender = IPv6Address(lease.router or "::").packed + struct.pack("@I", sockets.index)
        try:
            sockets.router.sendmsg(
                [render_advertisement(advertisement(lease))],
                [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, sender)],
                0,
                (ALL_NODES, 0, 0, sockets.index),
            )
        except OSError as error:
            # The guest asks again, and is told again before long; a bridge that is down now may be up then.
            self._say(logging.WARNING, f"advertising the router failed: {error}")
            return
        self._say(logging.INFO, f"router {lease.router or 'none'} advertised")

    def _say(self, level: int, what: str) -> None:
        # A guest may ask as often as it likes: a repeated message is no news.
        log.log(logging.DEBUG if what in self._said else level, "%s: %s", self._bridge, what)
        self._said.add(what)


class _Sockets:
    """What the thread listens to; a context manager that closes it all."""

    def __init__(self, bridge: str) -> None:
        self.router: socket.socket | None = None
        self.dhcp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        try:
            self.index = socket.if_nametoindex(bridge)
            group = socket.inet_pton(socket.AF_INET6, SERVERS) + struct.pack("@I", self.index)
            self.dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bridge.encode() + b"\0")
            self.dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            self.dhcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.dhcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
            self.dhcp.bind(("::", SERVER_PORT))
            self.door = open_door(bridge)
        except OSError as error:
            self.dhcp.close()
            raise NetworkError("DHCPv6 cannot answer on", subject=bridge, errno=error.errno or 0) from error

    def __enter__(self) -> _Sockets:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in (self.dhcp, self.door, self.router):
            if opened is not None:
                opened.close()

    def take(self, router: socket.socket) -> None:
        """Use this one from now on."""
        if self.router is not None:
            self.router.close()
        self.router = router

    def wait(self, wake: int, seconds: float) -> set[int]:
        """The descriptors that have something, or nothing after so long."""
        waiting = select.poll()
        for opened in (self.dhcp, self.door, self.router):
            if opened is not None:
                waiting.register(opened, select.POLLIN)
        waiting.register(wake, select.POLLIN)
        return {descriptor for descriptor, _ in waiting.poll(max(0.0, seconds) * 1000)}

    def pause(self, wake: int, seconds: float) -> None:
        """Leave everything lying for so long, unless woken."""
        waiting = select.poll()
        waiting.register(wake, select.POLLIN)
        waiting.poll(seconds * 1000)
