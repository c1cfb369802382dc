"""Frames by the ten thousand, as root in a guest sends them, and what bridges and neighbour tables kept."""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address

from kvedge.network.netns import netns_path, run_in_netns

BROADCAST = bytes.fromhex("ffffffffffff")
# Bridges give what is sent there to the host alone, and by another way than all else (802.1AB).
LLDP = bytes.fromhex("0180c200000e")
ARP_TYPE, IPV4_TYPE, IPV6_TYPE = b"\x08\x06", b"\x08\x00", b"\x86\xdd"
TUNSETIFF = 0x400454CA
IFF_TAP_WITHOUT_HEADER = 0x0002 | 0x1000

_random = random.Random(13)


def packed(mac: str) -> bytes:
    """A MAC as it stands in a frame."""
    return bytes.fromhex(mac.replace(":", ""))


def random_mac() -> bytes:
    """A locally administered unicast MAC."""
    return b"\x02" + _random.randbytes(5)


def arp_question(source: bytes, sender: str, wanted: str, inside: bytes | None = None) -> bytes:
    """Who has `wanted`? Tell `sender`, who is at `inside`, by default where the frame comes from."""
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + (inside or source) + IPv4Address(sender).packed
    return BROADCAST + source + ARP_TYPE + body + bytes(6) + IPv4Address(wanted).packed


def udp_frame(source: bytes, target: bytes, addresses: tuple[str, str], ports: tuple[int, int]) -> bytes:
    """A UDP packet without contents, with the checksum that IPv4 asks for."""
    ends = b"".join(IPv4Address(each).packed for each in addresses)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 17, 0) + ends
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return target + source + IPV4_TYPE + head + struct.pack("!HHHH", *ports, 8, 0)


def send_all(netns: str, link: str, frames: Iterable[bytes]) -> None:
    """Puts the frames out on a link of that namespace."""

    def opening() -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        opened.bind((link, 0))
        return opened

    with run_in_netns(netns_path(netns), opening) as opened:
        for frame in frames:
            opened.send(frame)


@contextmanager
def open_tap(netns: str, tap: str) -> Iterator[Callable[[bytes], object]]:
    """The tap of that namespace, open as QEMU has it: what is called sends one frame of the guest's."""

    def opening() -> int:
        opened = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", tap.encode(), IFF_TAP_WITHOUT_HEADER))
        return opened

    opened = run_in_netns(netns_path(netns), opening)
    try:
        yield lambda frame: os.write(opened, frame.ljust(60, b"\0"))
    finally:
        os.close(opened)


def _asked(netns: str | None, *command: str) -> str:
    def ask() -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return ask() if netns is None else run_in_netns(netns_path(netns), ask)


def macs_of(netns: str | None, bridge: str) -> int:
    """How many MACs a bridge of that namespace (None: this one) knows."""
    return len(json.loads(_asked(netns, "bridge", "-j", "fdb", "show", "br", bridge)))


def groups_of(netns: str | None, bridge: str) -> int:
    """How many multicast groups a bridge remembers."""
    return sum(len(each["mdb"]) for each in json.loads(_asked(netns, "bridge", "-j", "mdb", "show", "dev", bridge)))


def neighbours_of(netns: str | None, link: str) -> int:
    """How many neighbours the namespace remembers on that link, in IPv4 and IPv6."""
    return sum(
        len(json.loads(_asked(netns, "ip", "-j", family, "neigh", "show", "dev", link))) for family in ("-4", "-6")
    )
