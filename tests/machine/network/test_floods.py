"""A guest's root sends what it likes: the host's bridges and neighbour tables stay small, and neighbours are served."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import Ether

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.attachments import NodeNetworkConfig, port_name, stable_mac
from kvedge.network.pods.pod_network import attach_pod, heal_node_network
from tests.machine.network.floods import (
    BROADCAST,
    IPV6_TYPE,
    LLDP,
    arp_question,
    groups_of,
    macs_of,
    neighbours_of,
    open_tap,
    packed,
    random_mac,
    send_all,
    udp_frame,
)
from tests.machine.network.frames import wire
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.machine.network.test_bridge_binding import configure_guest
from tests.machine.network.test_bridge_binding import ping as guest_pings
from tests.machine.network.test_pod_network import ADDRESSES, MACS, ping
from tests.support.pod_world import ADDRESS, GATEWAY, POD_MAC, PodWorld, make_pod, node_config, node_network

FRAMES = 20_000
# The ports' own MACs, each with and without a VLAN, the bridge's, what is configured, and multicast.
FEW = 40
OWN, NEIGHBOUR = packed(MACS[0]), packed(MACS[1])
TO_GATEWAY = (ADDRESSES[0], GATEWAY)

# What a frame with a foreign source may look like; each goes another way through a bridge.
SOURCES: dict[str, Callable[[bytes], bytes]] = {
    "to everybody": lambda mac: udp_frame(mac, BROADCAST, (ADDRESSES[0], "255.255.255.255"), (9, 9)),
    "to a neighbour": lambda mac: udp_frame(mac, NEIGHBOUR, (ADDRESSES[0], ADDRESSES[1]), (9, 9)),
    "to nobody": lambda mac: udp_frame(mac, random_mac(), TO_GATEWAY, (9, 9)),
    "to the bridge alone": lambda mac: LLDP + mac + b"\x88\xcc" + bytes(46),
    "ARP": lambda mac: arp_question(mac, ADDRESSES[0], GATEWAY),
    "ARP with another MAC inside": lambda mac: arp_question(OWN, ADDRESSES[0], GATEWAY, inside=mac),
    "in a VLAN": lambda mac: BROADCAST + mac + b"\x81\x00\x00\x05\x08\x00" + bytes(46),
    "IPv6": lambda mac: BROADCAST + mac + IPV6_TYPE + bytes(46),
    "a protocol of nobody": lambda mac: BROADCAST + mac + b"\x88\xb5" + bytes(46),
}


@pytest.fixture
def config() -> Iterator[NodeNetworkConfig]:
    with node_network(node_config()) as made:
        yield made


@pytest.fixture
def pods(config: NodeNetworkConfig) -> tuple[str, str]:
    names = tuple(f"{config.netns_prefix}{letter}" for letter in "ab")
    for name, address, mac in zip(names, ADDRESSES, MACS, strict=True):
        attach_pod(config, name, address, mac)
    return names[0], names[1]


@pytest.mark.parametrize("what", SOURCES)
def test_a_pods_macs_without_end_do_not_fill_the_node_bridge(
    what: str, config: NodeNetworkConfig, pods: tuple[str, str]
) -> None:
    send_all(pods[0], "eth0", (SOURCES[what](random_mac()) for _ in range(FRAMES)))
    assert macs_of(None, config.bridge) < FEW
    assert ping(pods[1], GATEWAY)
    assert ping(pods[0], ADDRESSES[1])


@pytest.mark.parametrize("what", SOURCES)
def test_a_guests_macs_without_end_fill_neither_its_pods_bridge_nor_the_nodes(what: str, world: PodWorld) -> None:
    with Links() as links:
        # As a CNI has its ports.
        links.set_port(world.port, learning=1)
    with open_tap(world.pod, "tap0") as send:
        for _ in range(FRAMES):
            send(SOURCES[what](random_mac()))
        assert macs_of(world.pod, "k6t-eth0") < FEW
        assert macs_of(None, world.config.bridge) < FEW
        configure_guest(world)
        assert guest_pings(world, GATEWAY)


def test_what_is_for_one_pod_is_seen_by_no_other(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    third = f"{config.netns_prefix}c"
    attach_pod(config, third, "10.201.77.13", "52:54:00:77:02:03")
    with wire(third, "eth0") as other:
        send_all(pods[0], "eth0", [udp_frame(OWN, NEIGHBOUR, (ADDRESSES[0], ADDRESSES[1]), (77, 78))])
        # What is for nobody's MAC goes everywhere, as on any bridge: it says when to stop waiting.
        send_all(pods[0], "eth0", [udp_frame(OWN, random_mac(), (ADDRESSES[0], ADDRESSES[1]), (77, 79))])
        seen = other.first(lambda frame: bytes(frame)[34:37] == b"\x00\x4d\x00")
    assert seen is not None
    assert bytes(seen)[36:38] == b"\x00\x4f"


def test_a_pod_that_names_a_neighbours_mac_does_not_get_its_frames(
    config: NodeNetworkConfig, pods: tuple[str, str]
) -> None:
    thief = f"{config.netns_prefix}thief"
    attach_pod(config, thief, "10.201.77.66", MACS[1])
    with wire(thief, "eth0") as listening, wire(pods[1], "eth0") as owner:
        send_all(pods[0], "eth0", [udp_frame(OWN, NEIGHBOUR, (ADDRESSES[0], ADDRESSES[1]), (77, 78))])
        send_all(pods[0], "eth0", [udp_frame(OWN, BROADCAST, (ADDRESSES[0], "255.255.255.255"), (77, 79))])
        at_thief, at_owner = (each.first(lambda frame: bytes(frame)[34:37] == b"\0M\0") for each in (listening, owner))
    assert (bytes(at_thief)[37], bytes(at_owner)[37]) == (79, 78)  # type: ignore[arg-type]


@on_a_host_of_its_own
def test_a_network_of_an_earlier_kvedge_gets_it_in_place_and_what_others_undo_is_put_back() -> None:
    with node_network(node_config()) as config:
        pod = f"{config.netns_prefix}a"
        attach_pod(config, pod, ADDRESSES[0], MACS[0])
        port = port_name(config.bridge, pod)
        with Links() as links:
            links.set_port(port, learning=1)
            links.set_bridge(config.bridge, br_mcast_snooping=1)
            assert len(heal_node_network(config).healed) == 2
            found = links.find(port), links.find(config.bridge)
        assert [(link.learning, link.snooping) for link in found if link] == [(False, None), (None, False)]
        assert heal_node_network(config).healed == ()


def test_a_bound_pod_of_an_earlier_kvedge_gets_it_in_place(world: PodWorld) -> None:
    def as_before() -> None:
        with Links() as links:
            links.set_port("tap0", learning=1)
            links.set_bridge("k6t-eth0", br_mcast_snooping=1)

    world.in_pod(as_before)
    bind_pod_interface(netns_path(world.pod), record=world.record)

    def found() -> list[tuple[bool | None, bool | None]]:
        with Links() as links:
            return [(link.learning, link.snooping) for link in links.list_links() if link.name in ("tap0", "k6t-eth0")]

    assert set(world.in_pod(found)) == {(False, None), (None, False)}


def igmp_join(source: bytes, sender: str, group: str) -> bytes:
    """Somebody listens to that group from now on (IGMPv2)."""
    body = struct.pack("!BBH", 0x16, 0, 0) + IPv4Address(group).packed
    body = body[:2] + _checksum(body) + body[4:]
    head = struct.pack("!BBHHHBBH", 0x46, 0, 32, 0, 0, 1, 2, 0)
    head += IPv4Address(sender).packed + IPv4Address(group).packed + b"\x94\x04\x00\x00"
    head = head[:10] + _checksum(head) + head[12:]
    target = b"\x01\x00\x5e" + bytes([IPv4Address(group).packed[1] & 0x7F]) + IPv4Address(group).packed[2:]
    return target + source + b"\x08\x00" + head + body


def _checksum(data: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def test_multicast_groups_without_end_are_not_remembered(world: PodWorld) -> None:
    with open_tap(world.pod, "tap0") as send:
        for number in range(3000):
            send(igmp_join(packed(POD_MAC), ADDRESS, f"239.1.{number >> 8}.{number & 255}"))
    assert groups_of(world.pod, "k6t-eth0") < FEW
    assert groups_of(None, world.config.bridge) < FEW


def test_a_guest_that_speaks_of_thousands_of_addresses_does_not_fill_the_neighbour_tables(world: PodWorld) -> None:
    """There is one such table for all namespaces of a host: a thousand entries, and nobody finds a neighbour."""
    own = packed(POD_MAC)
    with open_tap(world.pod, "tap0") as send:
        for number in range(5000):
            sender = str(IPv4Address("10.7.0.0") + number)
            for wanted in ("169.254.75.10", GATEWAY):
                send(arp_question(own, sender, wanted))
        assert neighbours_of(world.pod, "k6t-eth0") < FEW
        assert neighbours_of(None, world.config.bridge) < FEW
    configure_guest(world)
    assert guest_pings(world, GATEWAY)


def test_a_guest_that_asks_from_thousands_of_ipv6_addresses_does_not_fill_the_neighbour_tables(tmp_path: Path) -> None:
    with node_network(node_config()) as config:
        pod = make_pod(config)

        def with_ipv6() -> None:
            with Links() as links:
                links.add_address("eth0", "fd77:7::5", 64)

        run_in_netns(netns_path(pod), with_ipv6)
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        server = link_local_of(bound.bridge_mac)
        with open_tap(pod, "tap0") as send:
            for number in range(1500):
                ends = IPv6(src=f"fe80::7:{number:x}", dst=server, hlim=255)
                frame = Ether(src=bound.mac, dst=bound.bridge_mac) / ends
                send(bytes(frame / ICMPv6ND_NS(tgt=server) / ICMPv6NDOptSrcLLAddr(lladdr=bound.mac)))
                send(bytes(frame / ICMPv6EchoRequest()))
            assert neighbours_of(pod, "k6t-eth0") < FEW


def link_local_of(mac: str) -> str:
    """The link-local address that follows from a MAC."""
    raw = packed(mac)
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + bytes([raw[0] ^ 2]) + raw[1:3] + b"\xff\xfe" + raw[3:]))


def test_a_pod_that_speaks_of_thousands_of_addresses_is_believed_its_own_alone(
    config: NodeNetworkConfig, pods: tuple[str, str]
) -> None:
    mac = packed(stable_mac(config.bridge))
    addresses = [str(IPv4Address("10.201.77.20") + number) for number in range(200)]
    send_all(pods[0], "eth0", (arp_question(OWN, address, GATEWAY) for address in addresses * 20))
    send_all(pods[0], "eth0", (udp_frame(OWN, mac, (address, GATEWAY), (9, 9)) for address in addresses))
    assert neighbours_of(None, config.bridge) < 10
    assert ping(pods[1], GATEWAY)
