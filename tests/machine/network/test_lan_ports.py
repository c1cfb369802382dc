"""NICs of Pods on bridges of the host: real bridges, namespaces and filters, with a binding and a guest's frames."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_RA, IPv6
from scapy.layers.l2 import ARP, LLC, Dot1AD, Dot1Q, Dot3, Ether
from scapy.packet import Packet, Raw

from kvedge.network.apply_step import apply_step
from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.drop_rules import DROPPED, WORDS, Reason, drops_by_link
from kvedge.network.errors import MacInUseError, NetworkError
from kvedge.network.insight.cut_off import NicSeen
from kvedge.network.insight.cut_off_reader import NodeLinks, ends_of
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import LanConfig
from kvedge.network.lan.lan_plan import LanPort, lan_port, lan_port_name, lan_prefix, lan_table_of
from kvedge.network.lan.lan_ports import (
    attach_lan,
    detach_lan,
    heal_lan,
    lan_ports,
    lan_ports_here,
    remove_lan,
    switch_lan,
)
from kvedge.network.lan.lan_rules import lan_keys
from kvedge.network.lan.node_lans import (
    NODE_LANS,
    NodeLansKeeper,
    has_nic,
    join_nic,
    joined_nics,
    leave_all,
    leave_nic,
)
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.nft.nft_edge import change_elements, list_counts, list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.steps import Step
from tests.machine.network.frames import BROADCAST, wire
from tests.machine.network.own_host import host_state, on_a_host_of_its_own
from tests.support.pictures import ip_json
from tests.support.pod_world import node_config
from tests.support.values import replace
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

MACS = ("52:54:00:77:12:01", "52:54:00:77:12:02")
ADDRESSES = ("192.0.2.71", "192.0.2.72")
NIC = "pod0123456789a"
MADE = LanConfig(bridge="bkvlan1", made=True, servers=True)
LAN = LanConfig(bridge="bkvlan2")


@pytest.fixture
def config() -> Iterator[NodeNetworkConfig]:
    """The box's name for what it makes; nothing of it is left in the end."""
    made = node_config("l")
    try:
        yield made
    finally:
        remove_lan(made)
        for letter in "abc":
            delete_netns(f"{made.netns_prefix}{letter}")
    # Boxes of other tests come and go on this host meanwhile.
    ports = {lan_port_name(made, f"{made.netns_prefix}{letter}", NIC) for letter in "abc"}
    assert {MADE.bridge, *ports}.isdisjoint(map(str, links_of_host()))
    assert list_tables(Family.BRIDGE, lan_table_of(made).name) == []


@pytest.fixture
def host_bridge() -> Iterator[str]:
    """A bridge that is the operator's."""
    with Links() as links:
        links.add(LAN.bridge, "bridge", br_mcast_snooping=0)
        links.set(LAN.bridge, state="up")
        yield LAN.bridge
        links.delete(LAN.bridge)


def pod(config: NodeNetworkConfig, letter: str, network: LanConfig, mac: str) -> LanPort:
    """A Pod with a NIC on that network."""
    netns = f"{config.netns_prefix}{letter}"
    create_netns(netns)
    port = lan_port(netns, NIC, mac, network)
    attach_lan(config, port)
    name = lan_port_name(config, netns, NIC)
    wait_until(lambda: port_state(name) == "forwarding", "the port forwards")
    return port


def port_state(name: str) -> object:
    info = ip_json(None, "link", "show", name)[0]["linkinfo"]
    assert isinstance(info, dict)
    return info["info_slave_data"]["state"]


def give(port: LanPort, address: str) -> None:
    """An address, as a guest behind the NIC would have it."""

    def inside() -> None:
        with Links() as links:
            links.add_address(port.interface, address, 24)

    run_in_netns(netns_path(port.netns), inside)


def ping(port: LanPort, address: str) -> bool:
    command = ["busybox", "ping", "-c", "1", "-W", "2", address]
    done = run_in_netns(netns_path(port.netns), lambda: subprocess.run(command, capture_output=True, check=False))
    return done.returncode == 0


def two(config: NodeNetworkConfig, *networks: LanConfig) -> list[LanPort]:
    """Two Pods with an address each."""
    ports = [pod(config, letter, each, mac) for letter, each, mac in zip("ab", networks, MACS, strict=True)]
    for port, address in zip(ports, ADDRESSES, strict=True):
        give(port, address)
    return ports


def test_pods_reach_each_other_on_a_bridge_that_comes_and_goes_with_them(config: NodeNetworkConfig) -> None:
    one, other = two(config, MADE, MADE)
    assert ping(one, ADDRESSES[1])
    assert lan_ports(config, one.netns) == [one]
    assert [each["addr_info"] for each in ip_json(None, "addr", "show", MADE.bridge)] == [[]]
    detach_lan(config, one.netns)
    assert lan_ports(config, one.netns) == []
    assert MADE.bridge in links_of_host()
    detach_lan(config, other.netns)
    assert MADE.bridge not in links_of_host()


def links_of_host() -> list[object]:
    return [link["ifname"] for link in ip_json(None, "link")]


def test_the_host_is_a_neighbour_on_its_own_bridge_and_not_among_guests(
    config: NodeNetworkConfig, host_bridge: str
) -> None:
    """A host answers for its addresses on any link: a guest's neighbour could have one of them."""
    with Links() as links:
        links.add_address(host_bridge, ADDRESSES[1], 32)
    ports = [pod(config, letter, each, mac) for letter, each, mac in zip("ab", (LAN, MADE), MACS, strict=True)]
    for port in ports:
        give(port, ADDRESSES[0])
    # What the host would answer with: a way back to the address that asks.
    subprocess.run(["ip", "route", "add", f"{ADDRESSES[0]}/32", "dev", host_bridge], check=True)
    assert ping(ports[0], ADDRESSES[1])
    asks = Ether(src=MACS[1], dst=BROADCAST) / ARP(hwsrc=MACS[1], psrc=ADDRESSES[0], pdst=ADDRESSES[1])
    with wire(ports[1].netns, NIC) as guest:
        guest.send(asks)
        # Nobody is there to answer.
        assert guest.first(lambda each: ARP in each and each[ARP].op == 2, 2.0) is None
    with wire(ports[0].netns, NIC) as guest:
        guest.send(Ether(src=MACS[0], dst=BROADCAST) / ARP(hwsrc=MACS[0], psrc=ADDRESSES[0], pdst=ADDRESSES[1]))
        assert guest.first(lambda each: ARP in each and each[ARP].op == 2) is not None


@pytest.fixture
def vlan_bridge(host_bridge: str) -> str:
    """The same, on a kernel that keeps VLANs apart."""
    with Links() as links:
        try:
            links.set_bridge(host_bridge, br_vlan_filtering=1)
        except NetworkError:
            pytest.skip("this kernel has no CONFIG_BRIDGE_VLAN_FILTERING")
    return host_bridge


def vlans_of(port: LanPort, config: NodeNetworkConfig) -> str:
    command = ["bridge", "vlan", "show", "dev", lan_port_name(config, port.netns, NIC)]
    return " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_a_vlan_of_a_bridge_is_a_network_of_its_own(config: NodeNetworkConfig, vlan_bridge: str) -> None:
    seventh = LanConfig(bridge=vlan_bridge, vlan=7)
    one, other = two(config, seventh, LAN)
    assert not ping(one, ADDRESSES[1])
    detach_lan(config, other.netns)
    delete_netns(other.netns)
    other = pod(config, "b", seventh, MACS[1])
    give(other, ADDRESSES[1])
    assert ping(one, ADDRESSES[1])
    assert vlans_of(one, config).endswith(f"{lan_port_name(config, one.netns, NIC)} 7 PVID Egress Untagged")


def test_a_nic_goes_to_another_bridge_with_all_that_is_bound_to_it(config: NodeNetworkConfig, host_bridge: str) -> None:
    one, other = two(config, LAN, MADE)
    before = inside_of(one)
    assert not ping(one, ADDRESSES[1])
    switch_lan(config, replace(one, network=MADE))
    assert lan_ports(config, one.netns) == [replace(one, network=MADE)]
    wait_until(lambda: ping(one, ADDRESSES[1]), "it reaches its new neighbour", 30)
    for port in (one, other):
        switch_lan(config, replace(port, network=LAN))
    wait_until(lambda: ping(one, ADDRESSES[1]), "they are on the operator's bridge", 30)
    assert (MADE.bridge in links_of_host(), host_bridge) == (False, LAN.bridge)
    assert inside_of(one) == before


class Cut(Exception):
    """Stands for a kill between two steps."""


@pytest.mark.parametrize("heals", [False, True])
def test_a_switch_that_is_cut_at_any_step_is_taken_back_whole(
    config: NodeNetworkConfig, host_bridge: str, monkeypatch: pytest.MonkeyPatch, heals: bool
) -> None:
    one, other = two(config, LAN, LAN)
    wanted = replace(one, network=MADE, number=2)
    one = replace(one, number=1)
    switch_lan(config, one)
    name = lan_port_name(config, one.netns, NIC)
    for cut_at in range(1, 20):
        done = 0

        def apply_or_cut(links: Links, step: Step, cut_at: int = cut_at) -> None:
            nonlocal done
            if done == cut_at:
                raise Cut
            done += 1
            apply_step(links, step)

        with monkeypatch.context() as patch, contextlib.suppress(Cut):
            patch.setattr("kvedge.network.lan.lan_ports.apply_step", apply_or_cut)
            switch_lan(config, wanted)
        (present,) = lan_ports(config, one.netns)
        if heals:
            heal_lan(config)
            assert bool(servers_of(config)) == present.network.servers
        # As `follow_networks` does.
        if present.number == one.number:
            attach_lan(config, present)
        else:
            switch_lan(config, one)
        assert lan_ports(config, one.netns) == [one]
        assert ip_json(None, "link", "show", name)[0]["master"] == LAN.bridge
        assert servers_of(config) == []
        if done < cut_at:
            break
    assert cut_at > 4
    wait_until(lambda: ping(one, ADDRESSES[1]), "it reaches its neighbour again", 30)
    assert MADE.bridge not in links_of_host()
    assert other in lan_ports(config, other.netns)


def servers_of(config: NodeNetworkConfig) -> list[object]:
    """The ports that may be servers, as the kernel has them."""
    table = lan_table_of(config).name
    told = subprocess.run(
        ["nft", "-j", "list", "set", "bridge", table, "servers"], check=True, capture_output=True, text=True
    )
    found = next(each["set"] for each in json.loads(told.stdout)["nftables"] if "set" in each)
    return list(found.get("elem", []))


def test_a_nic_goes_to_another_vlan_of_its_bridge(config: NodeNetworkConfig, vlan_bridge: str) -> None:
    one, other = two(config, LanConfig(bridge=vlan_bridge, vlan=7), LanConfig(bridge=vlan_bridge, vlan=8))
    switch_lan(config, replace(one, network=other.network))
    wait_until(lambda: ping(one, ADDRESSES[1]), "it reaches its new neighbour", 30)
    assert "7" not in vlans_of(one, config).split()


def test_a_trunk_is_in_its_vlans_and_in_no_other(config: NodeNetworkConfig, vlan_bridge: str) -> None:
    one = pod(config, "a", LanConfig(bridge=vlan_bridge, vlan=5, trunk=((7, 8),)), MACS[0])
    for letter, vlan, sent, heard in (("b", 7, (7,), True), ("b", 6, (6,), False), ("b", 5, (), True)):
        other = pod(config, letter, LanConfig(bridge=vlan_bridge, vlan=vlan), MACS[1])
        frame = plain(one.mac) if not sent else tagged(plain(one.mac), *sent)
        with wire(other.netns, NIC) as hears, wire(one.netns, NIC) as speaks:
            speaks.send(frame)
            got = hears.first(lambda each: each.src == one.mac and IP in each, 2.0)
        assert (got is not None) == heard
        assert got is None or Dot1Q not in got
        detach_lan(config, other.netns)
        delete_netns(other.netns)


def test_a_vlan_lost_with_its_bridge_is_put_back(config: NodeNetworkConfig, vlan_bridge: str) -> None:
    port = pod(config, "a", LanConfig(bridge=vlan_bridge, vlan=7), MACS[0])
    before = vlans_of(port, config)
    with Links() as links:
        links.set(lan_port_name(config, port.netns, NIC), master=0)
    heal_lan(config)
    assert vlans_of(port, config) == before


def test_a_vlan_needs_a_bridge_that_keeps_vlans_apart(config: NodeNetworkConfig, host_bridge: str) -> None:
    create_netns(f"{config.netns_prefix}a")
    wanted = lan_port(f"{config.netns_prefix}a", NIC, MACS[0], LanConfig(bridge=host_bridge, vlan=7))
    with pytest.raises(NetworkError, match="it does not keep VLANs apart, and VLAN 7 is wanted"):
        attach_lan(config, wanted)


def test_ports_that_are_isolated_reach_the_lan_and_not_each_other(config: NodeNetworkConfig, host_bridge: str) -> None:
    apart = LanConfig(bridge=host_bridge, isolates_ports=True)
    one, other = two(config, apart, apart)
    third = pod(config, "c", LAN, "52:54:00:77:12:03")
    give(third, "192.0.2.73")
    assert not ping(one, ADDRESSES[1])
    assert ping(one, "192.0.2.73")
    assert ping(other, "192.0.2.73")


def dhcp_offer(source: str) -> Packet:
    reply = BOOTP(op=2, yiaddr="192.0.2.99", chaddr=bytes.fromhex("525400771209"))
    packet = IP(src=ADDRESSES[0], dst="255.255.255.255") / UDP(sport=67, dport=68) / reply
    return Ether(src=source, dst=BROADCAST) / packet / DHCP(options=[("message-type", "offer"), "end"])


def advertisement(source: str) -> Packet:
    return Ether(src=source, dst="33:33:00:00:00:01") / IPv6(src="fe80::1", dst="ff02::1") / ICMPv6ND_RA()


def plain(source: str) -> Packet:
    return (
        Ether(src=source, dst=BROADCAST) / IP(src="192.0.2.200", dst="192.0.2.255") / UDP(sport=9, dport=9) / Raw(b"x")
    )


HOSTILE: dict[str, Callable[[str], Packet]] = {
    "another's MAC": lambda mac: plain("52:54:00:77:12:99"),
    "another's MAC in ARP": lambda mac: (
        Ether(src=mac, dst=BROADCAST) / ARP(hwsrc="52:54:00:77:12:99", psrc="192.0.2.1")
    ),
    "a VLAN's tag": lambda mac: Ether(src=mac, dst=BROADCAST) / Dot1Q(vlan=9) / IP(dst="192.0.2.255") / Raw(b"x"),
    "a provider's tag": lambda mac: Ether(src=mac, dst=BROADCAST) / Dot1AD(vlan=9) / IP(dst="192.0.2.255") / Raw(b"x"),
    "spanning tree": lambda mac: Dot3(src=mac, dst="01:80:c2:00:00:00") / LLC() / Raw(b"\0" * 35),
}
SERVERS: dict[str, Callable[[str], Packet]] = {"DHCP": dhcp_offer, "router advertisement": advertisement}


def arrives(sender: LanPort, receiver: LanPort, frame: Packet, tags: int = 0, own: str = "") -> bool:
    """Whether a frame arrives; one that is known to arrive is sent after it, so that nothing is waited for in vain.

    It is known by what is behind its tags: the kernel takes the first one off before somebody listens.
    """
    said = Raw(b"marker".ljust(46, b"\0"))
    marker = Ether(src=sender.mac, dst=BROADCAST, type=0x88B5) / said
    if own:
        # All that one may say that is kept to its address.
        marker = Ether(src=sender.mac, dst=BROADCAST) / IP(src=own, dst="192.0.2.255") / UDP(sport=7, dport=7) / said
    with wire(receiver.netns, NIC) as hears, wire(sender.netns, NIC) as speaks:
        speaks.send(frame)
        speaks.send(marker)
        wanted = bytes(frame)[14 + 4 * tags : 40]
        first = hears.first(lambda each: wanted in bytes(each) or b"marker" in bytes(each))
    assert first is not None
    return b"marker" not in bytes(first)


@pytest.mark.usefixtures("host_bridge")
def test_a_hostile_guest_is_not_heard_on_the_lan(config: NodeNetworkConfig) -> None:
    one, other = two(config, LAN, LAN)
    heard = {name: arrives(one, other, make(one.mac)) for name, make in (HOSTILE | SERVERS).items()}
    assert heard == dict.fromkeys(heard, False)
    name = lan_port_name(config, one.netns, NIC)
    (elements,) = [each for table, each in list_counts(Family.BRIDGE, DROPPED.name).items() if config.table in table]
    found = drops_by_link(elements)
    assert {words: count.packets for words, count in found[name].items()} == {
        WORDS[Reason.MAC]: 1,
        WORDS[Reason.ARP]: 1,
        WORDS[Reason.TAG]: 2,
        WORDS[Reason.BRIDGE]: 1,
        WORDS[Reason.DHCP_SERVER]: 1,
        WORDS[Reason.ROUTER]: 1,
    }
    assert found.keys() == {name}, "the other guest has done nothing"
    # Any address: nobody gives it one.
    assert arrives(one, other, plain(one.mac))


def test_a_guest_of_a_network_with_addresses_has_its_own_and_speaks_with_no_other(
    config: NodeNetworkConfig, host_bridge: str, tmp_path: Path
) -> None:
    given = LanAddresses(subnet="192.0.2.0/24", first=ADDRESSES[0], last=ADDRESSES[1], gateway="192.0.2.1")
    network = replace(LAN, addresses=given, filters=True)
    ports = []
    for letter, mac, address in zip("ab", MACS, ADDRESSES, strict=True):
        netns = f"{config.netns_prefix}{letter}"
        create_netns(netns)
        ports.append(lan_port(netns, NIC, mac, network, address))
        attach_lan(config, ports[-1])
        attach_lan(config, ports[-1])
    one, other = ports
    name = lan_port_name(config, one.netns, NIC)
    wait_until(lambda: port_state(name) == "forwarding", "the port forwards")
    assert lan_ports(config, one.netns) == [replace(one, network=replace(network, addresses=None))]
    assert ping(one, ADDRESSES[1])
    own = ADDRESSES[0]
    hostile = {
        "another's address": Ether(src=one.mac, dst=BROADCAST)
        / IP(src=ADDRESSES[1], dst="192.0.2.255")
        / Raw(b"x" * 20),
        "another's in ARP": Ether(src=one.mac, dst=BROADCAST) / ARP(hwsrc=one.mac, psrc="192.0.2.1", pdst="192.0.2.9"),
        "IPv6": Ether(src=one.mac, dst=BROADCAST) / IPv6(src="2001:db8::9", dst="ff02::1") / UDP() / Raw(b"x" * 20),
        "no known protocol": Ether(src=one.mac, dst=BROADCAST, type=0x88B5) / Raw(b"x" * 46),
    }
    hostile |= {what: make(one.mac) for what, make in HOSTILE.items()}
    heard = {what: arrives(one, other, frame, own=own) for what, frame in hostile.items()}
    assert heard == dict.fromkeys(heard, False)
    assert arrives(
        one, other, Ether(src=one.mac, dst=BROADCAST) / IP(src=own, dst="192.0.2.255") / Raw(b"y" * 20), 0, own
    )
    # Of an earlier version, or somebody's doing: a table without all its rules is made anew by the next that comes.
    subprocess.run(["nft", "flush", "chain", "bridge", lan_table_of(config).name, "prerouting"], check=True)
    attach_lan(config, other)
    assert not arrives(one, other, hostile["another's address"], own=own)
    bound = bind_pod_interface(
        netns_path(one.netns), record=tmp_path / "r", pod_interface=NIC, index=1, guest_mac=one.mac
    )
    assert (bound.address, bound.prefix_length, bound.gateway) == (own, 24, "192.0.2.1")
    assert host_bridge == LAN.bridge


def tagged(frame: Packet, *vlans: int) -> Packet:
    """The frame in these VLANs, the first one outside; with room for what a short frame is padded with."""
    inside, kind = frame.payload, frame.type if frame.type is not None else bytes(frame)[12:14]
    made = Ether(src=frame.src, dst=frame.dst)
    for vlan in vlans:
        made = made / Dot1Q(vlan=vlan)
    made.lastlayer().type = kind if isinstance(kind, int) else int.from_bytes(kind)
    return made / inside


def test_a_trunk_lets_its_tags_pass_and_the_filters_hold_behind_them(
    config: NodeNetworkConfig, host_bridge: str
) -> None:
    """This bridge keeps no VLANs apart, as a kernel may be built: what passes it is the filters' doing alone."""
    one, other = two(config, LAN, LAN)
    name = lan_port_name(config, one.netns, NIC)
    keys = lan_keys(name, one.mac, replace(LAN, trunk=((9, 9), (20, 30))))
    change_elements(lan_table_of(config), keys, {})

    def passes(frame: Packet, *vlans: int) -> bool:
        return arrives(one, other, tagged(frame, *vlans), len(vlans))

    assert {vlan: passes(plain(one.mac), vlan) for vlan in (8, 9, 10, 19, 20, 30, 31)} == {
        8: False, 9: True, 10: False, 19: False, 20: True, 30: True, 31: False
    }  # fmt: skip
    assert not passes(plain(one.mac), 9, 9), "a tag behind a tag"
    spoofed = {key: HOSTILE[key](one.mac) for key in ("another's MAC", "another's MAC in ARP")}
    wrong = spoofed | {key: make(one.mac) for key, make in SERVERS.items()}
    assert {key: passes(frame, 9) for key, frame in wrong.items()} == dict.fromkeys(wrong, False)
    assert host_bridge == LAN.bridge


def test_guests_among_themselves_may_be_servers_and_nothing_else(config: NodeNetworkConfig) -> None:
    one, other = two(config, MADE, MADE)
    heard = {name: arrives(one, other, make(one.mac)) for name, make in (HOSTILE | SERVERS).items()}
    assert heard == dict.fromkeys(HOSTILE, False) | dict.fromkeys(SERVERS, True)


def mtu_of(netns: str | None, name: str) -> object:
    return ip_json(netns, "link", "show", name)[0]["mtu"]


def test_an_mtu_of_a_network_is_its_guests_and_not_the_bridges(config: NodeNetworkConfig, host_bridge: str) -> None:
    port = pod(config, "a", LanConfig(bridge=host_bridge, mtu=1280), MACS[0])
    name = lan_port_name(config, port.netns, NIC)
    assert (mtu_of(port.netns, NIC), mtu_of(None, name), mtu_of(None, host_bridge)) == (1280, 1500, 1500)
    create_netns(f"{config.netns_prefix}b")
    larger = lan_port(f"{config.netns_prefix}b", NIC, MACS[1], LanConfig(bridge=host_bridge, mtu=9000))
    with pytest.raises(NetworkError, match="its MTU is 1500, and 9000 is wanted"):
        attach_lan(config, larger)


def test_a_bridge_of_ours_that_is_put_back_has_its_networks_mtu(config: NodeNetworkConfig) -> None:
    port = pod(config, "a", replace(MADE, mtu=9000), MACS[0])
    with Links() as links:
        links.delete(MADE.bridge)
    assert f"{MADE.bridge} was gone" in heal_lan(config).healed
    assert (mtu_of(port.netns, NIC), mtu_of(None, MADE.bridge)) == (9000, 9000)


def inside_of(port: LanPort) -> list[tuple[object, ...]]:
    """The links of a Pod; a carrier comes some time after its link is up."""
    links = ip_json(port.netns, "link")
    flags = [set(each["flags"]) - {"NO-CARRIER", "LOWER_UP"} for each in links]
    return [
        (each["ifname"], each["address"], each.get("master"), flag) for each, flag in zip(links, flags, strict=True)
    ]


def test_a_bound_nic_stays_bound_and_its_guest_is_on_the_lan(
    config: NodeNetworkConfig, host_bridge: str, tmp_path: Path
) -> None:
    port = pod(config, "a", LAN, MACS[0])
    bound = bind_pod_interface(
        netns_path(port.netns), record=tmp_path / "r", pod_interface=NIC, index=1, guest_mac=MACS[0]
    )
    assert (bound.tap, bound.mac, bound.address, bound.ipv6) == ("tap0123456789a", MACS[0], "", None)
    before = inside_of(port)
    # The agent was started again.
    attach_lan(config, port)
    assert inside_of(port) == before
    assert lan_ports(config, port.netns) == [port]
    # A guest's frame, from where QEMU would send it.
    other = pod(config, "b", LAN, MACS[1])

    def plug() -> None:
        with Links() as links:
            links.add_veth("plug0", "guest0", netns_path(port.netns), peer_mac=MACS[0], mtu=1500)
            links.enslave("plug0", bound.bridge)
            links.set("plug0", state="up")
            links.set("guest0", state="up")

    run_in_netns(netns_path(port.netns), plug)
    wait_until(lambda: ip_json(port.netns, "link", "show", "plug0")[0]["operstate"] == "UP", "the guest is plugged in")
    with wire(other.netns, NIC) as hears, wire(port.netns, "guest0") as guest:

        def heard() -> bool:
            guest.send(plain(MACS[0]))
            return hears.first(lambda each: each.src == MACS[0], 1.0) is not None

        wait_until(heard, "the LAN hears the guest")
        hears_back = Ether(src=MACS[1], dst=MACS[0]) / IP(dst="192.0.2.200") / UDP(dport=7) / Raw(b"back")
        hears.send(hears_back)
        assert guest.first(lambda each: b"back" in bytes(each)) is not None


def test_what_others_undo_is_put_back(config: NodeNetworkConfig, host_bridge: str) -> None:
    one, other = two(config, MADE, MADE)
    third = pod(config, "c", LAN, "52:54:00:77:12:03")
    assert heal_lan(config).healed == ()
    name = lan_port_name(config, third.netns, NIC)
    subprocess.run(["nft", "delete", "table", "bridge", f"{config.table}_lan"], check=True)
    with Links() as links:
        links.delete(MADE.bridge)
        links.set(name, master=0)
    healed = heal_lan(config)
    assert f"{MADE.bridge} was gone" in healed.healed
    assert f"{name} was not on {host_bridge}" in healed.healed
    assert heal_lan(config).healed == ()
    wait_until(lambda: ping(one, ADDRESSES[1]), "the guests reach each other again")
    assert not arrives(one, other, HOSTILE["another's MAC"](one.mac))


def test_a_bridge_that_goes_away_is_told_of(config: NodeNetworkConfig) -> None:
    with Links() as links:
        links.add(LAN.bridge, "bridge")
        links.set(LAN.bridge, state="up")
        pod(config, "a", LAN, MACS[0])
        links.delete(LAN.bridge)
    health = heal_lan(config)
    assert health.healed == ()
    assert health.troubles == (
        "1 guest NICs are cut off: there is no bridge bkvlan2: ENODEV; make it in this host's network configuration,"
        " or a network without it: `kvedge network create NAME`",
    )


def test_a_guest_is_told_that_it_is_cut_off_until_its_bridge_and_its_uplink_are_back(
    config: NodeNetworkConfig,
) -> None:
    """The handler's look at a bridge that loses its uplink, goes, and comes back, and the box that puts its port on."""
    uplink, seen = "cup0", dict[str, NicSeen]()

    def look() -> str:
        seen.update(NodeLinks(time.monotonic).judge(ends, seen))
        return seen[NIC].trouble.partition(";")[0]

    with Links() as links:
        for command in ("cupa type veth peer name cupb", f"link cupa name {uplink} type macvlan mode passthru"):
            subprocess.run(["ip", "link", "add", *command.split()], check=True)
        try:
            make_bridge(links)
            for name in ("cupa", "cupb", uplink):
                links.set(name, state="up")
            links.enslave(uplink, LAN.bridge)
            port = pod(config, "a", LAN, MACS[0])
            ends = ends_of(netns_path(port.netns), {NIC: 1})
            assert look() == ""
            links.set("cupb", state="down")
            wait_until(lambda: look() != "", "the cable is out")
            assert look() == f"no uplink of bridge {LAN.bridge} has a carrier ({uplink})"
            links.set(uplink, master=0)
            assert look() == f"bridge {LAN.bridge} has lost its uplink {uplink}"
            links.delete(LAN.bridge)
            heal_lan(config)
            assert look() == f"there is no bridge {LAN.bridge} on the node"
            make_bridge(links)
            name = lan_port_name(config, port.netns, NIC)
            assert look() == f"its link {name} is not on bridge {LAN.bridge}"
            assert f"{name} was not on {LAN.bridge}" in heal_lan(config).healed
            assert look() == f"bridge {LAN.bridge} has lost its uplink {uplink}"
            links.enslave(uplink, LAN.bridge)
            links.set("cupb", state="up")
            wait_until(lambda: look() == "", "the cable is in again")
        finally:
            links.delete("cupa")
            links.delete(LAN.bridge)


def make_bridge(links: Links) -> None:
    links.add(LAN.bridge, "bridge")
    links.set(LAN.bridge, state="up")


def test_what_cannot_be_joined_leaves_nothing(config: NodeNetworkConfig, host_bridge: str) -> None:
    def ours() -> set[str]:
        # Boxes of other tests come and go on this host meanwhile.
        return {name for name in map(str, links_of_host()) if name.startswith((lan_prefix(config), "bkvnone"))}

    create_netns(f"{config.netns_prefix}a")
    create_netns(f"{config.netns_prefix}b")
    refused = (LanConfig(bridge="bkvnone"), LanConfig(bridge=host_bridge, made=True), LanConfig(bridge="lo"))
    for network in refused:
        with pytest.raises(NetworkError, match=network.bridge):
            attach_lan(config, lan_port(f"{config.netns_prefix}a", NIC, MACS[0], network))
    assert ours() == set()
    attach_lan(config, lan_port(f"{config.netns_prefix}a", NIC, MACS[0], LAN))
    with pytest.raises(MacInUseError):
        attach_lan(config, lan_port(f"{config.netns_prefix}b", NIC, MACS[0], LAN))


@on_a_host_of_its_own
def test_a_host_without_such_networks_has_no_trace_of_them() -> None:
    config = node_config("l")
    before = host_state()
    assert heal_lan(config).troubles == ()
    detach_lan(config, f"{config.netns_prefix}a")
    remove_lan(config)
    assert host_state() == before


@pytest.fixture
def node_pod(config: NodeNetworkConfig) -> Iterator[int]:
    """A Pod of a cluster's node, by a descriptor of its namespace; nothing of the handler's is left in the end."""
    opened = os.open(create_netns(f"{config.netns_prefix}a"), os.O_RDONLY)
    try:
        yield opened
    finally:
        os.close(opened)
        remove_lan(NODE_LANS)
    assert lan_ports_here(NODE_LANS) == {}
    assert list_tables(Family.BRIDGE, lan_table_of(NODE_LANS).name) == []


def test_the_handler_joins_a_pod_of_its_node_and_leaves_nothing_of_one_that_is_gone(
    config: NodeNetworkConfig, host_bridge: str, node_pod: int
) -> None:
    port = lan_port("vmi-1", NIC, MACS[0], LAN)
    join_nic(node_pod, port)
    name = lan_port_name(NODE_LANS, port.netns, NIC)
    before = ip_json(None, "link", "show", name)
    with Links() as links:
        # As a handler leaves it that is killed before it has marked what it made.
        links.set(name, ifalias="")
    assert not has_nic(node_pod, "vmi-1", NIC, 1), "the handler is to go on with its own"
    join_nic(node_pod, port)
    assert ip_json(None, "link", "show", name)[0]["ifindex"] == before[0]["ifindex"]
    assert joined_nics("vmi-1") == {NIC}
    assert has_nic(node_pod, "vmi-2", NIC, 1), "to anybody else it is somebody's"
    other = os.open(create_netns(f"{config.netns_prefix}b"), os.O_RDONLY)
    try:
        join_nic(other, lan_port("vmi-2", NIC, MACS[1], LAN))
        ends = [replace(port, netns=f"{config.netns_prefix}{letter}") for letter in "ab"]
        for end, address in zip(ends, ADDRESSES, strict=True):
            give(end, address)
        wait_until(lambda: ping(ends[0], ADDRESSES[1]), "both ports forward")
        leave_nic(node_pod, "vmi-1", NIC)
        assert lan_ports_here(NODE_LANS).keys() == {lan_port_name(NODE_LANS, "vmi-2", NIC)}
        join_nic(node_pod, port)
        keeper = NodeLansKeeper()
        keeper.look()
        with Links() as links:
            # As the end of a Pod's namespace takes it.
            links.delete(name)
        assert MACS[0] in macs_in_table()
        keeper.look()
        assert MACS[0] not in macs_in_table()
        assert MACS[1] in macs_in_table()
    finally:
        os.close(other)
    leave_all("vmi-2")


def macs_in_table() -> str:
    """What the handler's table says of ports."""
    command = ["nft", "list", "set", "bridge", lan_table_of(NODE_LANS).name, "port_macs"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_no_guest_is_put_beside_the_pods_of_a_node(host_bridge: str, node_pod: int) -> None:
    with Links() as links:
        links.add_veth("bkvend", "eth0", Path(f"/proc/self/fd/{node_pod}"), peer_mac=MACS[1], mtu=1500)
        links.set("bkvend", master=links.index(host_bridge))
    try:
        with pytest.raises(NetworkError, match=rf"cannot join bridge {host_bridge}: the Pods of this node are on it"):
            join_nic(node_pod, lan_port("vmi-1", NIC, MACS[0], LAN))
    finally:
        with Links() as links:
            links.delete("bkvend")
