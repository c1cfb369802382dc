"""NetworkPolicies with real packets: between Pods on one bridge, from outside, through Services, and from liars.

What Pods say to each other is tried with sockets that listen and never answer: a connection is there or is not.
"""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Address
from typing import TypeVar

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.nft.nft_edge import list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import POD_INTERFACE, policy_table_name, port_name, stable_mac
from kvedge.network.pods.pod_network import attach_pod
from kvedge.network.policies.address_ranges import EVERYWHERE
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.policies.policy_rules import PORTLESS, Passage, PodTraffic, Traffic
from kvedge.network.services.service_network import ServiceNetwork
from kvedge.network.services.service_rules import ANY_OWN, Balanced, Frontend
from kvedge.network.sysctls import read_sysctl, write_sysctl
from tests.machine.network.dhcp_clients import needs
from tests.machine.network.frames import BROADCAST, wire
from tests.machine.network.own_host import host_state, on_a_host_of_its_own
from tests.machine.network.test_forwarding import STRANGERS, two_networks
from tests.machine.network.test_pod_network import ping
from tests.machine.network.test_service_network import service_config
from tests.support.pod_world import node_config, node_network

T = TypeVar("T")
ADDRESSES = ("10.201.77.21", "10.201.77.22", "10.201.77.23")
MACS = ("52:54:00:77:22:01", "52:54:00:77:22:02", "52:54:00:77:22:03")
WEB, OTHER = 8080, 8081
TCP, UDP_NUMBER = 6, 17
# What does not come is waited for that long; what comes is there at once.
SECONDS = 0.5
SERVICE = "10.244.0.9"
BRIDGED = "bridge/bridge-nf-call-iptables"


def pod(number: int) -> str:
    return f"{node_config().netns_prefix}{number}"


def inside(number: int, work: Callable[[], T]) -> T:
    return run_in_netns(netns_path(pod(number)), work)


@contextmanager
def pods() -> Iterator[PolicyNetwork]:
    """Three Pods that listen at two ports each, and the policies of their box: none so far."""
    config = node_config()
    with node_network(config), ExitStack() as stack:
        for number, (address, mac) in enumerate(zip(ADDRESSES, MACS, strict=True)):
            attach_pod(config, pod(number), address, mac)
            for port in (WEB, OTHER):
                listening = inside(number, lambda at=(address, port): socket.create_server(at, backlog=100))  # type: ignore[misc]
                stack.enter_context(listening)
        yield PolicyNetwork(config)


def traffic(number: int, ingress: Traffic | None = None, egress: Traffic | None = None) -> PodTraffic:
    return PodTraffic(ADDRESSES[number], port_name(node_config().bridge, pod(number)), ingress, egress)


def at(*addresses: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(IPv4Address(each)), int(IPv4Address(each))) for each in sorted(addresses))


def everything(*addresses: str) -> Traffic:
    """All protocols, with these; with everybody where none is named."""
    peers = at(*addresses) if addresses else EVERYWHERE
    whole = [Passage(protocol, 0, 65535, peers) for protocol in (TCP, UDP_NUMBER, 132)]
    return (Passage(PORTLESS, 0, 0, peers), *whole)


def connects(address: str, port: int = WEB, seconds: float = 20.0) -> bool:
    try:
        with socket.create_connection((address, port), seconds):
            return True
    except TimeoutError:
        return False


def fails(address: str, port: int = WEB) -> bool:
    return not connects(address, port, SECONDS)


def reaches(source: int, target: int, port: int = WEB) -> bool:
    return inside(source, lambda: connects(ADDRESSES[target], port))


def misses(source: int, target: int, port: int = WEB) -> bool:
    return inside(source, lambda: fails(ADDRESSES[target], port))


@on_a_host_of_its_own
def test_an_isolated_pod_is_reached_by_its_node_and_by_whom_a_policy_names() -> None:
    with pods() as policies:
        assert reaches(2, 1)
        policies.apply([traffic(0), traffic(1, ingress=()), traffic(2)])
        assert misses(0, 1)
        assert misses(2, 1)
        # Probes come from the node; what the Pod itself begins, and the answers to that, are not ingress.
        assert connects(ADDRESSES[1])
        assert reaches(1, 0)
        assert ping(pod(1), ADDRESSES[0])
        # Neighbours among themselves have nothing to do with it.
        assert reaches(0, 2)
        policies.apply([traffic(0), traffic(1, ingress=(Passage(TCP, WEB, WEB, at(ADDRESSES[0])),)), traffic(2)])
        assert reaches(0, 1)
        assert misses(0, 1, OTHER)
        assert misses(2, 1)
        assert not ping(pod(0), ADDRESSES[1])
        policies.apply([traffic(0), traffic(1, ingress=everything(ADDRESSES[2])), traffic(2)])
        assert misses(0, 1)
        assert reaches(2, 1)
        assert reaches(2, 1, OTHER)
        assert ping(pod(2), ADDRESSES[1])
        assert policies.remove()
        assert reaches(0, 1)


@on_a_host_of_its_own
def test_an_isolated_pod_reaches_its_node_and_what_a_policy_names() -> None:
    here, there = STRANGERS["one"]
    with pods() as policies, two_networks(node_config()) as (outside, _), socket.create_server((here, WEB)):
        stranger = run_in_netns(netns_path(outside), lambda: socket.create_server((there, WEB)))
        with stranger:
            policies.apply([traffic(0, egress=()), traffic(1), traffic(2)])
            assert inside(0, lambda: fails(there))
            assert misses(0, 1)
            assert inside(0, lambda: connects(here))
            assert reaches(1, 0)
            policies.apply([traffic(0, egress=(Passage(TCP, 8000, WEB, at(there)),)), traffic(1), traffic(2)])
            assert inside(0, lambda: connects(there))
            assert misses(0, 1)
            # Both ends have a say.
            policies.apply([traffic(0, egress=everything()), traffic(1, ingress=()), traffic(2)])
            assert misses(0, 1)
            assert reaches(0, 2)


@on_a_host_of_its_own
def test_clients_from_outside_are_judged_by_their_own_address() -> None:
    here, there = STRANGERS["one"]
    with pods() as policies, two_networks(node_config()) as (outside, _):
        ServiceNetwork(service_config()).apply([Balanced(Frontend(ANY_OWN, "TCP", 30080), ((ADDRESSES[0], WEB),))])

        def from_outside(work: Callable[..., bool]) -> bool:
            return run_in_netns(netns_path(outside), lambda: work(here, 30080))

        policies.apply([traffic(0, ingress=everything(ADDRESSES[1])), traffic(1), traffic(2)])
        assert from_outside(fails)
        policies.apply([traffic(0, ingress=(Passage(TCP, WEB, WEB, at(there)),)), traffic(1), traffic(2)])
        assert from_outside(connects)


@pytest.mark.parametrize("bridged", ["0", "1"], ids=["as is", "where bridged frames are filtered"])
@on_a_host_of_its_own
def test_behind_a_service_the_endpoint_counts_and_who_really_asks(bridged: str) -> None:
    if read_sysctl(BRIDGED) is None:
        pytest.skip("this kernel has no br_netfilter: load it")
    write_sysctl(BRIDGED, bridged)
    with pods() as policies:
        service = Balanced(Frontend(SERVICE, "TCP", 80), ((ADDRESSES[1], WEB),))
        ServiceNetwork(service_config()).apply([service])

        def asks(number: int) -> bool:
            return inside(number, lambda: connects(SERVICE, 80))

        def is_left_alone(number: int) -> bool:
            return inside(number, lambda: fails(SERVICE, 80))

        assert asks(0)
        for policy in (
            [traffic(0), traffic(1, ingress=(Passage(TCP, WEB, WEB, at(ADDRESSES[0])),)), traffic(2, egress=())],
            [traffic(0, egress=(Passage(TCP, WEB, WEB, at(ADDRESSES[1])),)), traffic(1), traffic(2, egress=())],
        ):
            policies.apply(policy)
            assert asks(0)
            assert is_left_alone(2)
            # The Service's own port and address are nothing that a policy is about.
            assert reaches(0, 1)
        policies.apply([traffic(0), traffic(1, ingress=everything(ADDRESSES[0])), traffic(2)])
        assert asks(0)
        assert is_left_alone(2)
        # A Pod that reaches itself.
        assert asks(1)


@on_a_host_of_its_own
def test_what_is_connected_stays_so_through_changes_and_new_starts() -> None:
    with pods() as policies:
        allowed = [traffic(0), traffic(1, ingress=everything(ADDRESSES[0])), traffic(2)]
        closed = [traffic(0), traffic(1, ingress=()), traffic(2)]
        policies.apply(allowed)
        listening = inside(1, lambda: socket.create_server((ADDRESSES[1], 9000)))
        with listening, inside(0, lambda: socket.create_connection((ADDRESSES[1], 9000), 5)) as stream:
            answering, _ = listening.accept()
            answering.settimeout(5)
            changes: list[Callable[[], object]] = [
                lambda: policies.apply(closed),
                # The daemon starts anew.
                lambda: PolicyNetwork(node_config()).apply(closed),
                policies.remove,
                lambda: policies.apply(closed),
            ]
            with answering:
                for number, change in enumerate(changes):
                    change()
                    stream.sendall(b"%d" % number)
                    assert answering.recv(10) == b"%d" % number
        assert misses(0, 1)


@on_a_host_of_its_own
def test_a_pod_that_the_policies_do_not_know_yet_is_cut_off() -> None:
    with pods() as policies:
        policies.apply([traffic(0), traffic(1, ingress=())])
        assert misses(2, 0)
        assert misses(0, 2)
        assert connects(ADDRESSES[2])
        policies.apply([traffic(0), traffic(1, ingress=()), traffic(2)])
        assert reaches(2, 0)
        assert reaches(0, 2)
        assert misses(2, 1)


@on_a_host_of_its_own
def test_there_is_no_moment_without_rules() -> None:
    with pods() as policies, inside(1, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listening:
        listening.bind((ADDRESSES[1], 9000))
        closed = [traffic(0), traffic(1, ingress=()), traffic(2)]
        other = [traffic(0, egress=everything(ADDRESSES[2])), traffic(1, ingress=everything(ADDRESSES[2])), traffic(2)]
        policies.apply(closed)
        ended, sent = threading.Event(), []

        def flood() -> None:
            with inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asking:
                while not ended.is_set():
                    # The host may refuse to take more for a moment.
                    with suppress(OSError):
                        sent.append(asking.sendto(b"x", (ADDRESSES[1], 9000)))

        sending = threading.Thread(target=flood, daemon=True)
        sending.start()
        try:
            for _ in range(5):
                policies.apply(other)
                policies.apply(closed)
                policies = PolicyNetwork(node_config())
                policies.apply(closed)
        finally:
            ended.set()
            sending.join()
        assert len(sent) > 100
        listening.settimeout(SECONDS)
        with pytest.raises(TimeoutError):
            listening.recv(10)
        policies.apply([traffic(0), traffic(1), traffic(2)])
        with inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asking:
            asking.sendto(b"y", (ADDRESSES[1], 9000))
        listening.settimeout(5)
        assert listening.recv(10) == b"y"


@on_a_host_of_its_own
def test_no_frame_gets_round_the_policies() -> None:
    with pods() as policies:
        policies.apply([traffic(0, egress=()), traffic(1, ingress=()), traffic(2)])
        bridge = stable_mac(node_config().bridge)
        liars = [
            # From an isolated Pod: straight to its neighbour's MAC, under another's address, as broadcast, and to an
            # address of elsewhere that the neighbour would take.
            (0, MACS[2], ADDRESSES[0], ADDRESSES[2]),
            (0, MACS[2], ADDRESSES[1], ADDRESSES[2]),
            (0, BROADCAST, ADDRESSES[0], ADDRESSES[2]),
            (0, MACS[2], ADDRESSES[0], "198.51.100.1"),
            (0, bridge, ADDRESSES[0], ADDRESSES[2]),
            # To an isolated Pod, from one that is free.
            (2, MACS[1], ADDRESSES[2], ADDRESSES[1]),
            (2, MACS[1], ADDRESSES[0], ADDRESSES[1]),
            (2, BROADCAST, ADDRESSES[2], "255.255.255.255"),
            (2, MACS[1], ADDRESSES[2], "198.51.100.1"),
            (2, bridge, ADDRESSES[2], ADDRESSES[1]),
        ]
        with ExitStack() as stack:
            wires = [stack.enter_context(wire(pod(number), POD_INTERFACE)) for number in range(3)]
            for at_, (number, mac, source, target) in enumerate(liars):
                frame = Ether(src=MACS[number], dst=mac) / IP(src=source, dst=target) / UDP(sport=4, dport=5) / b"liar"
                wires[number].send(frame / bytes([at_]))
            # What is allowed comes behind them, in order.
            honest = IP(src=ADDRESSES[2], dst=ADDRESSES[0]) / UDP(sport=6, dport=7) / b"honest"
            wires[2].send(Ether(src=MACS[2], dst=MACS[0]) / honest)
            assert wires[0].first(lambda frame: b"honest" in bytes(frame))
            for number, told in ((1, wires[1]), (2, wires[2])):
                found = told.first(lambda frame: b"liar" in bytes(frame), SECONDS)
                assert found is None, (number, found)


@on_a_host_of_its_own
def test_what_others_undo_is_put_back_and_nothing_is_left_in_the_end() -> None:
    needs("nft", "nftables")
    before, name = host_state(), policy_table_name(node_config().table)
    with pods() as policies:
        closed = [traffic(0), traffic(1, ingress=()), traffic(2)]
        assert not policies.is_there()
        assert policies.apply(closed)
        assert policies.is_there()
        assert not policies.apply(closed)
        for undo in (
            ["nft", "delete", "table", "ip", name],
            ["nft", "flush", "chain", "bridge", name, "coming"],
            ["nft", "flush", "ruleset"],
        ):
            subprocess.run(undo, check=True)
            assert policies.apply(closed)
            assert not policies.apply(closed)
            assert misses(0, 1)
        # Others read all tables of a host.
        for line in (["nft", "list", "ruleset"], ["nft", "-j", "list", "ruleset"]):
            told = subprocess.run(line, check=True, capture_output=True, text=True).stdout
            assert name in told
        assert json.loads(told)["nftables"]
    assert host_state() == before
    assert [list_tables(family, name) for family in (Family.IP, Family.BRIDGE)] == [[], []]


@on_a_host_of_its_own
def test_a_thousand_policies_are_one_transaction() -> None:
    with pods() as policies:
        many = [
            PodTraffic(
                f"10.201.77.{number}",
                f"none{number}",
                tuple(Passage(TCP, port, port, at(f"10.{number}.{port}.1")) for port in range(1, 101)),
            )
            for number in range(100, 200)
        ]
        policies.apply([traffic(0), traffic(1, ingress=everything(ADDRESSES[0])), traffic(2), *many])
        assert reaches(0, 1)
        assert misses(2, 1)
