"""NetworkPolicies by IPv6 with real packets: between Pods on a bridge, from and to outside, by Services, by liars."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.attachments import NodeNetworkConfig, policy_table_name, port_name, stable_mac
from kvedge.network.policies.address_ranges import number_of
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.policies.policy_rules import Passage, PodTraffic, Traffic
from kvedge.network.services.service_rules import Balanced
from tests.machine.network.dhcp_clients import needs
from tests.machine.network.frames import wire
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.machine.network.test_ipv6_pods import OUTSIDE, listening_at, neighbour, of, two_pods
from tests.machine.network.test_ipv6_services import ADDRESS, WEB, networks
from tests.machine.network.test_pod_network import ADDRESSES, MACS, ping
from tests.machine.network.test_policy_network import SECONDS, connects, everything, fails
from tests.support.pod_world import node_config

TCP, PORT, OTHER_PORT = 6, 8080, 8081


class Box:
    """Two Pods and a neighbour of the host, which know each other's addresses and listen; and policies, none so far."""

    def __init__(self, config: NodeNetworkConfig, one: str, other: str, outside: str) -> None:
        self.names = (one, other, outside)
        self.addresses = (of(config, 11), of(config, 12), OUTSIDE)
        self.ports = (port_name(config.bridge, one), port_name(config.bridge, other))
        self.bridge = stable_mac(config.bridge)
        self.policies = PolicyNetwork(config)

    def put(self, one: dict[str, Traffic], other: dict[str, Traffic]) -> None:
        """Enforces that of the first and of the second Pod."""
        pods = zip(ADDRESSES, self.ports, self.addresses, (one, other), strict=False)
        self.policies.apply(PodTraffic(v4, port, ipv6_address=v6, **said) for v4, port, v6, said in pods)

    def does(self, work: Callable[..., bool], number: int, target: int, port: int = PORT) -> bool:
        return run_in_netns(netns_path(self.names[number]), lambda: work(self.addresses[target], port))


@contextmanager
def box() -> Iterator[Box]:
    with two_pods() as (config, one, other), neighbour(config, knows=True) as outside, ExitStack() as stack:
        found = Box(config, one, other, outside)
        for name, address in zip(found.names, found.addresses, strict=True):
            for port in (PORT, OTHER_PORT):
                listen = partial(listening_at, address, port)
                stack.enter_context(run_in_netns(netns_path(name), listen))
        yield found


def web(*addresses: str) -> Traffic:
    return (Passage(TCP, PORT, PORT, tuple(sorted((number_of(each), number_of(each)) for each in addresses))),)


@on_a_host_of_its_own
def test_what_reaches_a_pod_by_ipv6_is_what_its_policies_say() -> None:
    with box() as found:
        one, _, outside = found.addresses
        found.put({}, {"ingress": ()})
        assert found.does(fails, 0, 1)
        assert found.does(fails, 2, 1)
        # Its node reaches it, and what it begins itself is answered.
        assert connects(found.addresses[1], PORT)
        assert found.does(connects, 1, 0)
        assert ping(found.names[1], one)
        found.put({}, {"ingress": web(one)})
        assert found.does(connects, 0, 1)
        assert found.does(fails, 0, 1, OTHER_PORT)
        assert found.does(fails, 2, 1)
        found.put({}, {"ingress": web(outside)})
        assert found.does(connects, 2, 1)
        assert found.does(fails, 0, 1)
        # Others read all tables of a host.
        told = subprocess.run([needs("nft", "nftables"), "list", "ruleset"], check=True, capture_output=True, text=True)
        assert f"table ip6 {policy_table_name(node_config().table)}" in told.stdout
        # An address of IPv4 is nobody's here; everybody is all of both versions.
        found.put({}, {"ingress": everything(ADDRESSES[0])})
        assert found.does(fails, 0, 1)
        found.put({}, {"ingress": everything()})
        assert found.does(connects, 0, 1)
        assert ping(found.names[0], found.addresses[1])


@on_a_host_of_its_own
def test_what_leaves_a_pod_by_ipv6_is_what_its_policies_say() -> None:
    with box() as found:
        _, other, outside = found.addresses
        found.put({"egress": ()}, {})
        assert found.does(fails, 0, 1)
        assert found.does(fails, 0, 2)
        assert found.does(connects, 1, 0)
        found.put({"egress": web(outside)}, {})
        assert found.does(connects, 0, 2)
        assert found.does(fails, 0, 1)
        # Both ends have a say.
        found.put({"egress": everything()}, {"ingress": ()})
        assert found.does(fails, 0, 1)
        found.put({"egress": web(other)}, {"ingress": web(found.addresses[0])})
        assert found.does(connects, 0, 1)
        # A Pod that the policies have not heard of yet.
        found.policies.apply([])
        assert found.does(fails, 0, 1)
        assert found.does(fails, 2, 1)
        assert found.does(fails, 1, 2)
        assert connects(other, PORT)


@on_a_host_of_its_own
def test_behind_a_service_of_ipv6_the_endpoint_counts_and_who_really_asks() -> None:
    with box() as found:
        one, other, _ = found.addresses
        networks().apply([Balanced(WEB, ((other, PORT),))])

        def asks(work: Callable[..., bool], number: int) -> bool:
            return run_in_netns(netns_path(found.names[number]), lambda: work(ADDRESS, 80))

        found.put({}, {"ingress": ()})
        assert asks(fails, 0)
        assert asks(connects, 1)
        found.put({"egress": web(other)}, {"ingress": web(one)})
        assert asks(connects, 0)
        found.put({"egress": web(ADDRESS)}, {})
        assert asks(fails, 0)


def is_liars(frame: Packet) -> bool:
    """Not an error about it, which its sender gets."""
    return IPv6 in frame and frame[IPv6].nh == 17 and b"liar" in bytes(frame)


@on_a_host_of_its_own
def test_no_frame_of_ipv6_gets_round_the_policies() -> None:
    with box() as found:
        one, other, _ = found.addresses
        everybody, all_nodes = "33:33:00:00:00:01", "ff02::1"
        found.put({"egress": ()}, {})
        leaving = [
            (0, MACS[1], one, other),
            (0, MACS[1], "fe80::77", other),
            (0, MACS[1], "fe80::77", "fe80::78"),
            (0, MACS[1], other, other),
            (0, MACS[1], one, "2001:db8:55::1"),
            (0, everybody, one, all_nodes),
            (0, everybody, "fe80::77", other),
            (0, found.bridge, "fe80::77", other),
        ]
        reaching = [
            (1, MACS[0], other, one),
            (1, MACS[0], "fe80::77", one),
            (1, MACS[0], other, "fe80::78"),
            (1, MACS[0], other, "2001:db8:55::1"),
            (1, everybody, other, all_nodes),
            (1, found.bridge, "fe80::77", one),
        ]
        with wire(found.names[0], "eth0") as first, wire(found.names[1], "eth0") as second:
            wires = (first, second)
            for policy, liars, told in (({"egress": ()}, leaving, second), ({"ingress": ()}, reaching, first)):
                found.put(policy, {})
                for at, (number, mac, source, target) in enumerate(liars):
                    frame = Ether(src=MACS[number], dst=mac) / IPv6(src=source, dst=target) / UDP(sport=4, dport=5)
                    wires[number].send(frame / b"liar" / bytes([at]))
                got = told.first(is_liars, SECONDS)
                assert got is None, got
            # And such frames do arrive where nothing is against it.
            found.put({}, {})
            first.send(Ether(src=MACS[0], dst=MACS[1]) / IPv6(src=one, dst=other) / UDP(sport=4, dport=5) / b"honest")
            assert second.first(lambda frame: b"honest" in bytes(frame))
