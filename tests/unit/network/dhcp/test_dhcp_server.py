"""The parts of the responder's shell that need no socket: its budget and what it says."""

from __future__ import annotations

import logging
import socket

import pytest

from kvedge.network.dhcp.dhcp_plan import DhcpLease
from kvedge.network.dhcp.dhcp_server import DhcpServer
from kvedge.network.packet_budget import PacketBudget
from tests.unit.network.dhcp.leases import ADDRESS, LEASE, lease, request


def test_a_guest_within_its_budget_never_waits() -> None:
    budget = PacketBudget()
    assert [budget.spend(100 + number / 10) for number in range(200)] == [0.0] * 200


def test_a_flood_waits_for_the_rest_of_the_second_and_then_goes_on() -> None:
    budget = PacketBudget(3)
    assert [budget.spend(now) for now in (10.0, 10.1)] == [0.0, 0.0]
    assert budget.spend(10.25) == pytest.approx(0.75)
    assert budget.spend(11.0) == 0.0


def exchange(server: DhcpServer, packets: list[bytes]) -> list[bytes]:
    """What the server sends when these arrive; the destination is left out of account."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        sent: list[bytes] = []

        class Recording:
            def recv(self, size: int) -> bytes:
                return theirs.recv(size)

            def sendto(self, data: bytes, to: tuple[str, int]) -> int:
                sent.append(data)
                return len(data)

        for packet in packets:
            ours.send(packet)
            server._receive(Recording())  # type: ignore[arg-type]
    return sent


def test_a_lease_is_told_once_it_is_acknowledged_and_not_before() -> None:
    told: list[DhcpLease] = []
    server = DhcpServer("k6t-eth0", LEASE, told.append)
    exchange(server, [request("discover"), request("inform", ciaddr=ADDRESS)])
    assert told == []
    exchange(server, [request("request", ("requested_addr", ADDRESS))])
    assert told == [LEASE]


def test_a_refused_request_tells_no_lease() -> None:
    told: list[DhcpLease] = []
    sent = exchange(DhcpServer("k6t-eth0", LEASE, told.append), [request("request", ("requested_addr", "10.99.0.8"))])
    assert len(sent) == 1
    assert told == []


def test_what_repeats_itself_is_logged_once_until_the_lease_changes(caplog: pytest.LogCaptureFixture) -> None:
    server = DhcpServer("k6t-eth0", LEASE, lambda lease: None)
    asked = [request("discover"), request("request", ("requested_addr", ADDRESS)), request("decline")]
    with caplog.at_level(logging.INFO):
        exchange(server, asked * 5)
        assert len(caplog.records) == 3
        server.update(lease(dns=("192.0.2.99",)))
        exchange(server, asked[:2])
        assert len(caplog.records) == 5


def test_stopping_what_never_started_does_nothing() -> None:
    DhcpServer("k6t-eth0", LEASE, lambda lease: None).stop()
