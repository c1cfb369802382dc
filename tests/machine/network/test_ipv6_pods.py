"""The IPv6 network of one box with real packets: who reaches whom, under which address, and what the host becomes."""

from __future__ import annotations

import errno
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_RA, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.binding.masquerade_binding import masquerade_pod_interface
from kvedge.network.binding.router_socket import router_of
from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.pods.pod_network import attach_pod, detach_pod, ensure_node_network, heal_node_network
from kvedge.network.sysctls import read_sysctl, write_sysctl
from kvedge.resources.masquerade import guest_subnet
from kvedge.resources.types.volumes import Network, PodNetwork
from tests.machine.network.frames import wire
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.machine.network.test_pod_network import ADDRESSES, MACS, ping, ruleset
from tests.support.pictures import ip_json
from tests.support.pod_world import node_config, node_network
from tests.support.values import replace
from tests.support.waiting import wait_until

OF_THE_SITE = "2001:db8:77:1::/64"
OF_NOBODY_ELSE = "fd77:1::/64"
FORWARDING = "ipv6/conf/all/forwarding"
OUTSIDE, HOST_OUTSIDE = "2001:db8:99::2", "2001:db8:99::1"


def of(config: NodeNetworkConfig, place: int) -> str:
    return f"{config.ipv6_cidr.removesuffix('/64')}{place:x}"


@contextmanager
def two_pods(ipv6_cidr: str = OF_THE_SITE) -> Iterator[tuple[NodeNetworkConfig, str, str]]:
    """A node network with IPv6 and two Pods, on a host whose IPv6 is as a host has it."""
    config = node_config(ipv6_cidr=ipv6_cidr)
    with node_network(config):
        names = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for place, (name, address, mac) in enumerate(zip(names, ADDRESSES, MACS, strict=True), start=11):
            attach_pod(config, name, address, mac, of(config, place))
        yield config, names[0], names[1]


@contextmanager
def neighbour(config: NodeNetworkConfig, *, knows: bool) -> Iterator[str]:
    """A neighbour of the host on a link of its own; one that `knows` has a route to the Pods, as a site's router."""
    name = f"{config.netns_prefix}outside"
    path = create_netns(name)
    with Links() as links:
        links.add_veth("outside", "eth0", path, peer_mac="52:54:00:77:03:01", mtu=1500)
        write_sysctl("ipv6/conf/outside/accept_dad", "0")
        links.add_address("outside", HOST_OUTSIDE, 64)
        links.set("outside", state="up")

    def inside() -> None:
        write_sysctl("ipv6/conf/eth0/accept_dad", "0")
        with Links() as links:
            links.add_address("eth0", OUTSIDE, 64)
            links.set("eth0", state="up")
            if knows:
                links.add_route(config.ipv6_cidr, HOST_OUTSIDE, "eth0")

    run_in_netns(path, inside)
    try:
        yield name
    finally:
        with Links() as links:
            links.delete("outside")
        delete_netns(name)


def source_seen(asking: str, listening: str, address: str) -> str:
    """Who a connection comes from, as its other end sees it."""
    server = run_in_netns(netns_path(listening), lambda: listening_at(address))
    client = run_in_netns(netns_path(asking), lambda: socket.create_connection((address, 8080), timeout=5))
    with server, client:
        server.settimeout(5)
        accepted, peer = server.accept()
        accepted.close()
    return str(peer[0])


def listening_at(address: str, port: int = 8080) -> socket.socket:
    """A server; the kernel gives an address a moment after its link is up."""
    end = time.monotonic() + 10
    while True:
        try:
            return socket.create_server((address, port), family=socket.AF_INET6)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or time.monotonic() > end:
                raise
        time.sleep(0.1)


@on_a_host_of_its_own
def test_pods_reach_each_other_their_gateway_and_the_host_by_ipv6() -> None:
    with two_pods() as (config, one, other):
        assert ping(one, of(config, 1))
        assert source_seen(one, other, of(config, 12)) == of(config, 11)
        assert ping(one, ADDRESSES[1])
        answered = subprocess.run(["busybox", "ping", "-6", "-c1", "-W2", of(config, 11)], check=False)
        assert answered.returncode == 0
        routes = {route["dst"]: route.get("gateway") for route in ip_json(one, "-6", "route")}
        assert routes["default"] == of(config, 1)


@on_a_host_of_its_own
def test_a_prefix_of_the_site_is_routed_and_pods_are_reached_by_their_own_addresses() -> None:
    with two_pods() as (config, one, _), neighbour(config, knows=True) as outside:
        assert source_seen(one, outside, OUTSIDE) == of(config, 11)
        assert source_seen(outside, one, of(config, 11)) == OUTSIDE
        # Nobody has it: the host does not look for it.
        assert not ping(outside, of(config, 99))


@on_a_host_of_its_own
def test_a_prefix_that_no_other_knows_is_behind_the_hosts_address() -> None:
    with two_pods(OF_NOBODY_ELSE) as (config, one, other), neighbour(config, knows=False) as outside:
        assert source_seen(one, outside, OUTSIDE) == HOST_OUTSIDE
        assert source_seen(one, other, of(config, 12)) == of(config, 11)


@on_a_host_of_its_own
def test_the_host_goes_on_believing_its_own_router_and_is_what_it_was_in_the_end() -> None:
    write_sysctl("ipv6/conf/uplink/accept_ra", "1")
    before = settings()
    with node_network(node_config(ipv6_cidr=OF_THE_SITE)) as config:
        assert read_sysctl(FORWARDING) == "1"
        assert read_sysctl("ipv6/conf/uplink/forwarding") == "0"
        assert read_sysctl("ipv6/conf/uplink/accept_ra") == "1"
        assert read_sysctl("ipv6/conf/default/forwarding") == "0"
        assert heal_node_network(config).healed == ()
        write_sysctl(FORWARDING, "0")
        assert heal_node_network(config).healed == ("IPv6 was not forwarded",)
        assert read_sysctl(FORWARDING) == "1"
    assert settings() == before
    assert "ip6" not in ruleset()


def settings() -> list[str | None]:
    links, names = ("all", "default", "uplink", "lo"), ("forwarding", "accept_ra")
    return [read_sysctl(f"ipv6/conf/{link}/{name}") for link in links for name in names]


@on_a_host_of_its_own
def test_the_way_out_that_a_router_told_the_host_of_stays() -> None:
    config = node_config(ipv6_cidr=OF_THE_SITE)
    told = Ether(src="52:54:00:77:03:01", dst="33:33:00:00:00:01") / IPv6(src="fe80::77", dst="ff02::1")
    with neighbour(config, knows=False) as outside:
        write_sysctl("ipv6/conf/outside/accept_ra", "1")
        with wire(outside, "eth0") as router:

            def has_router() -> bool:
                # Again and again, as routers do: the host's end of the link may not have been up.
                router.send(told / ICMPv6ND_RA(routerlifetime=1800))
                return by_ipv6("default") != []

            wait_until(has_router, "the host has its router", pause=0.5)
            with node_network(config):
                assert [route["gateway"] for route in by_ipv6("default")] == ["fe80::77"]
                # It is heard as before: this router says that it is none any more.
                router.send(told / ICMPv6ND_RA(routerlifetime=0))
                wait_until(lambda: by_ipv6("default") == [], "the host hears its router")


def by_ipv6(destination: str) -> list[dict[str, object]]:
    return [route for route in ip_json(None, "-6", "route") if route["dst"] == destination]


@on_a_host_of_its_own
def test_a_host_with_two_ipv6_networks_is_no_router_for_strangers() -> None:
    with two_pods() as (config, one, _), neighbour(config, knows=True) as outside:
        with Links() as links:
            links.add_address("uplink", "2001:db8:55::1", 64)
        stranger = f"{config.netns_prefix}stranger"
        path = create_netns(stranger)
        with Links() as links:
            links.add_veth("stranger", "eth0", path, peer_mac="52:54:00:77:03:02", mtu=1500)
            write_sysctl("ipv6/conf/stranger/accept_dad", "0")
            links.add_address("stranger", "2001:db8:98::1", 64)
            links.set("stranger", state="up")

        def inside() -> None:
            write_sysctl("ipv6/conf/eth0/accept_dad", "0")
            with Links() as links:
                links.add_address("eth0", "2001:db8:98::2", 64)
                links.set("eth0", state="up")
                links.add_route("::/0", "2001:db8:98::1", "eth0")

        run_in_netns(path, inside)
        try:
            assert ping(stranger, of(config, 11))
            run_in_netns(netns_path(outside), _route_back)
            assert not ping(stranger, OUTSIDE)
            assert ping(one, OUTSIDE)
        finally:
            delete_netns(stranger)


def _route_back() -> None:
    with Links() as links:
        links.add_route("2001:db8:98::/64", HOST_OUTSIDE, "eth0")


@pytest.mark.parametrize("what", ["source", "neighbour", "gateway", "router", "router's address"])
@on_a_host_of_its_own
def test_a_pod_says_nothing_that_is_another_s(what: str) -> None:
    with two_pods() as (config, one, other):
        gateway, victim, own = of(config, 1), of(config, 99), of(config, 11)
        said: Packet = {
            "source": IPv6(src=victim, dst=of(config, 12)),
            "neighbour": IPv6(src=own, dst="ff02::1") / ICMPv6ND_NA(tgt=victim) / ICMPv6NDOptDstLLAddr(lladdr=MACS[0]),
            "gateway": IPv6(src=own, dst="ff02::1") / ICMPv6ND_NA(tgt=gateway) / ICMPv6NDOptDstLLAddr(lladdr=MACS[0]),
            "router": IPv6(src="fe80::bad", dst="ff02::1") / ICMPv6ND_RA(),
            "router's address": IPv6(src="fe80::1", dst="ff02::1"),
        }[what]
        honest = IPv6(src=own, dst="ff02::1") / ICMPv6ND_NA(tgt=own) / ICMPv6NDOptDstLLAddr(lladdr=MACS[0])
        with wire(one, "eth0") as sender, wire(other, "eth0") as hears:
            for packet in (said, honest):
                sender.send(Ether(src=MACS[0], dst="33:33:00:00:00:01") / packet)
            first = hears.first(lambda frame: IPv6 in frame and frame.src == MACS[0])
        assert first is not None
        assert ICMPv6ND_NA in first
        assert first[ICMPv6ND_NA].tgt == own


@on_a_host_of_its_own
def test_a_bound_guest_is_told_its_one_address_and_the_nodes_router(tmp_path: Path) -> None:
    with two_pods() as (config, one, other):
        bound = bind_pod_interface(netns_path(one), record=tmp_path / "one")
        assert bound.ipv6 is not None
        assert (bound.ipv6.address, bound.ipv6.gateway, bound.ipv6.is_default) == (of(config, 11), of(config, 1), True)
        assert bound.ipv6.subnet == config.ipv6_cidr
        assert router_of(bound.ipv6.gateway, bound.peer_index) == "fe80::1"
        subnets = {version: guest_subnet(Network(name="default", pod=PodNetwork()), version) for version in (4, 6)}
        translated = masquerade_pod_interface(netns_path(other), guest_mac=MACS[1], subnets=subnets)
        assert translated.pod_addresses == (ADDRESSES[1], of(config, 12))


@on_a_host_of_its_own
def test_a_range_that_the_host_uses_elsewhere_is_refused_and_a_pod_gives_its_address_back() -> None:
    with Links() as links:
        links.add_address("uplink", "2001:db8:77:1::5", 64)
    with pytest.raises(OverlapError, match="2001:db8:77:1::/64 of uplink"):
        ensure_node_network(node_config(ipv6_cidr="2001:db8:77:1:8000::/80"))
    with two_pods(OF_NOBODY_ELSE) as (config, one, _):
        detach_pod(config, one)
        assert "fd77:1::b " not in ruleset()
        assert "fd77:1::c" in ruleset()
        # The same box, started anew without IPv6.
        ensure_node_network(replace(config, ipv6_cidr=""))
        assert "table ip6" not in ruleset()
        assert read_sysctl(FORWARDING) == "0"


@on_a_host_of_its_own
def test_a_host_whose_uplink_is_too_small_for_ipv6_says_so() -> None:
    with pytest.raises(NetworkError, match="IPv6 needs an MTU of 1280"):
        ensure_node_network(replace(node_config(ipv6_cidr=OF_THE_SITE), mtu=1200))
