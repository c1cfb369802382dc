"""Services with real packets: from the host, from guests and from outside, and with nobody behind them.

What is put into the kernel is read back with the distribution's `nft`, which shares nothing with us.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.nft.nft_edge import delete_table
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.pod_network import attach_pod, remove_node_network
from kvedge.network.services.service_network import ServiceNetwork
from kvedge.network.services.service_plan import ServiceNetworkConfig, table_name
from kvedge.network.services.service_rules import ANY_OWN, SLOTS, Balanced, Frontend
from kvedge.standalone.networking.balancing_plan import MOST_ELEMENTS
from tests.machine.network.dhcp_clients import needs
from tests.machine.network.own_host import host_state, on_a_host_of_its_own
from tests.machine.network.test_forwarding import STRANGERS, two_networks
from tests.machine.network.test_pod_network import ADDRESSES, MACS
from tests.support.pod_world import GATEWAY, node_config, node_network
from tests.support.values import replace

T = TypeVar("T")
SERVICE_CIDR = "10.244.0.0/24"
ADDRESS = "10.244.0.7"
WEB = Frontend(ADDRESS, "TCP", 80)
NODE_PORT = Frontend(ANY_OWN, "TCP", 30080)
NAMES = Frontend(ADDRESS, "UDP", 53)
SECONDS = 3.0


def service_config() -> ServiceNetworkConfig:
    node = node_config()
    return ServiceNetworkConfig(
        bridge=node.bridge, pod_cidr=node.cidr, service_cidr=SERVICE_CIDR, table=table_name(node.table)
    )


def pod(number: int) -> str:
    return f"{node_config().netns_prefix}{number}"


def inside(number: int, work: Callable[[], T]) -> T:
    return run_in_netns(netns_path(pod(number)), work)


@contextmanager
def pods(*numbers: int) -> Iterator[None]:
    """Pods on a node network, each of which tells by TCP, port 8080, its number and who asks."""
    with node_network(node_config()), ExitStack() as stack:
        for number in numbers:
            attach_pod(node_config(), pod(number), ADDRESSES[number], MACS[number])
            stack.enter_context(answering(number))
        yield


@contextmanager
def answering(number: int) -> Iterator[None]:
    listening = inside(number, lambda: socket.create_server((ADDRESSES[number], 8080)))

    def serve() -> None:
        while True:
            try:
                asked, (address, _) = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(asked, f"{number} {address}\n"), daemon=True).start()

    def talk(asked: socket.socket, words: str) -> None:
        # A client that leaves without reading all resets the connection; the network may be gone before the client is.
        with asked, contextlib.suppress(OSError):
            asked.sendall(words.encode())
            # Then whatever is said, for as long as somebody says something.
            while said := asked.recv(1024):
                asked.sendall(said)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(SECONDS)


def connected(address: str, port: int, source: str = "") -> socket.socket:
    return socket.create_connection((address, port), SECONDS, (source, 0) if source else None)


def ask(address: str = ADDRESS, port: int = 80) -> list[str]:
    """The number of the Pod that answers, and who it thinks has asked."""
    with connected(address, port) as stream:
        return stream.makefile().readline().split()


def told(asked: socket.socket) -> bytes:
    """What comes back for a packet."""
    asked.send(b"?")
    return asked.recv(10)


def ways(*numbers: int) -> tuple[tuple[str, int], ...]:
    return tuple((ADDRESSES[number], 8080) for number in numbers)


@on_a_host_of_its_own
def test_a_service_answers_the_host_guests_and_the_guest_itself() -> None:
    with pods(0, 1):
        ServiceNetwork(service_config()).apply([Balanced(WEB, ways(0))])
        assert ask() == ["0", GATEWAY]
        # Answers of a neighbour on the same bridge come back by the host, which has to be who asks.
        assert inside(1, ask) == ["0", GATEWAY]
        assert inside(0, ask) == ["0", GATEWAY]
        # Without the Service everybody is seen as who they are.
        assert inside(1, lambda: ask(ADDRESSES[0], 8080)) == ["0", ADDRESSES[1]]


@on_a_host_of_its_own
def test_a_host_without_a_default_route_reaches_services_too() -> None:
    with pods(0):
        subprocess.run(["ip", "route", "del", "default"], check=True)
        ServiceNetwork(service_config()).apply([Balanced(WEB, ways(0))])
        assert ask() == ["0", GATEWAY]


@on_a_host_of_its_own
def test_a_node_port_is_at_the_hosts_addresses_and_clients_from_outside_are_seen_as_who_they_are() -> None:
    here, there = STRANGERS["one"]
    with pods(0), two_networks(node_config()) as (outside, _):
        ServiceNetwork(service_config()).apply([Balanced(NODE_PORT, ways(0)), Balanced(WEB, ways(0))])
        assert ask("192.0.2.2", 30080)[0] == "0"
        assert run_in_netns(netns_path(outside), lambda: ask(here, 30080)) == ["0", there]
        assert inside(0, lambda: ask("192.0.2.2", 30080)) == ["0", GATEWAY]
        with pytest.raises(ConnectionRefusedError):
            ask("127.0.0.1", 30080)


@on_a_host_of_its_own
def test_a_load_balancer_is_at_its_address_alone() -> None:
    here, there = STRANGERS["one"]
    with pods(0), two_networks(node_config()) as (outside, _):
        ServiceNetwork(service_config()).apply([Balanced(Frontend(here, "TCP", 8000), ways(0))])
        assert run_in_netns(netns_path(outside), lambda: ask(here, 8000)) == ["0", there]
        with pytest.raises(ConnectionRefusedError):
            ask("192.0.2.2", 8000)


@on_a_host_of_its_own
def test_new_connections_are_spread_and_a_client_with_affinity_stays() -> None:
    with pods(0, 1):
        network = ServiceNetwork(service_config())
        network.apply([Balanced(WEB, ways(0, 1))])
        # That one of two is never drawn has a chance of one in 10^18.
        assert {ask()[0] for _ in range(60)} == {"0", "1"}
        network.apply([Balanced(WEB, ways(0, 1), sticky=True)])
        assert len({ask()[0] for _ in range(60)}) == 1


@on_a_host_of_its_own
def test_with_nobody_behind_it_a_service_refuses_at_once() -> None:
    with pods(0):
        ServiceNetwork(service_config()).apply([Balanced(WEB, ()), Balanced(NAMES, ())])

        def refused() -> None:
            with pytest.raises(ConnectionRefusedError):
                ask()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
                asked.settimeout(SECONDS)
                asked.connect((ADDRESS, 53))
                # The host's own packet does not even leave; a guest is told by ICMP.
                with pytest.raises((ConnectionRefusedError, PermissionError)):
                    told(asked)

        refused()
        inside(0, refused)


@on_a_host_of_its_own
def test_connections_go_on_while_services_change_and_while_rules_are_put_anew() -> None:
    with pods(0, 1):
        network = ServiceNetwork(service_config())
        network.apply([Balanced(WEB, ways(0))])
        with connected(ADDRESS, 80) as stream:
            lines = stream.makefile()
            assert lines.readline().startswith("0 ")
            changes: list[Callable[[], object]] = [
                lambda: network.apply([Balanced(WEB, ways(1))]),
                lambda: network.apply([]),
                lambda: ServiceNetwork(service_config()).apply([Balanced(WEB, ways(1))]),
                lambda: delete_table(Family.IP, service_config().table),
            ]
            for number, change in enumerate(changes):
                change()
                stream.sendall(f"{number}\n".encode())
                assert lines.readline() == f"{number}\n"
        network.apply([Balanced(WEB, ways(1))])
        assert ask()[0] == "1"


@on_a_host_of_its_own
def test_what_others_undo_is_put_back_and_nothing_is_changed_otherwise() -> None:
    with pods(0):
        network = ServiceNetwork(service_config())
        wanted = [Balanced(WEB, ways(0))]
        assert network.apply(wanted)
        assert not network.apply(wanted)
        for undo in (
            ["nft", "delete", "table", "ip", service_config().table],
            ["nft", "flush", "chain", "ip", service_config().table, "prerouting"],
            ["ip", "route", "del", SERVICE_CIDR],
        ):
            subprocess.run(undo, check=True)
            assert network.apply(wanted)
            assert ask()[0] == "0"
            assert not network.apply(wanted)


@on_a_host_of_its_own
def test_the_route_of_an_earlier_setting_goes() -> None:
    with pods(0):
        before = replace(service_config(), service_cidr="10.246.0.0/16")
        ServiceNetwork(before).apply([])
        ServiceNetwork(service_config()).apply([Balanced(WEB, ways(0))])
        with Links() as links:
            assert "10.246.0.0/16" not in {route.destination for route in links.list_hops()}
        assert ask()[0] == "0"


@on_a_host_of_its_own
def test_as_many_services_as_the_plan_lets_in_are_put_into_the_kernel_and_taken_out() -> None:
    with pods(0, 1):
        network = ServiceNetwork(service_config())
        wide = [Balanced(Frontend(ADDRESS, "TCP", port), ways(0, 1)) for port in range(1, MOST_ELEMENTS // SLOTS + 1)]
        for wanted in (wide, [Balanced(WEB, ways(0))], wide):
            assert network.apply(wanted)
            assert ask()[0] in "01"
            assert not network.apply(wanted)


@on_a_host_of_its_own
def test_the_rules_are_what_they_should_be() -> None:
    needs("nft", "nftables")
    with pods(0):
        ServiceNetwork(service_config()).apply([Balanced(WEB, ways(0))])
        command = ["nft", "list", "table", "ip", service_config().table]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = [line.strip() for line in listed.splitlines()]
        front, own = "meta l4proto . th dport", "fib daddr type local ip daddr != 127.0.0.0/8 dnat ip to"
        slots = ("", " . numgen random mod 64", " . jhash ip saddr mod 64 seed 0x0")
        maps = list(zip(slots, ("direct", "spread", "sticky"), strict=True))
        turned = [f"dnat ip to ip daddr . {front}{slot} map @{name}" for slot, name in maps]
        turned += [f"{own} ip daddr & 0.0.0.0 . {front}{slot} map @{name}" for slot, name in maps]
        refused = [f"ip daddr {SERVICE_CIDR} reject with tcp reset", f"ip daddr {SERVICE_CIDR} reject"]
        node = node_config()
        between = f'oifname "{node.bridge}" ip saddr {node.cidr} ct status dnat masquerade'
        rules = [line for line in lines if "dnat ip" in line or "reject" in line or "masquerade" in line]
        assert rules == [*turned, *turned, between, *refused, *refused]
        assert f"elements = {{ {ADDRESS} . tcp . 80 : {ADDRESSES[0]} . 8080 }}" in lines


@on_a_host_of_its_own
def test_a_removed_node_network_leaves_nothing_of_services() -> None:
    before = host_state()
    with pods(0):
        ServiceNetwork(service_config()).apply([Balanced(WEB, ways(0))])
    remove_node_network(node_config())
    assert host_state() == before
    with Links() as links:
        assert SERVICE_CIDR not in {route.destination for route in links.list_hops()}
