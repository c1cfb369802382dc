"""Where guests of other nodes come to: the relay, or the network that is named for migrations."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kvedge.handler.launchers.migration_listener import MigrationListener, choose_address
from kvedge.network.errors import NetworkError
from kvedge.resources.relay_protocol import migration_path
from kvedge.runtime.tls.certificates import (
    API_NAME,
    MIGRATION_NAME,
    CertificateAuthority,
    LeafRequest,
    TlsMaterial,
    handler_server_name,
)
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.runtime.tls.tls_contexts import client_context
from tests.support.echo_door import EchoDoor
from tests.support.ports import free_port

RELAY = "192.0.2.1:8444"
AUTHORITY = CertificateAuthority.create("kvedge-ca", datetime.now(UTC))


def _material(name: str, node: str) -> TlsMaterial:
    return AUTHORITY.issue(LeafRequest(name, hosts=[handler_server_name(node)]), datetime.now(UTC))


class World:
    """A listener on loopback, and what it sees of its node."""

    def __init__(self) -> None:
        self.network, self.own, self.error = "", ["127.0.0.1", "192.0.2.1"], ""
        self.port = free_port()
        self.tls = RotatingTls(_material("kvedge-handler", "node-b"), AUTHORITY.certificate_pem, require_client=True)
        self.listener = MigrationListener(EchoDoor(), None, lambda: self.network, self._list)

    def _list(self) -> list[str]:
        if self.error:
            raise NetworkError(self.error)
        return self.own

    def follow(self, network: str, host: str = "192.0.2.1") -> str:
        self.network = network
        self.listener.follow(self.tls, host, self.port)
        return self.listener.address(RELAY)

    def ask(self, name: str, path: str, host: str = "127.0.0.1") -> int:
        context = client_context(_material(name, "node-a"))
        plain = http.client.HTTPConnection(host, self.port, timeout=20)
        plain.connect()
        assert plain.sock is not None
        plain.sock = context.wrap_socket(plain.sock, server_hostname=handler_server_name("node-b"))
        plain.request("GET", path)
        try:
            return plain.getresponse().status
        finally:
            plain.close()


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    found.listener.stop()


@pytest.mark.parametrize(
    ("network", "addresses", "present", "chosen"),
    [
        ("10.5.0.0/24", ["192.168.1.7", "10.5.0.30", "10.5.0.9"], "", "10.5.0.9"),
        ("10.5.0.0/24", ["10.5.0.30", "10.5.0.9"], "10.5.0.30", "10.5.0.30"),
        ("10.5.0.0/24", ["10.5.0.9"], "10.5.0.30", "10.5.0.9"),
        ("10.5.0.0/24", ["10.5.1.9", "fd00::9"], "", ""),
        ("fd00::/64", ["10.5.1.9", "fd00::9"], "", "fd00::9"),
    ],
)
def test_a_node_takes_guests_at_its_own_address_in_the_network(
    network: str, addresses: list[str], present: str, chosen: str
) -> None:
    assert choose_address(network, addresses, present) == chosen


def test_without_a_network_guests_come_to_the_relay(world: World) -> None:
    assert world.follow("") == RELAY
    assert world.listener.trouble == ""


def test_guests_alone_are_taken_on_their_network(world: World) -> None:
    assert world.follow("127.0.0.0/8") == f"127.0.0.1:{world.port}"
    migration = migration_path("default", "web", "uid", "memory")
    # Nobody waits for a guest in this test: 501 says that its way is there.
    assert world.ask(MIGRATION_NAME, migration) == 501
    assert world.ask(API_NAME, migration) == 403
    console = migration.replace("/migrations/uid/memory", "/console")
    assert world.ask(API_NAME, console) == 404


def test_whoever_has_no_certificate_of_the_authority_gets_no_word(world: World) -> None:
    world.follow("127.0.0.0/8")
    stranger = CertificateAuthority.create("stranger", datetime.now(UTC))
    own = stranger.issue(LeafRequest(MIGRATION_NAME), datetime.now(UTC))
    context = client_context(TlsMaterial(AUTHORITY.certificate_pem, own.certificate, own.key))
    plain = http.client.HTTPConnection("127.0.0.1", world.port, timeout=20)
    plain.connect()
    assert plain.sock is not None
    plain.sock = context.wrap_socket(plain.sock, server_hostname=handler_server_name("node-b"))
    plain.request("GET", "/")
    # TLS 1.3 tells a client only after the handshake that it is not known.
    with pytest.raises((ssl.SSLError, ConnectionError)):
        plain.getresponse()
    plain.close()


def test_a_network_that_has_just_changed_has_no_address_until_it_is_followed(world: World) -> None:
    world.follow("127.0.0.0/8")
    world.network = "10.5.0.0/24"
    assert world.listener.address(RELAY) == ""
    assert world.follow("") == RELAY


def test_a_node_without_an_address_in_the_network_says_so_and_listens_nowhere(world: World) -> None:
    world.follow("127.0.0.0/8")
    assert world.follow("10.5.0.0/24") == ""
    assert world.listener.trouble == "this node has no address in 10.5.0.0/24, the network for migrations"
    with pytest.raises(ConnectionRefusedError):
        world.ask(MIGRATION_NAME, "/")
    world.own.append("127.0.0.1")
    assert world.follow("127.0.0.0/8") == f"127.0.0.1:{world.port}"
    assert world.listener.trouble == ""


def test_a_relay_that_listens_there_already_takes_them(world: World) -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        assert world.follow("127.0.0.0/8", host) == f"127.0.0.1:{world.port}"
        with pytest.raises(ConnectionRefusedError):
            world.ask(MIGRATION_NAME, "/")


def test_what_cannot_be_listened_on_is_told_and_tried_again(world: World) -> None:
    world.own = ["192.0.2.1"]
    assert world.follow("192.0.2.0/24", "127.0.0.1") == ""
    assert world.listener.trouble.startswith("network 192.0.2.0/24 for migrations: cannot listen on 192.0.2.1:")
    world.error = "cannot list addresses"
    assert world.follow("192.0.2.0/24") == ""
    assert "cannot list addresses" in world.listener.trouble
    world.error, world.own = "", ["127.0.0.1"]
    assert world.follow("127.0.0.0/8") == f"127.0.0.1:{world.port}"
