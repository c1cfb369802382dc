"""Addresses of the pool with real packets: found by ARP and ND, led to guests, judged by policies, and gone in the end.

The neighbour is on a link with the host, and knows of no router for the pool: nothing but the host's answer leads
there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from kvedge.network.errors import OverlapError
from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.attachments import port_name
from kvedge.network.pods.pod_network import remove_node_network
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.policies.policy_rules import Passage, PodTraffic
from kvedge.network.services.pool_addresses import PoolAddresses
from kvedge.network.services.pool_plan import address_mark
from kvedge.network.services.service_network import ServiceNetwork, ServiceNetworks
from kvedge.network.services.service_plan import ServiceNetworkConfig, table_name
from kvedge.network.services.service_rules import Balanced, Frontend
from kvedge.network.sysctls import write_sysctl
from kvedge.runtime.address_pool import address_pool
from tests.machine.network.own_host import host_state, on_a_host_of_its_own
from tests.machine.network.test_forwarding import STRANGERS, reaches, two_networks
from tests.machine.network.test_ipv6_pods import HOST_OUTSIDE, OUTSIDE, neighbour, of, two_pods
from tests.machine.network.test_ipv6_services import answering as answering_ipv6
from tests.machine.network.test_ipv6_services import ask as ask_from
from tests.machine.network.test_pod_network import ADDRESSES
from tests.machine.network.test_policy_network import at
from tests.machine.network.test_service_network import ask, pod, pods, service_config, ways
from tests.support.pod_world import node_config
from tests.support.values import replace
from tests.support.waiting import wait_until

POOL = address_pool("198.51.100.100-198.51.100.101")
FIRST, SECOND = "198.51.100.100", "198.51.100.101"
OPEN_PORT = 2222


def services() -> ServiceNetwork:
    return ServiceNetwork(replace(service_config(), pool=POOL.ranges))


def addresses() -> PoolAddresses:
    return PoolAddresses(node_config().bridge, POOL)


def marked() -> list[tuple[str, int]]:
    with Links() as links:
        found = links.list_addresses()
    mark = address_mark(node_config().bridge)
    return [(each.address, each.prefix_length) for each in found if each.protocol == mark]


@on_a_host_of_its_own
def test_a_neighbour_finds_a_service_at_its_own_address_and_nothing_else_of_the_host_there() -> None:
    here, there = STRANGERS["one"]
    with (
        pods(0, 1),
        two_networks(node_config(), "bridge") as (outside, _),
        socket.create_server(("0.0.0.0", OPEN_PORT)) as program,
    ):
        program.settimeout(0)
        services().apply(
            [Balanced(Frontend(FIRST, "TCP", 80), ways(0)), Balanced(Frontend(SECOND, "TCP", 80), ways(1))]
        )
        assert addresses().apply([FIRST, SECOND]) == {}
        assert marked() == [(FIRST, 32), (SECOND, 32)]

        def from_outside(address: str, port: int = 80) -> list[str]:
            return run_in_netns(netns_path(outside), lambda: ask(address, port))

        assert from_outside(FIRST) == ["0", there]
        assert from_outside(SECOND) == ["1", there]
        # Guests and the host reach it as well.
        assert run_in_netns(netns_path(pod(1)), lambda: ask(FIRST))[0] == "0"
        assert ask(FIRST)[0] == "0"
        assert reaches(outside, FIRST)
        # A program of the host that listens everywhere is at the host's own address, and not at a Service's.
        run_in_netns(netns_path(outside), lambda: socket.create_connection((here, OPEN_PORT), 3).close())
        for refused in (lambda: from_outside(FIRST, OPEN_PORT), lambda: ask(FIRST, OPEN_PORT)):
            with pytest.raises(ConnectionRefusedError):
                refused()
        # The host speaks by its own address as before.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            opened.connect((there, 9))
            assert opened.getsockname()[0] == here


@on_a_host_of_its_own
def test_a_policy_judges_who_comes_by_an_address_of_the_pool_by_their_own() -> None:
    there = STRANGERS["one"][1]
    with pods(0), two_networks(node_config()) as (outside, _):
        services().apply([Balanced(Frontend(FIRST, "TCP", 80), ways(0))])
        addresses().apply([FIRST])
        port = port_name(node_config().bridge, pod(0))

        def allow(source: str) -> None:
            passage = Passage(socket.IPPROTO_TCP, 8080, 8080, at(source))
            PolicyNetwork(node_config()).apply([PodTraffic(ADDRESSES[0], port, (passage,), None)])

        def connects() -> bool:
            try:
                socket.create_connection((FIRST, 80), 0.5).close()
            except OSError:
                return False
            return True

        allow("198.51.100.77")
        assert not run_in_netns(netns_path(outside), connects)
        allow(there)
        assert run_in_netns(netns_path(outside), connects)


@on_a_host_of_its_own
def test_addresses_come_back_when_others_take_them_off_and_go_with_their_service_and_with_the_box() -> None:
    before = host_state()
    # The box's own namespaces go with it, and with them the links of the host that lead there.
    neighbours = replace(node_config(), netns_prefix=f"{node_config().netns_prefix.rstrip('-')}o-")
    with pods(0), two_networks(neighbours) as (outside, _):
        services().apply([Balanced(Frontend(FIRST, "TCP", 80), ways(0))])
        with Links() as links:
            addresses().apply([FIRST])
            links.delete_address("s-one", FIRST, 32)
            addresses().apply([FIRST])
            assert marked() == [(FIRST, 32)]
            # Another box's, and one that somebody gave the host, are left alone.
            links.add_side_address("s-one", "198.51.100.150", address_mark(node_config().bridge) ^ 1)
            links.add_address("s-one", "198.51.100.151", 32)
            addresses().apply([])
            assert marked() == []
            assert not reaches(outside, FIRST)
            addresses().apply([FIRST, SECOND])
            remove_node_network(node_config())
            assert marked() == []
            left = {each.address for each in links.list_addresses()}
        assert {"198.51.100.150", "198.51.100.151", STRANGERS["one"][0]} <= left
    with Links() as links:
        links.delete("s-one")
        links.delete("s-two")
    assert host_state() == before


@on_a_host_of_its_own
def test_what_the_host_has_itself_is_no_pool() -> None:
    with two_networks(node_config()):
        PoolAddresses(node_config().bridge, POOL).check()
        with pytest.raises(OverlapError, match=r"load-balancer-pool has 198\.51\.100\.1 of s-one"):
            PoolAddresses(node_config().bridge, address_pool("198.51.100.1-198.51.100.9")).check()
        with pytest.raises(OverlapError, match=r"192\.0\.2\.1, this host's router"):
            PoolAddresses(node_config().bridge, address_pool("192.0.2.1")).check()


@on_a_host_of_its_own
def test_a_neighbour_finds_a_service_of_ipv6_by_nd_and_one_that_has_the_address_already_is_told() -> None:
    first, second = "2001:db8:99::100", "2001:db8:99::101"
    pool = address_pool(f"{first}-{second}")
    with (
        two_pods() as (config, _, other),
        neighbour(config, knows=False) as outside,
        answering_ipv6(other, of(config, 12), 2),
        socket.create_server(("::", OPEN_PORT), family=socket.AF_INET6),
    ):
        # As on every host; the neighbours of other tests have no time for it.
        write_sysctl("ipv6/conf/outside/accept_dad", "1")
        run_in_netns(netns_path(outside), lambda: _give(second))
        ServiceNetworks(
            [
                ServiceNetworkConfig(
                    bridge=config.bridge,
                    pod_cidr=config.ipv6_cidr,
                    service_cidr="fd78:1::/112",
                    table=table_name(config.table),
                    pool=pool.ranges,
                )
            ]
        ).apply([Balanced(Frontend(first, "TCP", 80), ((of(config, 12), 8080),))])
        own = PoolAddresses(config.bridge, pool)
        assert own.apply([first, second]) == {}
        # The kernel asks the link before it takes an address.
        wait_until(lambda: own.apply([first, second]) != {}, "the duplicate is seen")
        assert "another host on outside has" in own.apply([first, second])[second]
        wait_until(lambda: _asked(lambda: ask_from(outside, first, 80)) == f"2 {OUTSIDE}", "the neighbour is answered")
        with pytest.raises(ConnectionRefusedError):
            ask_from(outside, first, OPEN_PORT)
        # Of all its addresses the host still speaks by its own.
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as opened:
            opened.connect((OUTSIDE, 9))
            assert opened.getsockname()[0] == HOST_OUTSIDE


def _give(address: str) -> None:
    with Links() as links:
        links.add_side_address("eth0", address, 64)


def _asked(work: Callable[[], str]) -> str:
    try:
        return work()
    except OSError:
        return ""
