"""The Pod network of one box with real bridges, namespaces and filters."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from kvedge.network.apply_step import apply_step
from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, is_netns, list_netns, netns_path, run_in_netns
from kvedge.network.pods import pod_network
from kvedge.network.pods.attachments import NodeNetworkConfig, our_ports, port_name, stable_mac
from kvedge.network.pods.foreign_forwarding import has_firewalld
from kvedge.network.pods.pod_network import (
    attach_pod,
    detach_pod,
    ensure_node_network,
    heal_node_network,
    remove_node_network,
)
from kvedge.network.steps import DeleteLink, Step
from kvedge.network.sysctls import read_sysctl, write_sysctl
from kvedge.resources.values.bandwidth import Bandwidth
from tests.machine.network.frames import BROADCAST, wire
from tests.machine.network.own_host import UPLINK_NETWORK, host_state, on_a_host_of_its_own
from tests.support.pictures import ip_json, picture
from tests.support.pod_world import GATEWAY, node_config, node_network
from tests.support.waiting import wait_until

ADDRESSES = ("10.201.77.11", "10.201.77.12")
MACS = ("52:54:00:77:02:01", "52:54:00:77:02:02")
OUTSIDE = "198.51.100.2"
HOST_OUTSIDE = "198.51.100.1"


@pytest.fixture
def config() -> Iterator[NodeNetworkConfig]:
    """A node network of this test's own."""
    with node_network(node_config()) as made:
        yield made


@pytest.fixture
def pods(config: NodeNetworkConfig) -> tuple[str, str]:
    """Two attached Pods."""
    names = tuple(f"{config.netns_prefix}{letter}" for letter in "ab")
    for name, address, mac in zip(names, ADDRESSES, MACS, strict=True):
        attach_pod(config, name, address, mac)
    return names[0], names[1]


def ping(netns: str, address: str) -> bool:
    command = ["busybox", "ping", "-c", "1", "-W", "2", address]
    return (
        run_in_netns(netns_path(netns), lambda: subprocess.run(command, capture_output=True, check=False)).returncode
        == 0
    )


def ruleset() -> str:
    """The rules of a host, without what packets have put into sets: that changes by itself."""
    text = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    return re.sub(r"(\tset \w+ {[^{}]*\n\t\tflags [^\n]*dynamic[^{}]*)\n\t\telements = {[^{}]*}", r"\1", text)


@contextmanager
def outside(config: NodeNetworkConfig) -> Iterator[str]:
    """A neighbour of the host beyond its own link, who knows no way to the Pods."""
    name = f"{config.netns_prefix}outside"
    link = f"o{config.bridge}"[:15]
    path = create_netns(name)
    with Links() as links:
        links.add_veth(link, "eth0", path, peer_mac="52:54:00:77:03:01", mtu=1500)
        links.add_address(link, HOST_OUTSIDE, 30)
        links.set(link, state="up")

    def inside() -> None:
        with Links() as links:
            links.add_address("eth0", OUTSIDE, 30)
            links.set("eth0", state="up")

    run_in_netns(path, inside)
    try:
        yield name
    finally:
        with Links() as links:
            links.delete(link)
        delete_netns(name)


def test_pods_reach_each_other_the_gateway_and_the_world_under_the_hosts_address(
    config: NodeNetworkConfig, pods: tuple[str, str]
) -> None:
    assert ping(pods[0], GATEWAY)
    assert ping(pods[0], ADDRESSES[1])
    with outside(config) as neighbour:
        listening = run_in_netns(netns_path(neighbour), lambda: socket.create_server((OUTSIDE, 8080)))
        with listening:
            asking = run_in_netns(netns_path(pods[0]), lambda: socket.create_connection((OUTSIDE, 8080), timeout=5))
            with asking:
                listening.settimeout(5)
                answered, peer = listening.accept()
                answered.close()
        assert peer[0] == HOST_OUTSIDE
        assert asking


def test_traffic_between_pods_keeps_its_addresses(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    listening = run_in_netns(netns_path(pods[1]), lambda: socket.create_server((ADDRESSES[1], 8080)))
    asking = run_in_netns(netns_path(pods[0]), lambda: socket.create_connection((ADDRESSES[1], 8080), timeout=5))
    with listening, asking:
        listening.settimeout(5)
        answered, peer = listening.accept()
        answered.close()
    assert peer[0] == ADDRESSES[0]


def test_a_pod_has_its_address_its_mac_and_a_way_out(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    links = {str(link["ifname"]): link for link in ip_json(pods[0], "addr")}
    assert set(links) == {"lo", "eth0"}
    assert links["eth0"]["address"] == MACS[0]
    assert "UP" in links["lo"]["flags"]  # type: ignore[operator]
    routes = {route["dst"]: route.get("gateway") for route in ip_json(pods[0], "route")}
    assert routes == {"default": GATEWAY, "10.201.77.0/24": None}
    bridge = ip_json(None, "link", "show", config.bridge)[0]
    assert links["eth0"]["mtu"] == bridge["mtu"]


@on_a_host_of_its_own
def test_attaching_and_ensuring_again_changes_nothing_and_interrupts_nothing() -> None:
    with node_network(node_config()) as config:
        pod = f"{config.netns_prefix}a"
        attach_pod(config, pod, ADDRESSES[0], MACS[0])
        before = (ruleset(), ip_json(None, "link"), ip_json(pod, "addr"), ip_json(pod, "route"))
        assert ensure_node_network(config).gateway == GATEWAY
        attach_pod(config, pod, ADDRESSES[0], MACS[0])
        after = (ruleset(), ip_json(None, "link"), ip_json(pod, "addr"), ip_json(pod, "route"))
    assert sorted(after[0].splitlines()) == sorted(before[0].splitlines())
    assert [link["ifname"] for link in after[1]] == [link["ifname"] for link in before[1]]
    assert after[2:] == before[2:]


def test_a_bound_pod_is_left_alone_by_attaching_again(
    config: NodeNetworkConfig, pods: tuple[str, str], tmp_path: Path
) -> None:
    bind_pod_interface(netns_path(pods[0]), record=tmp_path / "r")
    before = picture(pods[0])
    attach_pod(config, pods[0], ADDRESSES[0], MACS[0])
    assert picture(pods[0]) == before


def test_a_pod_without_a_mac_of_its_own_keeps_the_one_it_got(config: NodeNetworkConfig) -> None:
    name = f"{config.netns_prefix}c"
    macs = []
    for _ in range(2):
        macs.append(attach_pod(config, name, "10.201.77.13").mac)
        detach_pod(config, name)
    assert macs[0] == macs[1]


def test_a_detached_pod_is_gone_with_what_it_was_allowed(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    detach_pod(config, pods[0])
    detach_pod(config, pods[0])
    assert not is_netns(netns_path(pods[0]))
    assert port_name(config.bridge, pods[0]) not in os.listdir("/sys/class/net")
    assert ADDRESSES[0] not in ruleset()
    assert MACS[0] not in ruleset()
    assert ADDRESSES[1] in ruleset()


def test_a_namespace_whose_process_died_is_attached_anew(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    delete_netns(pods[0])
    attach_pod(config, pods[0], ADDRESSES[0], MACS[0])
    assert ping(pods[0], GATEWAY)


def test_a_name_given_to_a_new_namespace_gets_a_new_pair(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    # A process that outlives the name keeps the old namespace, and with it the old pair.
    kept = os.open(netns_path(pods[0]), os.O_RDONLY)
    try:
        delete_netns(pods[0])
        attach_pod(config, pods[0], ADDRESSES[0], MACS[0])
        assert ping(pods[0], GATEWAY)
    finally:
        os.close(kept)


def left_of(config: NodeNetworkConfig) -> list[str]:
    """The links and namespaces that carry the configuration's mark."""
    with Links() as links:
        ports = [link.name for link in our_ports(config, links.list_links())]
    return [*ports, *list_netns(config.netns_prefix)]


class KilledError(Exception):
    """Stands for kill -9 between two steps."""


@contextmanager
def killed_after(monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[list[Step]]:
    """Lets so many steps be made and dies before the next."""
    made: list[Step] = []

    def apply(links: Links, step: Step) -> None:
        if len(made) == count:
            raise KilledError
        made.append(step)
        apply_step(links, step)

    with monkeypatch.context() as patched:
        patched.setattr(pod_network, "apply_step", apply)
        yield made


def run_to_the_end(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """How many steps it takes."""
    with killed_after(monkeypatch, -1) as made:
        work()
    return len(made)


@on_a_host_of_its_own
def test_everything_may_be_killed_at_any_step_and_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = host_state()
    config = node_config()
    name = f"{config.netns_prefix}a"
    try:
        ensuring = run_to_the_end(monkeypatch, lambda: ensure_node_network(config))
        attaching = run_to_the_end(monkeypatch, lambda: attach_pod(config, name, ADDRESSES[0], MACS[0]))
        detaching = run_to_the_end(monkeypatch, lambda: detach_pod(config, name))
        removing = run_to_the_end(monkeypatch, lambda: remove_node_network(config))
        assert host_state() == before
        for count in range(ensuring):
            with killed_after(monkeypatch, count), suppress(KilledError):
                ensure_node_network(config)
            ensure_node_network(config)
            with killed_after(monkeypatch, min(count, removing - 1)), suppress(KilledError):
                remove_node_network(config)
            remove_node_network(config)
            assert host_state() == before
        ensure_node_network(config)
        for count in range(attaching):
            with killed_after(monkeypatch, count), suppress(KilledError):
                attach_pod(config, name, ADDRESSES[0], MACS[0])
            attach_pod(config, name, ADDRESSES[0], MACS[0])
            assert ping(name, GATEWAY), count
            with killed_after(monkeypatch, min(count, detaching - 1)), suppress(KilledError):
                detach_pod(config, name)
            detach_pod(config, name)
            assert left_of(config) == []
    finally:
        remove_node_network(config)


@on_a_host_of_its_own
def test_two_that_are_removed_at_the_same_time_do_not_leave_forwarding_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_sysctl("ipv4/ip_forward", "0")
    before = host_state()
    ours, other = node_config("x"), node_config("y", "10.201.78.0/24")
    ensure_node_network(ours)
    ensure_node_network(other)
    # Two processes, of which neither waits for the other.
    monkeypatch.setattr(pod_network, "_changing", nullcontext())

    def apply(links: Links, step: Step) -> None:
        if step == DeleteLink(ours.bridge):
            remove_node_network(other)
        apply_step(links, step)

    monkeypatch.setattr(pod_network, "apply_step", apply)
    remove_node_network(ours)
    assert host_state() == before


@on_a_host_of_its_own
def test_the_way_outs_mtu_is_every_pods_also_when_all_were_gone_in_between() -> None:
    with node_network(node_config()) as config:
        found = []
        for name in ("first", "second"):
            pod = f"{config.netns_prefix}{name}"
            attach_pod(config, pod, ADDRESSES[0], MACS[0])
            found += [link["mtu"] for link in ip_json(pod, "addr") if link["ifname"] == "eth0"]
            detach_pod(config, pod)
            with Links() as links:
                # The kernel takes the pair away in its own time.
                wait_until(lambda pod=pod: links.find(port_name(config.bridge, pod)) is None, "the port is gone", 20)
        assert found == [1400, 1400]


@on_a_host_of_its_own
def test_a_bridge_with_an_mtu_from_its_making_keeps_it_after_the_next_start() -> None:
    config = node_config()
    with Links() as links:
        links.add(config.bridge, "bridge", mtu=1400)
        with node_network(config):
            pod = f"{config.netns_prefix}a"
            attach_pod(config, pod, ADDRESSES[0], MACS[0])
            detach_pod(config, pod)
            wait_until(lambda: links.find(port_name(config.bridge, pod)) is None, "the port is gone", 20)
            bridge = links.find(config.bridge)
            assert bridge is not None
            assert bridge.mtu == 1400


@on_a_host_of_its_own
@pytest.mark.parametrize("mtu", [1200, 1280])
def test_a_way_out_about_as_small_as_ipv6_allows_is_one_and_may_grow(mtu: int) -> None:
    with Links() as links:
        links.set("uplink", mtu=mtu)
        with node_network(node_config()) as config:
            pod = f"{config.netns_prefix}a"
            attach_pod(config, pod, ADDRESSES[0], MACS[0])
            ensure_node_network(config)
            assert ping(pod, GATEWAY)
            detach_pod(config, pod)
            wait_until(lambda: links.find(port_name(config.bridge, pod)) is None, "the port is gone", 20)
            links.set("uplink", mtu=1400)
            ensure_node_network(config)
            bridge = links.find(config.bridge)
            assert bridge is not None
            assert bridge.mtu == 1400
            assert read_sysctl(f"ipv6/conf/{config.bridge}/disable_ipv6") == "1"


@on_a_host_of_its_own
def test_the_smallest_of_several_ways_out_decides() -> None:
    with node_network(node_config()) as config, Links() as links:
        links.add("second", "bridge", mtu=1300)
        links.add_address("second", "198.51.100.1", 24)
        links.set("second", state="up")
        several = ["nexthop", "via", "192.0.2.1", "dev", "uplink", "nexthop", "via", "198.51.100.2", "dev", "second"]
        subprocess.run(["ip", "route", "replace", "default", *several], check=True)
        ensure_node_network(config)
        bridge = links.find(config.bridge)
        assert bridge is not None
        assert bridge.mtu == 1300


def command(line: str) -> None:
    subprocess.run(line.split(), check=True, capture_output=True)


UNDONE = {
    "nft flush ruleset": 3,
    "nft flush table ip kvedge_forward": 1,
    "nft delete table ip kvedge_forward": 1,
    "nft flush table ip {0}": 1,
    "nft delete table bridge {0}": 1,
    "sysctl -qw net.ipv4.ip_forward=0": 1,
    "ip link del {0}": 5,
    "ip link set {0} down": 1,
    "ip address flush dev {0}": 1,
    "ip link set {0} type bridge mcast_snooping 1": 1,
    "ip link set {1} type bridge_slave learning on": 1,
    "ip link set {1} nomaster": 1,
    "ip link set {1} down": 1,
}


@pytest.mark.parametrize("line", UNDONE)
@on_a_host_of_its_own
def test_what_others_undo_is_put_back_under_running_pods(line: str) -> None:
    with node_network(node_config()) as config:
        pods = tuple(f"{config.netns_prefix}{letter}" for letter in "ab")
        for name, address, mac in zip(pods, ADDRESSES, MACS, strict=True):
            attach_pod(config, name, address, mac)
        before = sorted(ruleset().splitlines())
        assert heal_node_network(config).healed == ()
        command(line.format(config.bridge, port_name(config.bridge, pods[0])))
        assert len(heal_node_network(config).healed) == UNDONE[line]
        assert sorted(ruleset().splitlines()) == before
        assert heal_node_network(config).healed == ()
        assert read_sysctl("ipv4/ip_forward") == "1"
        assert ping(pods[0], ADDRESSES[1])
        assert ping(pods[0], GATEWAY)


@on_a_host_of_its_own
def test_a_pod_whose_table_was_taken_away_can_be_detached() -> None:
    with node_network(node_config()) as config:
        pod = f"{config.netns_prefix}a"
        attach_pod(config, pod, ADDRESSES[0], MACS[0])
        command("nft flush ruleset")
        detach_pod(config, pod)
        assert left_of(config) == []


@on_a_host_of_its_own
def test_pods_come_and_go_while_tables_are_put_back_and_none_loses_what_it_may_say() -> None:
    with node_network(node_config()) as config, ThreadPoolExecutor(1) as other:
        this_host = Path(f"/proc/self/task/{threading.get_native_id()}/ns/net")
        pods = [f"{config.netns_prefix}p{number}" for number in range(12)]

        def attach_all() -> None:
            for number, pod in enumerate(pods):
                attach_pod(config, pod, f"10.201.77.{20 + number}")

        attaching = other.submit(run_in_netns, this_host, attach_all)
        while not attaching.done():
            with suppress(subprocess.CalledProcessError):
                command(f"nft flush table bridge {config.table}")
            heal_node_network(config)
        attaching.result()
        heal_node_network(config)
        assert [pod for pod in pods if not ping(pod, GATEWAY)] == []


@on_a_host_of_its_own
def test_of_two_pods_with_one_mac_each_may_speak_while_it_is_there() -> None:
    with node_network(node_config()) as config:
        pods = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for pod, address in zip(pods, ADDRESSES, strict=True):
            attach_pod(config, pod, address, MACS[0])
        assert ping(pods[0], GATEWAY)
        detach_pod(config, pods[0])
        assert ruleset().count(MACS[0]) == 1
        assert ping(pods[1], GATEWAY)
        detach_pod(config, pods[1])
        assert MACS[0] not in ruleset()


@on_a_host_of_its_own
def test_two_instances_live_side_by_side_and_the_last_one_puts_forwarding_back() -> None:
    before = host_state()
    first, second = node_config("x"), node_config("y", "10.201.78.0/24")
    with node_network(second):
        with node_network(first):
            attach_pod(first, f"{first.netns_prefix}a", ADDRESSES[0], MACS[0])
            attach_pod(second, f"{second.netns_prefix}a", "10.201.78.9", MACS[0])
        assert second.bridge in host_state()["links"]  # type: ignore[operator]
        assert host_state()["ip_forward"] == "1"
        assert ping(f"{second.netns_prefix}a", "10.201.78.1")
        assert first.table not in ruleset()
    assert host_state() == before


@on_a_host_of_its_own
def test_a_range_that_this_host_uses_is_refused_and_nothing_is_made() -> None:
    before = host_state()
    config = node_config(cidr=UPLINK_NETWORK)
    with pytest.raises(OverlapError, match="--pod-cidr"):
        ensure_node_network(config)
    assert host_state() == before


@on_a_host_of_its_own
def test_a_vpns_routes_keep_no_box_from_starting_and_are_named() -> None:
    config = node_config()
    with Links() as links:
        for wide in ("0.0.0.0/1", "128.0.0.0/1", "10.0.0.0/8"):
            links.add_route(wide, "192.0.2.1", "uplink")
    with node_network(config):
        assert ensure_node_network(config).overlaps == ("10.0.0.0/8 of uplink",)
        with Links() as links:
            links.add_route(config.cidr, "192.0.2.1", "uplink", 50)
        assert ensure_node_network(config).overlaps == ("10.0.0.0/8 of uplink", f"{config.cidr} of uplink")


@on_a_host_of_its_own
def test_foreign_filters_that_drop_forwarded_packets_are_named() -> None:
    config = node_config()
    table = f"{config.table}_foreign"
    commands = (
        f"add table inet {table}\nadd chain inet {table} fw {{ type filter hook forward priority 5; policy drop; }}\n"
    )
    with node_network(config):
        subprocess.run(["nft", "-f", "-"], input=commands, text=True, check=True)
        assert ensure_node_network(config).blockers == (f"inet/{table}/fw",)
        subprocess.run(["nft", "delete", "table", "inet", table], check=True)
        assert ensure_node_network(config).blockers == ()
        # By its name: its chains drop by rules.
        assert not has_firewalld()
        subprocess.run(["nft", "add", "table", "inet", "firewalld"], check=True)
        assert has_firewalld()


@pytest.mark.parametrize(("chain", "left"), [("nat hook postrouting", "1"), ("filter hook forward", "0")])
@on_a_host_of_its_own
def test_forwarding_is_left_to_those_who_translate_addresses(
    chain: str, left: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = node_config()
    table = f"{config.table}_foreign"
    command("sysctl -qw net.ipv4.ip_forward=0")
    with node_network(config):
        commands = f"add table ip {table}\nadd chain ip {table} any {{ type {chain} priority 0; }}\n"
        subprocess.run(["nft", "-f", "-"], input=commands, text=True, check=True)
    assert read_sysctl("ipv4/ip_forward") == left
    assert [vars(record)["facts"] for record in caplog.records] == [{"tables": f"ip/{table}"}] * int(left)


@on_a_host_of_its_own
def test_foreign_tables_and_links_survive_removal() -> None:
    config = node_config()
    foreign = f"{config.table}2"
    subprocess.run(["nft", "add", "table", "bridge", foreign], check=True)
    with node_network(config):
        assert f"table bridge {config.table} " in ruleset()
    assert f"table bridge {foreign} " in ruleset()
    assert f"table bridge {config.table} " not in ruleset()


@on_a_host_of_its_own
def test_an_attachment_to_a_bridge_that_is_gone_is_an_error_that_names_it() -> None:
    with node_network(node_config()) as config:
        with Links() as links:
            links.delete(config.bridge)
        with pytest.raises(NetworkError, match=config.bridge):
            attach_pod(config, f"{config.netns_prefix}a", ADDRESSES[0], MACS[0])


VICTIM_IP, VICTIM_MAC = ADDRESSES[1], MACS[1]
OWN_IP, OWN_MAC = ADDRESSES[0], MACS[0]
MARKER = b"spoofing-test"


def packet(source_mac: str, source_ip: str) -> Packet:
    return Ether(src=source_mac, dst=BROADCAST) / IP(src=source_ip, dst="10.201.77.255") / UDP(dport=9) / Raw(MARKER)


def arp(frame_mac: str, mac: str, address: str, kind: str = "who-has") -> Packet:
    return Ether(src=frame_mac, dst=BROADCAST) / ARP(op=kind, hwsrc=mac, psrc=address, pdst="10.201.77.200")


SPOOFED = {
    "another Pod's address": packet(OWN_MAC, VICTIM_IP),
    "the gateway's address": packet(OWN_MAC, GATEWAY),
    "an address of nobody": packet(OWN_MAC, "10.201.77.99"),
    "an address of elsewhere": packet(OWN_MAC, "8.8.8.8"),
    "another Pod's MAC": packet(VICTIM_MAC, OWN_IP),
    "another Pod altogether": packet(VICTIM_MAC, VICTIM_IP),
    "a MAC that nobody has": packet("02:11:22:33:44:55", OWN_IP),
    "ARP with a MAC inside that nobody has": arp(OWN_MAC, "02:11:22:33:44:55", OWN_IP, "is-at"),
    "ARP for another's address": arp(OWN_MAC, OWN_MAC, VICTIM_IP),
    "ARP for the gateway's address": arp(OWN_MAC, OWN_MAC, GATEWAY, "is-at"),
    "ARP with another's MAC inside": arp(OWN_MAC, VICTIM_MAC, OWN_IP, "is-at"),
    "ARP of another altogether": arp(VICTIM_MAC, VICTIM_MAC, VICTIM_IP, "is-at"),
    "a VLAN's address of another": Ether(src=OWN_MAC, dst=BROADCAST)
    / Dot1Q(vlan=5)
    / IP(src=VICTIM_IP, dst="10.201.77.255")
    / UDP(dport=9)
    / Raw(MARKER),
    "IPv6, which no rule looks into": Ether(src=OWN_MAC, dst="33:33:00:00:00:01")
    / IPv6(src="fe80::1", dst="ff02::1")
    / UDP(dport=9)
    / Raw(MARKER),
    "another protocol": Ether(src=OWN_MAC, dst=BROADCAST, type=0x88B5) / Raw(MARKER),
}
HONEST = {
    "its own address": packet(OWN_MAC, OWN_IP),
    "ARP for its own address": arp(OWN_MAC, OWN_MAC, OWN_IP),
    "a probe before it has an address": arp(OWN_MAC, OWN_MAC, "0.0.0.0"),
}


def arrives(pods: tuple[str, str], frame: Packet) -> bool:
    """Whether the second Pod sees what the first one sends; an honest frame behind it says when to stop waiting."""
    last = arp(OWN_MAC, OWN_MAC, OWN_IP)
    last[ARP].pdst = "10.201.77.201"
    with wire(pods[1], "eth0") as victim, wire(pods[0], "eth0") as sender:
        sender.send(frame)
        sender.send(last)
        wanted = bytes(frame)[14:40]
        found = victim.first(lambda each: wanted in bytes(each) or (ARP in each and each[ARP].pdst == "10.201.77.201"))
        assert found is not None, "not even the honest frame arrived"
        return wanted in bytes(found)


@pytest.mark.parametrize("what", list(SPOOFED))
def test_a_pod_cannot_speak_as(what: str, config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    assert not arrives(pods, SPOOFED[what])


@pytest.mark.parametrize("what", list(HONEST))
def test_a_pod_may_speak_with(what: str, config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    assert arrives(pods, HONEST[what])


def test_a_pod_cannot_speak_as_the_gateways_mac(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    mac = stable_mac(config.bridge)
    assert ip_json(None, "link", "show", config.bridge)[0]["address"] == mac
    assert not arrives(pods, packet(mac, OWN_IP))
    assert ping(pods[1], GATEWAY)


def test_the_host_itself_believes_no_spoofed_address(config: NodeNetworkConfig, pods: tuple[str, str]) -> None:
    with run_in_netns(netns_path(pods[0]), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as sending:
        run_in_netns(netns_path(pods[0]), lambda: sending.bind(("eth0", 0)))
        with wire(None, config.bridge) as host:
            for source in (VICTIM_IP, OWN_IP):
                frame = (
                    Ether(src=OWN_MAC, dst=stable_mac(config.bridge))
                    / IP(src=source, dst=GATEWAY)
                    / ICMP()
                    / Raw(MARKER)
                )
                sending.send(bytes(frame))
            seen = host.first(lambda each: ICMP in each and each[ICMP].type == 8)
            assert seen is not None
            assert seen[IP].src == OWN_IP


def delivered(sender: socket.socket, receiver: socket.socket, address: tuple[str, int]) -> int:
    """How many of 300 datagrams that are sent at once arrive."""
    for _ in range(300):
        with suppress(OSError):
            sender.sendto(bytes(1000), address)
    receiver.settimeout(0.5)
    count = 0
    with suppress(TimeoutError):
        while receiver.recv(2000):
            count += 1
    return count


def udp_socket(address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 7777))
    return made


@pytest.mark.parametrize("limits", [Bandwidth(ingress=1000), Bandwidth(egress=1000)], ids=["ingress", "egress"])
def test_a_pod_is_held_to_its_bandwidth_in_the_direction_that_is_limited(
    config: NodeNetworkConfig, limits: Bandwidth
) -> None:
    pod = f"{config.netns_prefix}slow"
    for _ in range(2):
        # As an agent that is started again does.
        attach_pod(config, pod, ADDRESSES[0], MACS[0], bandwidth=limits)
    with udp_socket(GATEWAY) as host, run_in_netns(netns_path(pod), lambda: udp_socket(ADDRESSES[0])) as guest:
        into = delivered(host, guest, (ADDRESSES[0], 7777))
        out = delivered(guest, host, (GATEWAY, 7777))
    # Bucket and queue hold 10 KB each.
    limited, free = (into, out) if limits.ingress else (out, into)
    assert 0 < limited < 30 < free
