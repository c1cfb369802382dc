"""The socket of the DHCP responder: a thread in the launcher that moves bytes between a bridge and `dhcp_plan.answer`.

Touches one UDP socket on port 67, bound to one bridge of the Pod's network namespace. It runs without any capability:
binding a socket to a device needs none since Linux 5.7, and the Pod's `net.ipv4.ip_unprivileged_port_start` is 0.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Final

from kvedge.network.dhcp.dhcp_message import (
    LARGEST_PACKET,
    BadPacket,
    MessageType,
    Reply,
    Request,
    parse_request,
    render_reply,
)
from kvedge.network.dhcp.dhcp_plan import DhcpLease, answer, parse_mac
from kvedge.network.errors import NetworkError
from kvedge.network.packet_budget import PacketBudget
from kvedge.runtime.background import survive

log = logging.getLogger(__name__)

SERVER_PORT: Final = 67
CLIENT_PORT: Final = 68
# From asm-generic/socket.h; the socket module does not name it. Replies go out without a UDP checksum, as IPv4
# allows: the kernel would leave it to the guest's virtual NIC, and clients that read raw frames then see a wrong one
# and drop the reply.
SO_NO_CHECK: Final = 11
# How many packets the kernel keeps for us (about); the rest of a flood is dropped there.
RECEIVE_BUFFER: Final = 64 * 1024


class DhcpServer:
    """Answers the one guest of `lease` on `bridge`.

    `on_ack(lease)` is called, in the server's thread, after each lease given; it must not block and must not raise.
    """

    def __init__(self, bridge: str, lease: DhcpLease, on_ack: Callable[[DhcpLease], None]) -> None:
        self._bridge = bridge
        self._lease = lease
        self._on_ack = on_ack
        self._thread: threading.Thread | None = None
        self._wake = -1
        self._said: set[str] = set()

    def start(self) -> None:
        """Binds and begins to answer; raises NetworkError when the bridge is missing or the port cannot be had."""
        if self._thread is not None:
            return
        opened = _open(self._bridge)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(
            target=self._run, args=(opened, self._wake), name=f"dhcp-{self._bridge}", daemon=True
        )
        self._thread.start()

    def update(self, lease: DhcpLease) -> None:
        """Answers by another lease from the next packet on."""
        if lease != self._lease:
            self._said.clear()
        self._lease = lease

    def stop(self) -> None:
        """Ends the thread and closes the socket; may be called again, and before start."""
        if self._thread is None:
            return
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        self._thread = None

    def _run(self, opened: socket.socket, wake: int) -> None:
        waiting = select.poll()
        waiting.register(opened, select.POLLIN)
        waiting.register(wake, select.POLLIN)
        stopping = select.poll()
        stopping.register(wake, select.POLLIN)
        budget = PacketBudget()
        with opened:
            while True:
                if any(fd == wake for fd, _ in waiting.poll()):
                    return
                with survive(f"dhcp-{self._bridge}"):
                    self._receive(opened)
                pause = budget.spend(time.monotonic())
                if pause and stopping.poll(pause * 1000):
                    return

    def _receive(self, opened: socket.socket) -> None:
        try:
            # One byte more than allowed: a longer packet arrives cut to that, and is refused for its length.
            packet = opened.recv(LARGEST_PACKET + 1)
        except OSError as error:
            # The device went away or an earlier answer was refused; the next poll shows whether anything comes again.
            self._say(logging.WARNING, f"receiving a request failed: {error}")
            return
        lease = self._lease
        try:
            request = parse_request(packet)
        except BadPacket as error:
            log.debug("%s: ignored a packet: %s", self._bridge, error)
            return
        if request.type is MessageType.DECLINE and request.mac == parse_mac(lease.guest_mac):
            self._say(logging.WARNING, f"the guest declined {lease.address}: somebody else has this address")
        reply = answer(lease, request)
        if reply is not None:
            self._send(opened, lease, request, reply)

    def _send(self, opened: socket.socket, lease: DhcpLease, request: Request, reply: Reply) -> None:
        to = "255.255.255.255" if reply.unicast_to is None else str(IPv4Address(reply.unicast_to))
        try:
            opened.sendto(render_reply(reply), (to, CLIENT_PORT))
        except OSError as error:
            # The client asks again; a bridge that is down now may be up then.
            self._say(logging.WARNING, f"answering {request.type.name} failed: {error}")
            return
        self._say(
            logging.INFO,
            f"{request.type.name} answered with {reply.type.name}: {lease.address} is for {lease.guest_mac}",
        )
        if reply.type is MessageType.ACK and request.type is MessageType.REQUEST:
            self._on_ack(lease)

    def _say(self, level: int, what: str) -> None:
        # A guest may ask as often as it likes: a repeated message is no news.
        log.log(logging.DEBUG if what in self._said else level, "%s: %s", self._bridge, what)
        self._said.add(what)


def _open(bridge: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bridge.encode() + b"\0")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        opened.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        opened.bind(("", SERVER_PORT))
    except OSError as error:
        opened.close()
        raise NetworkError("DHCP cannot answer on", subject=bridge, errno=error.errno or 0) from error
    return opened
