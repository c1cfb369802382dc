"""Raw frames on a link of a namespace: for saying what no client would, and for seeing what passes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from kvedge.network.netns import netns_path, run_in_netns

ETH_P_ALL = 3
PACKET_OUTGOING = 4
BROADCAST = "ff:ff:ff:ff:ff:ff"


class Wire:
    """An open link: what comes in on it, and sending on it."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened

    def send(self, frame: bytes | Packet) -> None:
        """Puts one frame out."""
        self._socket.send(bytes(frame))

    def first(self, wanted: Callable[[Packet], bool], seconds: float = 20.0) -> Packet | None:
        """The first frame coming in that is wanted, or None when there is none in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                data, address = self._socket.recvfrom(65535)
            except TimeoutError:
                return None
            frame = Ether(data)
            if address[2] != PACKET_OUTGOING and wanted(frame):
                return frame
        return None


@contextmanager
def wire(netns: str | None, link: str) -> Iterator[Wire]:
    """The link of that namespace (None: the host's), open for the block; frames wait from its beginning on."""

    def opening() -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.bind((link, 0))
        return opened

    opened = opening() if netns is None else run_in_netns(netns_path(netns), opening)
    with opened:
        yield Wire(opened)


def dhcp_frame(mac: str, kind: str, *options: object, **header: object) -> Packet:
    """A client's frame from `mac` to everybody."""
    fields = {"chaddr": bytes.fromhex(mac.replace(":", "")), "xid": 77, **header}
    return (
        Ether(src=mac, dst=BROADCAST)
        / IP(src="0.0.0.0", dst="255.255.255.255")
        / UDP(sport=68, dport=67)
        / BOOTP(**fields)
        / DHCP(options=[("message-type", kind), *options, "end"])
    )


def offer_frame(from_mac: str, server: str, to_mac: str, address: str, dst: str = BROADCAST) -> Packet:
    """What a foreign DHCP server would send to our guest."""
    return (
        Ether(src=from_mac, dst=dst)
        / IP(src=server, dst="255.255.255.255")
        / UDP(sport=67, dport=68)
        / BOOTP(op=2, yiaddr=address, chaddr=bytes.fromhex(to_mac.replace(":", "")), xid=77)
        / DHCP(options=[("message-type", "offer"), ("server_id", server), "end"])
    )


def is_dhcp(frame: Packet) -> bool:
    """Whether it is DHCP, to or from whomever."""
    return UDP in frame and {frame[UDP].sport, frame[UDP].dport} & {67, 68} != set()
