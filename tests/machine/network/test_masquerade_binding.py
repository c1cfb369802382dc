# Tests: kvedge/network/binding/masquerade_binding.py, masquerade_plan.py, masquerade_rules.py
"""Masquerade in real namespaces, with real packets: what passes and what does not, and what a crash leaves."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6ND_RA, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from kvedge.network.binding import masquerade_binding
from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.network.netns import netns_path
from kvedge.network.nft.nft_nat_rules import TCP as TCP_NUMBER
from kvedge.network.nft.nft_nat_rules import UDP as UDP_NUMBER
from kvedge.resources.masquerade import BRIDGE_MAC
from tests.machine.network.frames import BROADCAST, wire
from tests.machine.network.killed_steps import KilledError, killed_after, steps_made
from tests.machine.network.masquerade_world import (
    GUEST,
    GUEST_MAC,
    NEIGHBOUR,
    POD,
    ROUTER,
    MasqueradeWorld,
    masquerade_world,
)
from tests.support.pictures import ip_json, picture
from tests.support.tentative import bind_in_time

PORT = 8080
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
VERSIONS = pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])


@pytest.fixture
def world() -> Iterator[MasqueradeWorld]:
    with masquerade_world() as made:
        yield made


def listening(world: MasqueradeWorld, netns: str, address: str, port: int = PORT) -> socket.socket:
    """A server in that namespace."""
    version = 6 if ":" in address else 4

    def make() -> socket.socket:
        opened = socket.socket(FAMILY[version], socket.SOCK_STREAM)
        bind_in_time(opened, (address, port))
        opened.listen(4)
        opened.settimeout(20)
        return opened

    return world.inside(netns, make)


def connected(
    world: MasqueradeWorld, netns: str, address: str, port: int = PORT, seconds: float = 20.0
) -> socket.socket:
    """A connection from that namespace."""

    def make() -> socket.socket:
        return socket.create_connection((address, port), timeout=seconds)

    return world.inside(netns, make)


def talk(client: socket.socket, server: socket.socket) -> str:
    """Says something both ways; where the server sees its client."""
    peer, seen = server.accept()
    with peer:
        assert_passes(client, peer)
        return str(seen[0])


def assert_passes(one: socket.socket, other: socket.socket) -> None:
    other.settimeout(20)
    one.sendall(b"there")
    assert other.recv(16) == b"there"
    other.sendall(b"back")
    assert one.recv(16) == b"back"


@pytest.mark.parametrize(
    ("versions", "version"),
    [((4,), 4), ((6,), 6), ((4, 6), 4), ((4, 6), 6)],
    ids=["IPv4 alone", "IPv6 alone", "IPv4 of both", "IPv6 of both"],
)
def test_a_connection_passes_both_ways_and_each_side_sees_the_pod(versions: tuple[int, ...], version: int) -> None:
    with masquerade_world(versions=versions) as world:
        with (
            closing(listening(world, world.neighbour, NEIGHBOUR[version])) as server,
            closing(connected(world, world.guest, NEIGHBOUR[version])) as client,
        ):
            assert talk(client, server) == POD[version][0]
        with (
            closing(listening(world, world.guest, GUEST[version])) as server,
            closing(connected(world, world.neighbour, POD[version][0])) as client,
        ):
            assert talk(client, server) == NEIGHBOUR[version]


def test_a_guest_has_the_ip_versions_of_its_pod() -> None:
    with masquerade_world(versions=(4,)) as world:
        assert world.bound is not None
        assert (world.bound.address, world.bound.gateway, world.bound.ipv6) == (GUEST[4], ROUTER[4], None)
        assert world.bound.pod_addresses == (POD[4][0],)
    with masquerade_world(versions=(6,)) as world:
        assert world.bound is not None
        assert (world.bound.address, world.bound.pod_addresses) == ("", (POD[6][0],))
        assert world.bound.ipv6 is not None
        assert (world.bound.ipv6.address, world.bound.ipv6.gateway) == (GUEST[6], "fe80::1")


@VERSIONS
def test_a_ping_of_the_pod_is_answered_by_the_guest(world: MasqueradeWorld, version: int) -> None:
    # The Pod itself answers nobody.
    world.run(world.pod, "sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1", "net.ipv6.icmp.echo_ignore_all=1")
    done = world.run(world.neighbour, "busybox", "ping", "-c", "1", "-W", "20", POD[version][0])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_process_of_the_pod_reaches_the_guest_by_the_loopback(world: MasqueradeWorld) -> None:
    with (
        closing(listening(world, world.guest, GUEST[4])) as server,
        closing(connected(world, world.pod, "127.0.0.1")) as client,
    ):
        assert talk(client, server) == ROUTER[4]


@VERSIONS
def test_listed_ports_reach_the_guest_and_others_do_not(version: int) -> None:
    listed = frozenset({(TCP_NUMBER, PORT), (UDP_NUMBER, 5353)})
    with masquerade_world(ports=listed) as world:
        with (
            closing(listening(world, world.guest, GUEST[version])) as server,
            closing(connected(world, world.neighbour, POD[version][0])) as client,
        ):
            assert talk(client, server) == NEIGHBOUR[version]
        with closing(listening(world, world.guest, GUEST[version], 9090)), pytest.raises(ConnectionRefusedError):
            connected(world, world.neighbour, POD[version][0], 9090)
        # The same number of the other protocol is another port.
        with closing(listening(world, world.guest, GUEST[version], 5353)), pytest.raises(ConnectionRefusedError):
            connected(world, world.neighbour, POD[version][0], 5353)
        # What the guest begins is no matter of ports.
        with (
            closing(listening(world, world.neighbour, NEIGHBOUR[version], 9090)) as server,
            closing(connected(world, world.guest, NEIGHBOUR[version], 9090)) as client,
        ):
            assert talk(client, server) == POD[version][0]


def test_a_range_of_ports_reaches_the_guest_and_nothing_beside_it() -> None:
    with masquerade_world(ranges=frozenset({(TCP_NUMBER, 8000, 8002), (UDP_NUMBER, 8003, 8003)})) as world:
        for port in (8000, 8002):
            with (
                closing(listening(world, world.guest, GUEST[4], port)) as server,
                closing(connected(world, world.neighbour, POD[4][0], port)) as client,
            ):
                assert talk(client, server) == NEIGHBOUR[4]
        for port in (7999, 8003):
            with closing(listening(world, world.guest, GUEST[4], port)), pytest.raises(ConnectionRefusedError):
                connected(world, world.neighbour, POD[4][0], port)


def test_thousands_of_ports_may_be_listed() -> None:
    with masquerade_world(ports=frozenset((TCP_NUMBER, port) for port in range(8000, 12000))) as world:
        for port in (8000, 9999, 11999):
            with (
                closing(listening(world, world.guest, GUEST[4], port)) as server,
                closing(connected(world, world.neighbour, POD[4][0], port)) as client,
            ):
                assert talk(client, server) == NEIGHBOUR[4]


def test_behind_a_sidecar_only_ssh_comes_straight_and_the_rest_by_the_pod() -> None:
    with masquerade_world(meshed=True) as world:
        with (
            closing(listening(world, world.guest, GUEST[4], 22)) as server,
            closing(connected(world, world.neighbour, POD[4][0], 22)) as client,
        ):
            assert talk(client, server) == NEIGHBOUR[4]
        # Anything else is the Pod's, where the sidecar listens.
        with (
            closing(listening(world, world.pod, POD[4][0], 15006)) as server,
            closing(connected(world, world.neighbour, POD[4][0], 15006)) as client,
        ):
            assert talk(client, server) == NEIGHBOUR[4]
        # The sidecar's own ports stay its own, and it reaches the guest from its own address and by the Pod's.
        with (
            closing(listening(world, world.pod, "127.0.0.1", 15000)) as server,
            closing(connected(world, world.pod, "127.0.0.1", 15000)) as client,
        ):
            assert talk(client, server) == "127.0.0.1"
        with (
            closing(listening(world, world.guest, GUEST[4])) as server,
            closing(connected(world, world.pod, POD[4][0])) as client,
        ):
            talk(client, server)


def passes(world: MasqueradeWorld, frame: Packet, seen_as: int = 7777) -> bool:
    """Whether the neighbour gets a UDP packet of the guest's."""
    with wire(world.neighbour, "eth0") as there, wire(world.guest, "eth0") as here:
        here.send(frame)
        # One that surely passes comes after it, in the same queue.
        here.send(from_guest(GUEST[4], 7778))
        first = there.first(lambda got: UDP in got and got[UDP].dport in (seen_as, 7778))
        assert first is not None
        return bool(first[UDP].dport == seen_as)


def from_guest(source: str, port: int, mac: str = GUEST_MAC, to: str = NEIGHBOUR[4]) -> Packet:
    return Ether(src=mac, dst=BRIDGE_MAC) / IP(src=source, dst=to) / UDP(sport=5000, dport=port) / b"x"


def test_a_guest_with_another_address_or_mac_is_not_heard(world: MasqueradeWorld) -> None:
    assert passes(world, from_guest(GUEST[4], 7777))
    for source in ("10.0.2.3", POD[4][0], "192.0.2.7", ROUTER[4], "0.0.0.0"):
        assert not passes(world, from_guest(source, 7777)), source
    assert not passes(world, from_guest(GUEST[4], 7777, mac="52:54:00:99:00:02"))
    own = Ether(src=GUEST_MAC, dst=BRIDGE_MAC)
    for source in ("fd10:0:2::3", POD[6][0], "2001:db8::7"):
        assert not passes(world, own / IPv6(src=source, dst=NEIGHBOUR[6]) / UDP(dport=7777) / b"x"), source
    assert passes(world, own / IPv6(src=GUEST[6], dst=NEIGHBOUR[6]) / UDP(dport=7777) / b"x")


def test_what_the_kernel_cannot_place_does_not_leave_with_the_guests_address(world: MasqueradeWorld) -> None:
    reset = Ether(src=GUEST_MAC, dst=BRIDGE_MAC) / IP(src=GUEST[4], dst=NEIGHBOUR[4]) / TCP(dport=80, flags="SFR")
    with wire(world.neighbour, "eth0") as there, wire(world.guest, "eth0") as here:
        here.send(reset)
        here.send(from_guest(GUEST[4], 7778))
        first = there.first(lambda got: IP in got and (TCP in got or UDP in got))
        assert first is not None
        assert UDP in first
        assert first[IP].src == POD[4][0]


def test_the_guest_cannot_speak_to_the_pods_loopback(world: MasqueradeWorld) -> None:
    def serve(address: str) -> socket.socket:
        opened = socket.socket(FAMILY[6 if ":" in address else 4], socket.SOCK_DGRAM)
        bind_in_time(opened, (address, 7000))
        opened.settimeout(20)
        return opened

    everywhere, own = Ether(src=GUEST_MAC, dst=BRIDGE_MAC), UDP(sport=5000, dport=7000)
    with closing(world.inside(world.pod, lambda: serve("0.0.0.0"))) as server:
        with wire(world.guest, "eth0") as here:
            here.send(everywhere / IP(src=GUEST[4], dst="127.0.0.1") / own / b"loopback")
            here.send(everywhere / IP(src="127.0.0.1", dst=ROUTER[4]) / own / b"as loopback")
            here.send(everywhere / IP(src=GUEST[4], dst=ROUTER[4]) / own / b"bridge")
        assert server.recv(64) == b"bridge"
    with closing(world.inside(world.pod, lambda: serve("::"))) as server:
        with wire(world.guest, "eth0") as here:
            here.send(everywhere / IPv6(src=GUEST[6], dst="::1") / own / b"loopback")
            here.send(everywhere / IPv6(src="::1", dst=ROUTER[6]) / own / b"as loopback")
            here.send(everywhere / IPv6(src=GUEST[6], dst=ROUTER[6]) / own / b"bridge")
        assert server.recv(64) == b"bridge"


def pod_mac(world: MasqueradeWorld) -> str:
    return str(ip_json(world.pod, "link", "show", "eth0")[0]["address"])


def test_nobody_reaches_the_guest_but_by_the_pods_address(world: MasqueradeWorld) -> None:
    def frame(to: str, port: int) -> Packet:
        return Ether(dst=pod_mac(world)) / IP(src=NEIGHBOUR[4], dst=to) / UDP(sport=5000, dport=port) / b"x"

    with wire(world.guest, "eth0") as there, wire(world.neighbour, "eth0") as here:
        here.send(frame(GUEST[4], 7777))
        here.send(frame(POD[4][0], 7778))
        first = there.first(lambda got: UDP in got)
    assert first is not None
    assert first[UDP].dport == 7778


def test_the_pod_is_no_router_for_its_neighbours(world: MasqueradeWorld) -> None:
    with wire(world.neighbour, "eth0") as here:
        here.send(Ether(dst=pod_mac(world)) / IP(src=NEIGHBOUR[4], dst="10.203.5.77") / ICMP())
        here.send(Ether(dst=pod_mac(world)) / IP(src=NEIGHBOUR[4], dst=POD[4][0]) / ICMP(id=77))
        # The Pod would look for the one that it had to forward to.
        first = here.first(lambda got: ICMP in got or (ARP in got and got[ARP].pdst == "10.203.5.77"))
    assert first is not None
    assert ICMP in first


def test_the_pods_link_does_not_hear_of_the_guests_network(world: MasqueradeWorld) -> None:
    question = Ether(dst=BROADCAST) / ARP(psrc=NEIGHBOUR[4], pdst=ROUTER[4])
    with wire(world.neighbour, "eth0") as here:
        here.send(question)
        here.send(Ether(dst=BROADCAST) / ARP(psrc=NEIGHBOUR[4], pdst=POD[4][0]))
        answer = here.first(lambda got: ARP in got and got[ARP].op == 2)
    assert answer is not None
    assert answer[ARP].psrc == POD[4][0]


def test_a_guest_that_plays_router_tells_nobody(world: MasqueradeWorld) -> None:
    sent = Ether(src=GUEST_MAC, dst="33:33:00:00:00:01") / IPv6(src="fe80::5054:ff:fe99:1", dst="ff02::1")
    with wire(world.guest, "eth0") as here:
        here.send(sent / ICMPv6ND_RA(routerlifetime=1800))
        here.send(sent / ICMPv6ND_RA(routerlifetime=1800))
    done = world.run(world.pod, "ip", "-6", "route", "show", "default")
    assert "k6t-eth0" not in done.stdout
    assert "tap0" not in done.stdout


def test_binding_again_changes_nothing_and_says_the_same(
    world: MasqueradeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture(world.pod)["links"]
    with steps_made(monkeypatch, masquerade_binding) as made:
        again = world.bind()
    assert again == world.bound
    assert made == []
    assert picture(world.pod)["links"] == before


TABLES = """
table bridge kvedge_masquerade_eth0_X {
set ipv6_senders {
type ipv6_addr
size 32
flags dynamic,timeout
timeout 1m
}

set kvedge_dropped {
type ifname . mark
size 65535
flags dynamic,timeout
timeout 1d
}

chain drop_mac {
update @kvedge_dropped { iifname . 0x00000001 counter }
drop
}

chain drop_arp {
update @kvedge_dropped { iifname . 0x00000002 counter }
drop
}

chain drop_address {
update @kvedge_dropped { iifname . 0x00000003 counter }
drop
}

chain drop_protocol {
update @kvedge_dropped { iifname . 0x00000005 counter }
drop
}

chain drop_router {
update @kvedge_dropped { iifname . 0x00000009 counter }
drop
}

chain prerouting {
type filter hook prerouting priority dstnat; policy accept;
iifname "tap0" ether saddr != 52:54:00:99:00:01 goto drop_mac
iifname "tap0" meta protocol != arp meta protocol != ip meta protocol != ip6 goto drop_protocol
iifname "tap0" arp saddr ether != 52:54:00:99:00:01 goto drop_arp
iifname "tap0" arp saddr ip 10.0.2.2 accept
iifname "tap0" arp saddr ip 0.0.0.0 accept
iifname "tap0" meta protocol arp goto drop_arp
iifname "tap0" ip daddr 127.0.0.0/8 goto drop_address
iifname "tap0" ip saddr 10.0.2.2 accept
iifname "tap0" ip saddr 0.0.0.0 udp dport 67-67 accept
iifname "tap0" meta protocol ip goto drop_address
iifname "tap0" icmpv6 type 134-134 goto drop_router
iifname "tap0" icmpv6 type 137-137 goto drop_router
iifname "tap0" ip6 saddr fd10:0:2::2 accept
iifname "tap0" ip6 saddr :: icmpv6 type 0-255 accept
iifname "tap0" ip6 saddr fe80::/10 update @ipv6_senders { ip6 saddr } accept
iifname "tap0" meta protocol ip6 goto drop_address
}
}
table inet kvedge_masquerade_eth0_X {
set flows4 {
type ipv4_addr
size 16
flags dynamic
}

set flows6 {
type ipv6_addr
size 64
flags dynamic
}

set ports {
type inet_proto . inet_service
elements = { tcp . 8080 }
}

chain flows {
type filter hook prerouting priority mangle; policy accept;
iifname "k6t-eth0" ct state new add @flows4 { ip saddr ct count over 4096 } drop
iifname "k6t-eth0" ct state new add @flows6 { ip6 saddr ct count over 4096 } drop
}

chain forward {
type filter hook forward priority filter; policy accept;
iifname "k6t-eth0" ct state invalid drop
iifname != "k6t-eth0" oifname != "k6t-eth0" drop
iifname != "k6t-eth0" oifname "k6t-eth0" ct state invalid,new,untracked ct status ! dnat drop
}

chain prerouting {
type nat hook prerouting priority dstnat; policy accept;
iifname "eth0" meta pkttype host meta nfproto ipv4 meta l4proto . th dport @ports dnat ip to 10.0.2.2
iifname "eth0" meta pkttype host meta nfproto ipv6 meta l4proto . th dport @ports dnat ip6 to fd10:0:2::2
}

chain output {
type nat hook output priority -100; policy accept;
ip daddr 127.0.0.1 meta l4proto . th dport @ports dnat ip to 10.0.2.2
}

chain postrouting {
type nat hook postrouting priority srcnat; policy accept;
ip saddr 10.0.2.2 masquerade
ip6 saddr fd10:0:2::2 masquerade
oifname "k6t-eth0" ip saddr 127.0.0.1 meta l4proto . th dport @ports snat ip to 10.0.2.1
}
}
"""


def test_the_tables_are_what_they_should_be() -> None:
    world = MasqueradeWorld(ports=frozenset({(TCP_NUMBER, PORT)}))
    try:
        world.make_pod()
        world.bind()
        found = re.sub(r"(eth0)_[0-9a-f]{12} ", r"\1_X ", nft(world, "list", "ruleset"))
        assert [line.strip() for line in found.splitlines()] == TABLES.strip().splitlines()
    finally:
        remove(world)


def nft(world: MasqueradeWorld, *arguments: str) -> str:
    done = world.run(world.pod, "nft", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@VERSIONS
@pytest.mark.parametrize("damage", ["nothing", "a flushed table", "no tables", "no forwarding"])
def test_an_established_connection_outlives_a_repeated_binding(
    world: MasqueradeWorld, version: int, damage: str
) -> None:
    with (
        closing(listening(world, world.neighbour, NEIGHBOUR[version])) as outside,
        closing(listening(world, world.guest, GUEST[version])) as inside,
        closing(connected(world, world.guest, NEIGHBOUR[version])) as out,
        closing(connected(world, world.neighbour, POD[version][0])) as into,
    ):
        far, _ = outside.accept()
        near, _ = inside.accept()
        with far, near:
            whole = nft(world, "list", "ruleset")
            names = [line.split()[1:3] for line in whole.splitlines() if line.startswith("table ")]
            if damage == "a flushed table":
                nft(world, "flush", "table", *next(name for name in names if name[0] == "inet"))
            elif damage == "no tables":
                nft(world, "flush", "ruleset")
            elif damage == "no forwarding":
                world.run(world.pod, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
            assert world.bind() == world.bound
            again = [line.split()[1:3] for line in nft(world, "list", "ruleset").splitlines() if line[:6] == "table "]
            assert sorted(again) == sorted(names)
            assert_passes(out, far)
            assert_passes(into, near)
            # New ones begin as well.
            with closing(connected(world, world.neighbour, POD[version][0])) as another:
                talk(another, inside)


def test_other_rules_take_the_place_of_the_earlier_at_once(world: MasqueradeWorld) -> None:
    with closing(listening(world, world.guest, GUEST[4])) as server:
        with closing(connected(world, world.neighbour, POD[4][0])) as client:
            peer, _ = server.accept()
            world.ports = frozenset({(TCP_NUMBER, 9090)})
            world.bind()
            with peer:
                assert_passes(client, peer)
        tables = [line for line in nft(world, "list", "tables").splitlines() if "kvedge_masquerade" in line]
        assert len(tables) == 2
        with pytest.raises(ConnectionRefusedError):
            connected(world, world.neighbour, POD[4][0])


def test_a_binding_killed_at_any_step_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    world = MasqueradeWorld(mark="kvqk")

    def fresh() -> None:
        world.make_pod()

    try:
        fresh()
        with steps_made(monkeypatch, masquerade_binding) as made:
            world.bind()
        expected, count = picture(world.pod), len(made)
        for done in range(count):
            remove(world)
            fresh()
            with killed_after(monkeypatch, done, masquerade_binding), pytest.raises(KilledError):
                world.bind()
            world.bind()
            assert picture(world.pod) == expected, done
            with steps_made(monkeypatch, masquerade_binding) as again:
                world.bind()
            assert again == []
    finally:
        remove(world)


def remove(world: MasqueradeWorld) -> None:
    for name in (world.guest, world.pod, world.neighbour):
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def test_a_pod_in_the_guests_network_is_refused_with_a_remedy(world: MasqueradeWorld) -> None:
    def collide() -> None:
        with Links() as links:
            links.add_address("eth0", "10.0.2.77", 24)

    world.inside(world.pod, collide)
    with pytest.raises(NetworkError, match="vmNetworkCIDR"):
        world.bind()


def test_the_nodes_own_network_is_never_bound() -> None:
    with pytest.raises(NetworkError, match="the node's own"):
        masquerade_binding.masquerade_pod_interface("/proc/self/ns/net", guest_mac=GUEST_MAC, subnets={})


def test_nothing_is_changed_outside_the_pod(world: MasqueradeWorld) -> None:
    assert not any("kvedge_masquerade" in line for line in host_tables())
    assert netns_path(world.pod).exists()


def host_tables() -> list[str]:
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout.splitlines()
