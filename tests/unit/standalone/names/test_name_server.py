# Tests: kvedge/standalone/names/other_servers.py
"""The name server on the loopback, with another server behind it, asked as guests ask."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from scapy.layers.dns import DNS, DNSQR

from kvedge.standalone.names import name_server
from kvedge.standalone.names.name_message import answer, no_such_name, read_question
from kvedge.standalone.names.name_server import NameServer
from kvedge.standalone.names.name_table import NameTable
from kvedge.standalone.names.other_servers import OtherServers

HERE = "127.0.0.1"
TABLE = NameTable(
    services={("ns", "web"): ("10.100.0.5",)}, vms={("ns", "vm"): ("10.99.0.20",), ("example", "www"): ("10.99.0.66",)}
)
SECONDS = 10.0
# What another server says to a packet; None for nothing.
Says = Callable[[bytes], bytes | None]


def knows(packet: bytes) -> bytes | None:
    """A server that knows names below `example` and no others."""
    question = read_question(packet)
    if question.labels[-1] == "example":
        return answer(question, ["192.0.2.80"], "example")
    return no_such_name(question, "example")


def two_sockets() -> tuple[socket.socket, socket.socket]:
    """Of both protocols, with one port: of a free one of one of them another program may have the other."""
    while True:
        packets, streams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        try:
            packets.bind((HERE, 0))
            streams.bind((HERE, packets.getsockname()[1]))
        except OSError:
            packets.close()
            streams.close()
        else:
            return packets, streams


@contextmanager
def another_server(says: Says) -> Iterator[int]:
    """Its port; it answers by both protocols."""
    packets, streams = two_sockets()
    with packets, streams:
        port = packets.getsockname()[1]
        streams.listen()

        def answer_packets() -> None:
            while True:
                packet, peer = packets.recvfrom(4096)
                if not packet:
                    return
                if said := says(packet):
                    packets.sendto(said, peer)

        def answer_stream() -> None:
            asked, _ = streams.accept()
            with asked, asked.makefile("rb") as reader:
                if head := reader.read(2):
                    said = says(reader.read(struct.unpack("!H", head)[0])) or b""
                    asked.sendall(struct.pack("!H", len(said)) + said)

        threads = [threading.Thread(target=each) for each in (answer_packets, answer_stream)]
        for thread in threads:
            thread.start()
        yield port
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (HERE, port))
        with socket.socket() as end:
            end.connect_ex((HERE, port))
        for thread in threads:
            thread.join(SECONDS)


@contextmanager
def served(says: Says = knows, guests: str = "127.0.0.0/8", table: NameTable | None = TABLE) -> Iterator[NameServer]:
    with another_server(says) as port:
        server = NameServer(HERE, guests, OtherServers(lambda: f"nameserver {HERE}\n", port), port=0)
        while not server.address:
            # As of two sockets above.
            server.start()
        if table is not None:
            server.know(lambda: table)
        try:
            yield server
            assert server.failure() is None
        finally:
            server.stop()


def asked(name: str, kind: str = "A") -> bytes:
    return bytes(DNS(id=4711, rd=1, qd=DNSQR(qname=name, qtype=kind)))


def ask(server: NameServer, name: str, kind: str = "A", seconds: float = SECONDS) -> DNS:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as guest:
        guest.settimeout(seconds)
        guest.connect((HERE, server.port))
        guest.send(asked(name, kind))
        said = DNS(guest.recv(4096))
        assert said.id == 4711
        return said


def addresses(said: DNS) -> list[str]:
    return [record.rdata for record in said.an] if said.ancount else []


def test_our_names_are_answered_here_and_all_others_by_the_hosts_server() -> None:
    with served() as server:
        assert addresses(ask(server, "web.ns.svc.cluster.local")) == ["10.100.0.5"]
        assert addresses(ask(server, "WWW.shop.example")) == ["192.0.2.80"]
        assert ask(server, "none.ns.svc.cluster.local").rcode == 3
        assert ask(server, "none.test").rcode == 3


def test_a_vm_has_a_short_name_and_hides_nobodys_site() -> None:
    with served() as server:
        assert addresses(ask(server, "vm.ns")) == ["10.99.0.20"]
        assert addresses(ask(server, "www.example")) == ["192.0.2.80"]


def test_without_names_yet_ours_are_not_denied() -> None:
    with served(table=None) as server:
        assert ask(server, "web.ns.svc.cluster.local").rcode == 2


def test_a_name_that_cannot_be_answered_fails_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    table = NameTable(services={("ns", "odd"): ("no address",), ("ns", "web"): ("10.100.0.5",)})
    with served(table=table) as server:
        assert ask(server, "odd.ns.svc.cluster.local").rcode == 2
        assert addresses(ask(server, "web.ns.svc.cluster.local")) == ["10.100.0.5"]
    # Threads that other tests have left write, too.
    told = [record.levelname for record in caplog.records if record.name.startswith("kvedge.standalone.names")]
    assert told == ["ERROR"]


def test_a_server_that_is_broken_is_told_as_that() -> None:
    with served(lambda packet: packet[:2] + b"\x81\x82" + packet[4:]) as server:
        assert ask(server, "a.test").rcode == 2


def test_streams_are_answered_as_packets_are() -> None:
    with served() as server, socket.create_connection((HERE, server.port), SECONDS) as guest:
        reader = guest.makefile("rb")
        for name, found in (("web.ns.svc.cluster.local", "10.100.0.5"), ("www.shop.example", "192.0.2.80")):
            packet = asked(name)
            guest.sendall(struct.pack("!H", len(packet)) + packet)
            (length,) = struct.unpack("!H", reader.read(2))
            assert addresses(DNS(reader.read(length))) == [found]


def test_what_is_no_question_ends_a_stream() -> None:
    with served() as server, socket.create_connection((HERE, server.port), SECONDS) as guest:
        guest.sendall(b"\xff\xff")
        assert guest.recv(10) == b""


def test_nobody_but_guests_is_answered() -> None:
    with served(guests="10.99.0.0/24") as server:
        with socket.create_connection((HERE, server.port), SECONDS) as stranger:
            assert stranger.recv(10) == b""
        with pytest.raises(TimeoutError):
            ask(server, "web.ns.svc.cluster.local", seconds=0.05)


def test_a_guest_that_asks_too_often_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_server, "QUESTIONS_PER_SECOND", 1)
    with served() as server, pytest.raises(TimeoutError):
        ask(server, "web.ns.svc.cluster.local", seconds=0.05)


def test_where_another_program_has_the_port_guests_are_told_of_nobody() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HERE, 0))
        server = NameServer(HERE, "127.0.0.0/8", OtherServers(str), port=other.getsockname()[1])
        server.start()
        assert (server.address, server.failure()) == ("", None)
        server.stop()
