"""Macvtaps on a NIC of the host: real links and filters, with a guest's frames through the device that QEMU opens."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, LLC, Dot1AD, Dot1Q, Dot3, Ether
from scapy.packet import Packet, Raw

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.binding.macvtap_binding import TapDevice, macvtap_devices
from kvedge.network.binding.ready_tap import ready_tap
from kvedge.network.errors import MacInUseError, NetworkError, UnsuitablePodError
from kvedge.network.lan.macvtap_config import PRIVATE, MacvtapConfig
from kvedge.network.lan.macvtap_plan import MacvtapPort, macvtap_port
from kvedge.network.lan.macvtap_ports import attach_macvtap, detach_macvtaps, macvtap_ports
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.nft.nft_edge import delete_table, list_tables
from kvedge.network.nft.nft_tables import Family
from kvedge.network.pods.attachments import NodeNetworkConfig
from tests.machine.network.frames import BROADCAST, dhcp_frame, offer_frame, wire
from tests.support.pictures import ip_json
from tests.support.pod_world import node_config

pytestmark = pytest.mark.machine

LINK = "pod0123456789a"
MACS = ("52:54:00:77:13:01", "52:54:00:77:13:02")
PEER_MAC = "52:54:00:77:13:99"
# What precedes each frame on the device: a header of offloads, empty here.
HEADER = bytes(10)
# How long nothing is heard of what is dropped, when what was sent after it has come.
SECONDS = 20.0


@dataclass(frozen=True)
class Lan:
    """A NIC of the host, and a namespace with the neighbour at the other end of its cable."""

    config: NodeNetworkConfig
    nic: str
    peer: str

    def network(self, **changed: object) -> MacvtapConfig:
        return MacvtapConfig(nic=self.nic, **changed)  # type: ignore[arg-type]


@pytest.fixture
def lan() -> Iterator[Lan]:
    config = node_config("m")
    made = Lan(config, f"{config.bridge}n"[:15], f"{config.netns_prefix}peer")
    try:
        with Links() as links:
            links.add_veth(made.nic, "eth0", create_netns(made.peer), peer_mac=PEER_MAC, mtu=1500)
            links.set(made.nic, state="up")
        run_in_netns(netns_path(made.peer), lambda: _up("eth0"))
        yield made
    finally:
        for letter in ("a", "b", "peer"):
            delete_netns(f"{config.netns_prefix}{letter}")
        with Links() as links:
            links.delete(made.nic)


def _up(name: str) -> None:
    with Links() as links:
        links.set(name, state="up")


def pod(lan: Lan, letter: str = "a", mac: str = MACS[0], **changed: object) -> MacvtapPort:
    """A Pod that has joined the network, before its guest has."""
    netns = f"{lan.config.netns_prefix}{letter}"
    create_netns(netns)
    port = macvtap_port(netns, LINK, mac, lan.network(**changed))
    attach_macvtap(lan.config, port)
    return port


def bind(port: MacvtapPort, mac: str = "") -> TapDevice:
    """What the handler does, and the device that its launcher gets."""
    path = netns_path(port.netns)
    bound = ready_tap(path, guest_mac=mac or port.mac, asked_mac=True, pod_interface=LINK, index=1)
    assert (bound.tap, bound.bridge, bound.mac, bound.mtu) == (LINK, "", mac or port.mac, 1500)
    return macvtap_devices(path)[LINK]


class Guest:
    """QEMU's end of a macvtap."""

    def __init__(self, opened: int) -> None:
        self._opened = opened

    def send(self, frame: Packet) -> None:
        os.write(self._opened, HEADER + bytes(frame))

    def first(self, wanted: Callable[[Packet], bool]) -> Packet | None:
        deadline = time.monotonic() + SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._opened], [], [], left)[0]:
                frame = Ether(os.read(self._opened, 65535)[len(HEADER) :])
                if wanted(frame):
                    return frame
        return None


@contextmanager
def guest(device: TapDevice, directory: Path) -> Iterator[Guest]:
    node = directory / f"tap{device.index}-{device.number}"
    os.mknod(node, stat.S_IFCHR | 0o600, device.number)
    opened = os.open(node, os.O_RDWR)
    try:
        yield Guest(opened)
    finally:
        os.close(opened)
        node.unlink()


def words(mac: str, text: bytes, dst: str = PEER_MAC) -> Packet:
    return Ether(src=mac, dst=dst) / IP(src="192.0.2.71", dst="192.0.2.9") / UDP(sport=9, dport=9) / Raw(text)


def says(text: bytes) -> Callable[[Packet], bool]:
    return lambda frame: text in bytes(frame)


def test_a_guest_and_the_lan_hear_each_other_in_both_families(lan: Lan, tmp_path: Path) -> None:
    device = bind(pod(lan))
    solicits = (
        Ether(src=PEER_MAC, dst="33:33:ff:00:00:71")
        / IPv6(src="2001:db8::9", dst="ff02::1:ff00:71")
        / ICMPv6ND_NS(tgt="2001:db8::71")
        / ICMPv6NDOptSrcLLAddr(lladdr=PEER_MAC)
    )
    with guest(device, tmp_path) as inside, wire(lan.peer, "eth0") as outside:
        inside.send(words(MACS[0], b"from the guest"))
        assert outside.first(says(b"from the guest")) is not None
        inside.send(Ether(src=MACS[0], dst=PEER_MAC) / IPv6(src="2001:db8::71", dst="2001:db8::9") / Raw(b"six"))
        assert outside.first(says(b"six")) is not None
        outside.send(words(PEER_MAC, b"to the guest", MACS[0]))
        assert inside.first(says(b"to the guest")) is not None
        # The guest has told nobody that it listens to this group.
        outside.send(solicits)
        assert inside.first(lambda frame: ICMPv6ND_NS in frame) is not None


def test_a_hostile_guest_is_not_heard(lan: Lan, tmp_path: Path) -> None:
    mac, other = MACS[0], "52:54:00:66:66:66"
    refused = [
        words(other, b"refused"),
        Ether(src=mac, dst=BROADCAST) / ARP(op=2, hwsrc=other, psrc="192.0.2.9", pdst="192.0.2.1") / Raw(b"refused"),
        Ether(src=mac, dst=BROADCAST) / Dot1Q(vlan=7) / IP(dst="192.0.2.9") / Raw(b"refused"),
        Ether(src=mac, dst=BROADCAST) / Dot1AD(vlan=7) / IP(dst="192.0.2.9") / Raw(b"refused"),
        Dot3(src=mac, dst="01:80:c2:00:00:00") / LLC() / Raw(b"refused"),
        offer_frame(mac, "192.0.2.71", PEER_MAC, "192.0.2.72") / Raw(b"refused"),
        Ether(src=mac, dst="33:33:00:00:00:01") / IPv6(src="fe80::71", dst="ff02::1") / ICMPv6ND_RA() / Raw(b"refused"),
    ]
    # More addresses than a guest has: each neighbour would remember them all.
    flood = [
        Ether(src=mac, dst=BROADCAST) / ARP(hwsrc=mac, psrc=f"198.51.100.{number}", pdst="192.0.2.9")
        for number in range(1, 65)
    ]
    heard: list[Packet] = []

    def is_last(frame: Packet) -> bool:
        heard.append(frame)
        return b"the last" in bytes(frame)

    with guest(bind(pod(lan)), tmp_path) as inside, wire(lan.peer, "eth0") as outside:
        for frame in (*refused, dhcp_frame(mac, "discover"), *flood, words(mac, b"the last")):
            inside.send(frame)
        assert outside.first(is_last) is not None
    said = [frame for frame in heard if frame.src in (mac, other)]
    assert not [frame.summary() for frame in said if b"refused" in bytes(frame)]
    assert len([frame for frame in said if ARP in frame]) == 32
    # Asking for an address is no answer.
    assert len([frame for frame in said if UDP in frame and frame[UDP].dport == 67]) == 1


def test_a_network_may_let_its_guests_be_servers(lan: Lan, tmp_path: Path) -> None:
    offer = offer_frame(MACS[0], "192.0.2.71", PEER_MAC, "192.0.2.72")
    with guest(bind(pod(lan, servers=True)), tmp_path) as inside, wire(lan.peer, "eth0") as outside:
        inside.send(offer)
        assert outside.first(lambda frame: UDP in frame and frame[UDP].dport == 68) is not None


@pytest.mark.parametrize(("mode", "hears"), [({}, True), ({"mode": PRIVATE}, False)], ids=["bridge", "private"])
def test_guests_of_one_nic_reach_each_other_unless_the_network_is_private(
    lan: Lan, tmp_path: Path, mode: dict[str, str], hears: bool
) -> None:
    one, other = bind(pod(lan, "a", MACS[0], **mode)), bind(pod(lan, "b", MACS[1], **mode))
    heard: list[bytes] = []

    def is_last(frame: Packet) -> bool:
        heard.append(bytes(frame))
        return b"the last" in bytes(frame)

    with (
        guest(one, tmp_path) as first,
        guest(other, tmp_path) as second,
        wire(lan.peer, "eth0") as outside,
    ):
        first.send(words(MACS[0], b"to its neighbour", MACS[1]))
        outside.send(words(PEER_MAC, b"the last", MACS[1]))
        assert second.first(is_last) is not None
    assert any(b"to its neighbour" in frame for frame in heard) is hears


def test_what_was_undone_of_a_guests_bounds_is_put_back_and_a_second_look_changes_nothing(
    lan: Lan, tmp_path: Path
) -> None:
    port = pod(lan)
    device = bind(port)
    (table,) = guards(port)
    run_in_netns(netns_path(port.netns), lambda: delete_table(Family.NETDEV, table))
    assert bind(port) == device
    assert guards(port) == [table]
    attach_macvtap(lan.config, port)
    assert macvtap_ports(port.netns) == [port]
    assert bind(port) == device
    with guest(device, tmp_path) as inside, wire(lan.peer, "eth0") as outside:
        inside.send(words("52:54:00:66:66:66", b"refused"))
        inside.send(words(MACS[0], b"the last"))
        found = outside.first(lambda frame: IP in frame and frame[IP].src == "192.0.2.71")
    assert found is not None
    assert b"the last" in bytes(found)


def guards(port: MacvtapPort) -> list[str]:
    return run_in_netns(netns_path(port.netns), lambda: list_tables(Family.NETDEV))


def test_a_link_has_the_mac_that_its_guest_was_given(lan: Lan) -> None:
    port = pod(lan)
    bind(port, MACS[1])
    assert [each.mac for each in macvtap_ports(port.netns)] == [MACS[1]]


def test_two_guests_of_one_nic_do_not_have_one_mac(lan: Lan) -> None:
    bind(pod(lan, "a"))
    with pytest.raises(MacInUseError, match="another macAddress"):
        bind(pod(lan, "b"))


def test_a_nic_that_a_pod_leaves_leaves_nothing(lan: Lan) -> None:
    port = pod(lan)
    first = bind(port)
    detach_macvtaps(port.netns, kept={LINK})
    assert macvtap_ports(port.netns) == [port]
    detach_macvtaps(port.netns)
    assert macvtap_ports(port.netns) == []
    assert ip_json(None, "link", "show", lan.nic)[0].get("allmulti", 0) == 0
    # The next one is another link: the guard of the one before goes.
    attach_macvtap(lan.config, port)
    again = bind(port)
    assert again.index != first.index
    assert len(guards(port)) == 1
    detach_macvtaps(f"{lan.config.netns_prefix}never")


def test_a_nic_that_guests_cannot_share_is_refused_with_what_to_do(lan: Lan) -> None:
    create_netns(f"{lan.config.netns_prefix}a")
    port = macvtap_port(f"{lan.config.netns_prefix}a", LINK, MACS[0], MacvtapConfig(nic="kvt-nowhere"))
    with pytest.raises(NetworkError, match="there is no NIC kvt-nowhere"):
        attach_macvtap(lan.config, port)
    bridge = f"{lan.config.bridge}b"[:15]
    with Links() as links:
        links.add(bridge, "bridge")
        try:
            links.enslave(lan.nic, bridge)
            with pytest.raises(NetworkError, match=f"it is a part of {bridge}"):
                pod(lan)
        finally:
            links.delete(bridge)


def test_a_bridge_binding_says_that_a_macvtap_is_none_of_its_links(lan: Lan, tmp_path: Path) -> None:
    port = pod(lan)
    with pytest.raises(UnsuitablePodError, match="domainAttachmentType tap"):
        bind_pod_interface(netns_path(port.netns), record=tmp_path / "lan.json", pod_interface=LINK, index=1)


def test_the_host_and_its_guests_do_not_reach_each_other(lan: Lan, tmp_path: Path) -> None:
    """Which the documents say: what the host sends goes out by its NIC."""
    with guest(bind(pod(lan)), tmp_path) as inside, wire(lan.peer, "eth0") as outside:
        mac = str(ip_json(None, "link", "show", lan.nic)[0]["address"])
        with wire(None, lan.nic) as host:
            host.send(words(mac, b"from the host", MACS[0]))
        outside.send(words(PEER_MAC, b"the last", MACS[0]))
        found = inside.first(lambda frame: IP in frame)
    assert found is not None
    assert b"the last" in bytes(found)


def test_a_pod_has_no_address_of_its_own_there(lan: Lan) -> None:
    """Nothing of the Pod itself speaks on the guest's link."""
    port = pod(lan)
    bind(port)
    shown = run_in_netns(
        netns_path(port.netns),
        lambda: subprocess.run(["ip", "-6", "addr", "show", LINK], capture_output=True, text=True, check=True).stdout,
    )
    assert "fe80" not in shown
