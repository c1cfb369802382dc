"""A guest's root sends the name server what it likes, by real packets from its Pod: its neighbours get their answers.

What a packet may say is a matter of `tests/unit/standalone/names`; here it comes over the node's bridge, past its
filters, to the port where a box has its server.
"""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from kvedge.network.binding.port_rules import QUESTIONS_AT_ONCE, QUESTIONS_PER_SECOND
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.pod_network import attach_pod
from kvedge.standalone.names.name_message import LONGEST_QUESTION, answer, read_question
from kvedge.standalone.names.name_server import PORT, NameServer
from kvedge.standalone.names.name_table import NameTable
from kvedge.standalone.names.other_servers import OtherServers
from tests.machine.network.frames import wire
from tests.machine.network.test_pod_network import ADDRESSES, MACS
from tests.support.pod_world import CIDR, GATEWAY, node_config, node_network
from tests.support.waiting import wait_until

OWN, OTHERS, NEVER = "web.ns.svc.cluster.local", "www.example", "never.example"
OWN_ADDRESS, OTHERS_ADDRESS = "10.100.0.5", "192.0.2.80"
# The host's own server, which answers one name and is silent about all others.
HOST_SERVER = "127.0.0.1"
# Longer than all waits of a test; the flood is ended before.
FLOOD_SECONDS = 300.0
# Of Linux (asm-generic/socket.h); as root beyond net.core.rmem_max.
SO_RCVBUFFORCE = 33
# Sends the packets that it reads, again and again, as fast as a process can.
FLOOD = """
import socket, sys, time
packets = [bytes.fromhex(line) for line in sys.stdin]
opened, end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), time.monotonic() + float(sys.argv[2])
opened.connect((sys.argv[1], 53))
print("begins", flush=True)
while time.monotonic() < end:
    for packet in packets:
        try:
            opened.send(packet)
        except OSError:
            pass
"""


def asked(name: str, identity: int = 4711) -> bytes:
    return bytes(DNS(id=identity, rd=1, qd=DNSQR(qname=name)))


class Guest:
    """What may ask, in a Pod's namespace."""

    def __init__(self, netns: str) -> None:
        self.netns = netns

    def open(self, kind: socket.SocketKind = socket.SOCK_DGRAM) -> socket.socket:
        """A socket of the Pod's, connected to its name server."""

        def opening() -> socket.socket:
            opened = socket.socket(socket.AF_INET, kind)
            opened.settimeout(1.0)
            opened.connect((GATEWAY, PORT))
            return opened

        return run_in_netns(netns_path(self.netns), opening)

    def ask(self, name: str) -> list[str]:
        """What it hears within a second, as a resolver waits before it asks again; empty for nothing."""
        with self.open() as opened:
            opened.send(asked(name))
            try:
                said = DNS(opened.recv(4096))
            except TimeoutError:
                return []
        return [record.rdata for record in said.an] if said.ancount else []

    def ask_by_stream(self, name: str) -> list[str]:
        """The same by TCP."""
        packet = asked(name)
        with self.open(socket.SOCK_STREAM) as opened, opened.makefile("rb") as reader:
            opened.sendall(struct.pack("!H", len(packet)) + packet)
            (length,) = struct.unpack("!H", reader.read(2))
            said = DNS(reader.read(length))
        return [record.rdata for record in said.an]


@contextmanager
def host_server() -> Iterator[int]:
    """The port of the host's server, in this process."""
    script = (
        "import socket, sys\n"
        "opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "opened.bind((sys.argv[1], 0)); print(opened.getsockname()[1], flush=True)\n"
        "name, said = bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])\n"
        "while True:\n"
        "    packet, peer = opened.recvfrom(4096)\n"
        "    if name in packet: opened.sendto(packet[:2] + said[2:], peer)\n"
    )
    question = asked(OTHERS)
    said = answer(read_question(question), [OTHERS_ADDRESS], "example")
    command = [sys.executable, "-c", script, HOST_SERVER, question[12:-4].hex(), said.hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.kill()


@pytest.fixture
def guests() -> Iterator[tuple[Guest, Guest]]:
    """The hostile one and its neighbour; the server is well in the end, and answers the hostile one, too."""
    config = node_config()
    with ExitStack() as left:
        left.enter_context(node_network(config))
        names = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for name, address, mac in zip(names, ADDRESSES, MACS, strict=False):
            attach_pod(config, name, address, mac)
        port = left.enter_context(host_server())
        server = NameServer(GATEWAY, CIDR, OtherServers(lambda: f"nameserver {HOST_SERVER}\n", port))
        server.start()
        left.callback(server.stop)
        assert server.address == GATEWAY
        server.know(lambda: NameTable(services={("ns", "web"): (OWN_ADDRESS,)}))
        hostile, neighbour = Guest(names[0]), Guest(names[1])
        assert neighbour.ask(OWN) == [OWN_ADDRESS]
        assert neighbour.ask(OTHERS) == [OTHERS_ADDRESS]
        yield hostile, neighbour
        assert server.failure() is None
        wait_until(lambda: hostile.ask(OWN) == [OWN_ADDRESS], "the hostile one's account is full again")


def malformed() -> Iterator[bytes]:
    """What is no question, or hardly one."""
    whole, chance = asked(OWN), random.Random(16)
    head = whole[:12]
    yield from (whole[:length] for length in range(len(whole)))
    yield head + b"\xc0\x0c\x00\x01\x00\x01"
    yield head + b"\xc0\x0e\xc0\x0c\x00\x01\x00\x01"
    yield head + b"\x3f" * 300
    yield head + b"\x01a" * 200 + b"\x00\x00\x01\x00\x01"
    yield whole[:4] + b"\xff" * 8 + whole[12:]
    yield bytes(DNS(id=1, qr=1, qd=DNSQR(qname=OWN), an=DNSRR(rrname=OWN, rdata="203.0.113.66")))
    yield from (whole + bytes(size) for size in (LONGEST_QUESTION, 9000, 60000))
    yield from (chance.randbytes(chance.randrange(1, 1400)) for _ in range(200))


def test_malformed_questions_get_a_word_at_most_and_neighbours_their_answers(guests: tuple[Guest, Guest]) -> None:
    hostile, neighbour = guests
    with hostile.open() as opened:
        opened.setblocking(False)
        for packet in malformed():
            opened.send(packet)
            try:
                said = opened.recv(65535)
            except BlockingIOError:
                continue
            assert len(said) <= max(len(packet), 12), "nobody is sent more than he has sent"
    for wanted, address in ((OWN, OWN_ADDRESS), (OTHERS, OTHERS_ADDRESS)):
        wait_until(lambda name=wanted, at=address: neighbour.ask(name) == [at], f"{wanted} is answered")


def test_a_question_under_a_neighbours_address_reaches_nobody(guests: tuple[Guest, Guest]) -> None:
    hostile, neighbour = guests
    with wire(neighbour.netns, "eth0") as heard, wire(hostile.netns, "eth0") as out:
        for address in (ADDRESSES[1], "10.201.77.99", "192.0.2.7"):
            datagram = IP(src=address, dst=GATEWAY) / UDP(sport=5353, dport=PORT) / asked(OWN, 666)
            out.send(Ether(src=MACS[0], dst="ff:ff:ff:ff:ff:ff") / datagram)
        # What it asks for itself comes after these, and says when to stop waiting.
        assert neighbour.ask(OWN) == [OWN_ADDRESS]
        seen = heard.first(lambda frame: UDP in frame and frame[UDP].sport == PORT)
    assert seen is not None
    assert DNS(bytes(seen[UDP].payload)).id == 4711


@pytest.mark.parametrize("name", [OWN, NEVER], ids=["a name of ours", "a name that nobody answers"])
def test_a_flood_of_questions_leaves_neighbours_their_answers(name: str, guests: tuple[Guest, Guest]) -> None:
    hostile, neighbour = guests
    lines = "\n".join(asked(name, identity).hex() for identity in range(50))

    def begin() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", FLOOD, GATEWAY, str(FLOOD_SECONDS)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with run_in_netns(netns_path(hostile.netns), begin) as flood:
        try:
            assert flood.stdin is not None
            assert flood.stdout is not None
            flood.stdin.write(lines)
            flood.stdin.close()
            assert flood.stdout.readline() == "begins\n"
            wait_until(lambda: not hostile.ask(OWN), "the hostile one has had its share")
            for wanted, address in ((OWN, OWN_ADDRESS), (OTHERS, OTHERS_ADDRESS)):
                # Packets are lost where so many come; a resolver asks again.
                wait_until(lambda name=wanted, at=address: neighbour.ask(name) == [at], f"{wanted} is answered")
            assert flood.poll() is None, "while it goes on"
        finally:
            flood.kill()


def test_what_a_guest_asks_too_often_does_not_come_to_the_servers_socket() -> None:
    config = node_config()
    with ExitStack() as left:
        left.enter_context(node_network(config))
        names = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for name, address, mac in zip(names, ADDRESSES, MACS, strict=False):
            attach_pod(config, name, address, mac)
        served = left.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        served.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        served.settimeout(10.0)
        served.bind((GATEWAY, PORT))
        packet, sent = asked(OWN), 20 * QUESTIONS_PER_SECOND
        begun = time.monotonic()
        with Guest(names[0]).open() as hostile:
            for _ in range(sent):
                hostile.send(packet)
        with Guest(names[1]).open() as neighbour:
            neighbour.send(packet)
        heard = dict.fromkeys(ADDRESSES[:2], 0)
        while not heard[ADDRESSES[1]]:
            heard[served.recvfrom(4096)[1][0]] += 1
        taken = time.monotonic() - begun
    # On a machine so slow that the guest kept to its rate nothing is shown, and nothing is wrong.
    most = QUESTIONS_AT_ONCE + QUESTIONS_PER_SECOND * (taken + 1)
    assert QUESTIONS_AT_ONCE <= heard[ADDRESSES[0]] <= min(sent, most)


def test_streams_without_end_leave_neighbours_theirs(guests: tuple[Guest, Guest]) -> None:
    hostile, neighbour = guests
    with ExitStack() as held:
        for begun in (b"", b"\x00", b"\x00\x40half of a question") * 30:
            opened = held.enter_context(hostile.open(socket.SOCK_STREAM))
            opened.sendall(begun)
        assert neighbour.ask_by_stream(OWN) == [OWN_ADDRESS]
        assert neighbour.ask(OTHERS) == [OTHERS_ADDRESS]
