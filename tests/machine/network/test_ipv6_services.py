"""Services of IPv6 with real packets: from the host, from guests, from outside, and with nobody behind them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.pod_network import remove_node_network
from kvedge.network.services.flow_edge import forget_flows
from kvedge.network.services.service_network import ServiceNetworks
from kvedge.network.services.service_plan import ServiceNetworkConfig, table_name
from kvedge.network.services.service_rules import ANY_OWN_IPV6, Balanced, Frontend
from tests.machine.network.own_host import host_state, on_a_host_of_its_own
from tests.machine.network.test_ipv6_pods import HOST_OUTSIDE, OUTSIDE, neighbour, of, two_pods
from tests.machine.network.test_pod_network import ADDRESSES, ruleset
from tests.support.pod_world import node_config
from tests.support.tentative import bind_in_time

SERVICE_CIDR = "fd78:1::/112"
ADDRESS = "fd78:1::7"
WEB = Frontend(ADDRESS, "TCP", 80)


def networks() -> ServiceNetworks:
    node = node_config(ipv6_cidr="2001:db8:77:1::/64")
    ranges = ((node.cidr, "10.244.0.0/24"), (node.ipv6_cidr, SERVICE_CIDR))
    return ServiceNetworks(
        ServiceNetworkConfig(bridge=node.bridge, pod_cidr=pods, service_cidr=services, table=table_name(node.table))
        for pods, services in ranges
    )


@contextmanager
def answering(netns: str, address: str, number: int) -> Iterator[None]:
    """Tells by TCP, port 8080, its number and who asks."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = run_in_netns(netns_path(netns), lambda: socket.create_server((address, 8080), family=family))

    def serve() -> None:
        while True:
            try:
                asked, peer = listening.accept()
            except OSError:
                return
            # Who asks may be gone, and so may the network.
            with asked, contextlib.suppress(OSError):
                asked.sendall(f"{number} {peer[0]}\n".encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def ask(netns: str | None, address: str, port: int) -> str:
    def asking() -> str:
        with socket.create_connection((address, port), timeout=3) as opened:
            return opened.makefile().readline().strip()

    return asking() if netns is None else run_in_netns(netns_path(netns), asking)


@on_a_host_of_its_own
def test_a_service_is_reached_from_the_host_from_guests_by_both_families_and_by_a_guest_itself() -> None:
    with two_pods() as (config, one, other), answering(other, of(config, 12), 2), answering(other, ADDRESSES[1], 4):
        services = networks()
        web4 = Balanced(Frontend("10.244.0.7", "TCP", 80), ((ADDRESSES[1], 8080),))
        assert services.apply([Balanced(WEB, ((of(config, 12), 8080),)), web4])
        assert ask(None, ADDRESS, 80) == f"2 {of(config, 1)}"
        # Through the box, whose address the other guest answers.
        assert ask(one, ADDRESS, 80) == f"2 {of(config, 1)}"
        assert ask(other, ADDRESS, 80) == f"2 {of(config, 1)}"
        assert ask(one, "10.244.0.7", 80).startswith("4 ")
        assert not services.apply([Balanced(WEB, ((of(config, 12), 8080),)), web4])


@on_a_host_of_its_own
def test_a_node_port_is_reached_from_outside_under_the_clients_address_and_not_at_the_loopback() -> None:
    with (
        two_pods() as (config, _, other),
        neighbour(config, knows=False) as outside,
        answering(other, of(config, 12), 2),
    ):
        networks().apply([Balanced(Frontend(ANY_OWN_IPV6, "TCP", 30080), ((of(config, 12), 8080),))])
        assert ask(outside, HOST_OUTSIDE, 30080) == f"2 {OUTSIDE}"
        assert ask(None, HOST_OUTSIDE, 30080).startswith("2 ")
        with pytest.raises(ConnectionRefusedError):
            ask(None, "::1", 30080)


@pytest.mark.parametrize("sticky", [False, True], ids=["by chance", "by client"])
@on_a_host_of_its_own
def test_several_endpoints_are_all_reached_and_a_client_keeps_its_own_where_it_should(sticky: bool) -> None:
    with two_pods() as (config, one, other):
        ways = tuple((of(config, place), 8080) for place in (11, 12))
        with answering(one, of(config, 11), 1), answering(other, of(config, 12), 2):
            networks().apply([Balanced(WEB, ways, sticky)])
            # One in 2^40 that chance alone picks the same each time.
            answered = {ask(None, ADDRESS, 80)[0] for _ in range(40)}
    assert len(answered) == 1 if sticky else answered == {"1", "2"}


@on_a_host_of_its_own
def test_an_address_of_no_service_is_refused_at_once_and_nothing_is_left_in_the_end() -> None:
    before = host_state()
    with two_pods() as (config, one, _):
        networks().apply([])
        for asking in (None, one):
            with pytest.raises(ConnectionRefusedError):
                ask(asking, ADDRESS, 80)
        remove_node_network(config)
        assert "ip6" not in ruleset()
    assert host_state() == before


@pytest.mark.parametrize("place", ["10.244.0.7", ADDRESS], ids=["IPv4", "IPv6"])
@on_a_host_of_its_own
def test_a_client_of_udp_moves_on_when_its_endpoint_is_gone(place: str) -> None:
    front = Frontend(place, "UDP", 53)
    with two_pods() as (config, one, other):
        addresses = [of(config, 11), of(config, 12)] if ":" in place else list(ADDRESSES)
        family = socket.AF_INET6 if ":" in place else socket.AF_INET
        services = networks()
        with ExitStack() as stack:
            listening = []
            for netns, address in zip((one, other), addresses, strict=True):
                opened = run_in_netns(netns_path(netns), lambda: socket.socket(family, socket.SOCK_DGRAM))
                listening.append(stack.enter_context(opened))
                opened.settimeout(5)
                run_in_netns(netns_path(netns), partial(bind_in_time, opened, (address, 5353)))
            # It brings the way to the addresses of Services as well.
            services.apply([Balanced(front, ((addresses[0], 5353),))])
            client = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            client.connect((place, 53))
            # A neighbour whose flow is to stay.
            direct = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            direct.connect((addresses[0], 5353))
            direct.send(b"direct")
            assert listening[0].recv(64) == b"direct"
            client.send(b"first")
            said, asked = listening[0].recvfrom(64)
            assert said == b"first"
            listening[0].sendto(b"answer", asked)
            client.settimeout(5)
            assert client.recv(64) == b"answer"
            services.apply([Balanced(front, ((addresses[1], 5353),))])
            client.send(b"second")
            assert listening[1].recv(64) == b"second"
            assert forget_flows(Frontend(addresses[0], "UDP", 5353), {(addresses[0], 5353)}) == 1
