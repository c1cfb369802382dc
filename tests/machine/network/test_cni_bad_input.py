"""Pods whose network is not what one hopes for: what is refused, what is cut, and what is said of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.layers.dhcp6 import DHCP6_Advertise
from scapy.layers.inet import UDP
from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6ND_RS, ICMPv6NDOptPrefixInfo, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.binding.router_socket import hand_router_socket, router_of
from kvedge.network.errors import NetworkError, UnsuitablePodError
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from tests.machine.network.cni_world import (
    DUAL,
    GATEWAY6,
    GUEST_MAC,
    IPV4,
    SUBNET6,
    CniNode,
    addresses_of,
    bound_pod,
    cni_pod,
)
from tests.machine.network.frames import dhcp_frame, is_dhcp, wire
from tests.machine.network.ipv6_world import Dhclient6, ipv6_lease, ipv6_server
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.support.pod_world import node_config, plug_guest
from tests.support.waiting import wait_until


def node_of(kind: str, families: str, directory: Path) -> CniNode:
    node = CniNode(kind, families, directory / "ipam")
    node.prepare_host()
    return node


def changed(pod: str, change: Callable[[Links], None]) -> None:
    """Does it to the Pod before it is bound."""

    def work() -> None:
        with Links() as links:
            change(links)

    run_in_netns(netns_path(pod), work)


class WithoutAddresses(CniNode):
    """A bridge of the LAN's kind: the plugin leaves the addresses to whoever is on it."""

    def config(self) -> dict[str, object]:
        """Without IPAM."""
        return {"cniVersion": "0.4.0", "name": "pods", "type": "bridge", "bridge": "cni0", "ipam": {}}


@on_a_host_of_its_own
def test_without_an_address_of_the_cni_the_guest_asks_the_link_itself_and_that_is_said(tmp_path: Path) -> None:
    node = WithoutAddresses("bridge", IPV4, tmp_path / "ipam")
    with bound_pod(node, tmp_path) as (world, _):
        assert world.bound.address == ""
        assert world.bound.shortfalls == ("the CNI gave the Pod's eth0 no address: nobody answers the guest's DHCP",)
        with wire(None, "cni0") as lan, wire(world.guest, "eth0") as guest:
            guest.send(dhcp_frame(GUEST_MAC, "discover"))
            assert lan.first(is_dhcp) is not None


@on_a_host_of_its_own
def test_of_several_addresses_the_guest_gets_the_first_and_that_is_said(tmp_path: Path) -> None:
    node = node_of("bridge", IPV4, tmp_path)
    with cni_pod(node, "pod") as (pod, answer):
        changed(pod, lambda links: links.add_address("eth0", "10.202.7.77", 24))
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        assert bound.address == addresses_of(answer)[0]
        assert ["10.202.7.77" in each for each in bound.shortfalls] == [True]


@on_a_host_of_its_own
def test_a_default_route_without_a_gateway_is_the_guests_as_well(tmp_path: Path) -> None:
    node = node_of("bridge", IPV4, tmp_path)
    with cni_pod(node, "pod") as (pod, _):
        subprocess.run(["ip", "-n", pod, "route", "replace", "default", "dev", "eth0"], check=True)
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        assert bound.gateway == ""
        assert [(each.destination, each.gateway) for each in bound.routes] == [("0.0.0.0/0", "0.0.0.0")]


@pytest.mark.parametrize(("mtu", "guest_mtu"), [(1200, 1200), (68, 68), (65535, 65521)])
@on_a_host_of_its_own
def test_any_mtu_of_the_pod_can_be_bound(mtu: int, guest_mtu: int, tmp_path: Path) -> None:
    node = node_of("ptp", DUAL, tmp_path)
    with cni_pod(node, "pod") as (pod, _):
        changed(pod, lambda links: links.set("eth0", mtu=mtu))
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        assert bound.mtu == guest_mtu
        assert (bound.ipv6 is None) is (mtu < 1280)
        assert bind_pod_interface(netns_path(pod), record=tmp_path / "r") == bound


@on_a_host_of_its_own
def test_a_namespace_that_is_gone_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="network namespace"):
        bind_pod_interface(netns_path("kvt-never-was"), record=tmp_path / "r")
    assert not (tmp_path / "r").exists()


@on_a_host_of_its_own
def test_the_nodes_own_network_is_never_bound(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="no Pod's network but the node's own"):
        bind_pod_interface(Path("/proc/thread-self/ns/net"), pod_interface="uplink", record=tmp_path / "r")
    assert not (tmp_path / "r").exists()


@on_a_host_of_its_own
def test_an_interface_without_a_mac_is_refused_with_a_remedy(tmp_path: Path) -> None:
    name = f"{node_config().netns_prefix}bare"
    path = create_netns(name)
    try:
        subprocess.run(["ip", "-n", name, "tuntap", "add", "dev", "eth0", "mode", "tun"], check=True)
        with pytest.raises(UnsuitablePodError, match="without a MAC that no guest's frames can pass; have a CNI"):
            bind_pod_interface(path, record=tmp_path / "r")
        assert not (tmp_path / "r").exists()
    finally:
        delete_netns(name)


@on_a_host_of_its_own
def test_an_ipvlan_is_refused_with_a_remedy(tmp_path: Path) -> None:
    name = f"{node_config().netns_prefix}ipvlan"
    path = create_netns(name)
    try:
        command = ["ip", "link", "add", "eth0", "link", "uplink", "netns", name, "type", "ipvlan"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if "not supported" in made.stderr or "Unknown device type" in made.stderr:
            pytest.skip("this kernel has no ipvlan: load it")
        assert made.returncode == 0, made.stderr
        with pytest.raises(UnsuitablePodError, match="ipvlan"):
            bind_pod_interface(path, record=tmp_path / "r")
    finally:
        delete_netns(name)


def advertised(*options: Packet) -> Packet:
    frame = Ether(dst="33:33:00:00:00:01") / IPv6(src="fe80::bad", dst="ff02::1", hlim=255) / ICMPv6ND_RA()
    for option in options:
        frame = frame / option
    return frame


@on_a_host_of_its_own
def test_no_neighbour_can_play_the_guests_router_or_its_dhcp_server(tmp_path: Path) -> None:
    node = node_of("bridge", DUAL, tmp_path)
    with bound_pod(node, tmp_path) as (world, _), cni_pod(node, "other") as (other, _):
        with wire(world.guest, "eth0") as guest, wire(other, "eth0") as neighbour:
            neighbour.send(advertised())
            neighbour.send(
                Ether(dst="33:33:00:00:00:01")
                / IPv6(src="fe80::bad", dst="ff02::1")
                / UDP(sport=547, dport=546)
                / DHCP6_Advertise()
            )
            neighbour.send(Ether(dst="33:33:00:00:00:01") / IPv6(src="fe80::bad", dst="ff02::1") / UDP(dport=9))
            # What may pass came behind what may not.
            assert guest.first(lambda frame: UDP in frame and frame[UDP].dport == 9) is not None
        with wire(world.guest, "eth0") as guest, wire(other, "eth0") as neighbour:
            guest.send(Ether(dst="33:33:00:00:00:02") / IPv6(dst="ff02::2", hlim=255) / ICMPv6ND_RS())
            assert neighbour.first(lambda frame: ICMPv6ND_RS in frame, seconds=1) is None


@on_a_host_of_its_own
def test_what_a_router_of_the_link_tells_its_pods_it_tells_the_guest_as_well(tmp_path: Path) -> None:
    node = node_of("bridge", IPV4, tmp_path)
    prefix = ICMPv6NDOptPrefixInfo(prefix="fd99::", prefixlen=64, L=1, A=1)
    with cni_pod(node, "pod") as (pod, _):
        with wire(None, "cni0") as router:
            wait_until(lambda: not router.send(advertised(prefix)) and has_address(pod, "fd99:"), "the Pod's address")
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r", guest_mac=GUEST_MAC)
        assert bound.ipv6 is None
        guest = plug_guest(node_config(), pod, bound.mac, bound.mtu)
        try:
            with wire(None, "cni0") as router, wire(guest, "eth0") as told:
                router.send(advertised(prefix))
                assert told.first(lambda frame: ICMPv6ND_RA in frame) is not None
        finally:
            delete_netns(guest)


def has_address(netns: str, beginning: str) -> bool:
    def look() -> bool:
        with Links() as links:
            return any(each.address.startswith(beginning) for each in links.list_addresses())

    return run_in_netns(netns_path(netns), look)


@on_a_host_of_its_own
def test_with_a_gateway_elsewhere_the_guest_has_its_address_and_its_subnet(tmp_path: Path) -> None:
    node = node_of("bridge", DUAL, tmp_path)
    with bound_pod(node, tmp_path) as (world, answer), cni_pod(node, "other") as (_, others):
        with Links() as links:
            links.delete_address("cni0", GATEWAY6, int(SUBNET6.split("/")[1]))
        assert router_of(GATEWAY6, world.bound.peer_index) == ""
        lease = ipv6_lease(world)
        assert lease.router == ""
        with ipv6_server(world, lease, log=tmp_path / "log"):
            assert Dhclient6(world, tmp_path / "client").run()["new_ip6_address"] == addresses_of(answer)[-1]
            neighbour = addresses_of(others)[-1]
            command = ["busybox", "ping", "-6", "-c", "1", "-W", "2", neighbour]
            wait_until(
                lambda: (
                    world.in_guest(lambda: subprocess.run(command, capture_output=True, check=False)).returncode == 0
                ),
                "the way to a neighbour",
            )
            default = world.in_guest(
                lambda: subprocess.run(["ip", "-6", "route", "show", "default"], capture_output=True, check=True)
            )
            assert default.stdout == b""


@on_a_host_of_its_own
def test_a_handler_that_comes_back_hands_another_socket_over(tmp_path: Path) -> None:
    node = node_of("ptp", DUAL, tmp_path)
    with (
        bound_pod(node, tmp_path) as (world, _),
        wire(world.guest, "eth0") as guest,
        ipv6_server(world, ipv6_lease(world), log=tmp_path / "log") as launcher,
    ):
        assert guest.first(lambda frame: ICMPv6ND_RA in frame) is not None
        sockets = Path(f"/proc/{launcher}/fd")
        before = len(list(sockets.iterdir()))
        hand_router_socket(netns_path(world.pod), world.bound.bridge, launcher)
        assert guest.first(lambda frame: ICMPv6ND_RA in frame) is not None
        wait_until(lambda: len(list(sockets.iterdir())) == before, "the socket before to be closed")


@on_a_host_of_its_own
def test_a_launcher_that_cannot_take_the_socket_is_said(tmp_path: Path) -> None:
    node = node_of("ptp", DUAL, tmp_path)
    refused = pytest.raises(NetworkError, match="ECONNREFUSED; a launcher of an earlier version")
    with bound_pod(node, tmp_path) as (world, _), refused:
        hand_router_socket(netns_path(world.pod), world.bound.bridge, 1)
