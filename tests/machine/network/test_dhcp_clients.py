"""The responder as real clients meet it, and as hostile ones do."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from kvedge.network.dhcp.dhcp_plan import DhcpLease, Route
from kvedge.network.dhcp.dhcp_server import DhcpServer
from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.pod_network import attach_pod
from tests.machine.network.boot_rom import ipxe_guest
from tests.machine.network.dhcp_clients import ClientFiles, Dhclient, networkd, udhcpc, udhcpc_once
from tests.machine.network.dhcpcd import dhcpcd
from tests.machine.network.frames import Wire, dhcp_frame, is_dhcp, offer_frame, wire
from tests.machine.network.network_manager import network_manager
from tests.support.pod_world import ADDRESS, GATEWAY, POD_MAC, PodWorld, dhcp_server
from tests.support.values import replace
from tests.support.waiting import wait_until

OTHER = "10.201.77.66"
SERVER = "169.254.75.10"
# BOOTP's word for what a client sends.
ASKS = 1


def in_guest(world: PodWorld, *command: str) -> str:
    """Runs it where the guest would; its output."""
    return world.in_guest(lambda: subprocess.run(command, capture_output=True, text=True, check=False)).stdout


def reaches(world: PodWorld, address: str) -> bool:
    return "1 packets received" in in_guest(world, "busybox", "ping", "-c", "1", "-W", "2", address)


def full_lease(world: PodWorld) -> DhcpLease:
    return replace(
        world.lease,
        ntp=("192.0.2.123",),
        tftp_server="192.0.2.69",
        boot_file="boot.ipxe",
        private_options={224: "from-the-manifest"},
        routes=(Route("10.50.0.0/16", "10.201.77.9"),),
    )


def test_busybox_gets_everything_and_reaches_the_world(world: PodWorld, tmp_path: Path) -> None:
    files = ClientFiles(tmp_path / "client")
    with dhcp_server(world, full_lease(world)) as server, udhcpc(world, files):
        told = files.last("bound")
        assert server.stdout is not None
        assert server.stdout.readline() == f"ack {ADDRESS}\n"
        assert (told["ip"], told["mask"], told["router"], told["serverid"]) == (ADDRESS, "24", GATEWAY, SERVER)
        assert (told["dns"], told["hostname"], told["domain"]) == ("192.0.2.53", "edge-vm", "example.com")
        assert (told["lease"], told["mtu"]) == ("3600", str(world.bound.mtu))
        assert told["search"] == "svc.example.com example.com"
        assert told["ntpsrv"] == "192.0.2.123"
        assert (told["tftp"], told["bootfile"]) == ("192.0.2.69", "boot.ipxe")
        assert told["staticroutes"] == f"{SERVER}/32 0.0.0.0 10.50.0.0/16 10.201.77.9 0.0.0.0/0 {GATEWAY}"
        assert reaches(world, GATEWAY)


def test_busybox_renews_straight_from_the_server(world: PodWorld, tmp_path: Path) -> None:
    files = ClientFiles(tmp_path / "client")
    with dhcp_server(world) as server, udhcpc(world, files) as client, wire(world.pod, "plug0") as seen:
        files.last("bound")
        client.send_signal(signal.SIGUSR1)
        files.last("renew")
        bridge = run_in_netns(netns_path(world.pod), lambda: mac_of("k6t-eth0"))
        renewal = seen.first(lambda frame: is_dhcp(frame) and frame[Ether].dst == bridge)
        assert renewal is not None, "no renewal went to the server itself"
        assert renewal[BOOTP].ciaddr == ADDRESS
        assert server.stdout is not None
        assert [server.stdout.readline() for _ in range(2)] == [f"ack {ADDRESS}\n"] * 2


def mac_of(name: str) -> str:
    with Links() as links:
        found = links.find(name)
        assert found is not None
        return found.mac


def test_busybox_that_released_its_lease_gets_it_again(world: PodWorld, tmp_path: Path) -> None:
    files = ClientFiles(tmp_path / "client")
    with dhcp_server(world), udhcpc(world, files) as client:
        files.last("bound")
        client.send_signal(signal.SIGUSR2)
        wait_until(lambda: files.reasons().count("deconfig") >= 2, "a release")
        client.send_signal(signal.SIGUSR1)
        wait_until(lambda: files.reasons().count("bound") == 2, "a second lease")
        assert files.last("bound")["ip"] == ADDRESS


def test_busybox_with_an_off_link_gateway_reaches_it(world: PodWorld, tmp_path: Path) -> None:
    gateway = "10.88.0.1"
    lease = replace(world.lease, prefix_length=32, gateway=gateway)

    def second_address() -> None:
        with Links() as links:
            links.add_address(world.config.bridge, gateway, 32)

    second_address()
    files = ClientFiles(tmp_path / "client")
    with dhcp_server(world, lease), udhcpc(world, files):
        told = files.last("bound")
        assert told["subnet"] == "255.255.255.255"
        assert told["staticroutes"].startswith(f"{gateway}/32 0.0.0.0 ")
        wait_until(lambda: reaches(world, gateway), "the way to the gateway")


def test_dhclient_gets_its_lease_keeps_it_over_a_reboot_and_gives_it_back(world: PodWorld, tmp_path: Path) -> None:
    client = Dhclient(world, tmp_path / "client")
    with dhcp_server(world, full_lease(world)):
        told = client.run()
        assert (told["new_ip_address"], told["new_subnet_mask"]) == (ADDRESS, "255.255.255.0")
        assert (told["new_routers"], told["new_dhcp_server_identifier"]) == (GATEWAY, SERVER)
        assert told["new_domain_search"] == "svc.example.com. example.com."
        assert (told["new_host_name"], told["new_interface_mtu"]) == ("edge-vm", str(world.bound.mtu))
        assert told["new_private_first"] == "from-the-manifest"
        assert told["new_rfc3442_classless_static_routes"] == (
            "32 169 254 75 10 0 0 0 0 16 10 50 10 201 77 9 0 10 201 77 1"
        )
        again = client.run()
        assert again["new_ip_address"] == ADDRESS
        assert "REBOOT" in client.files.reasons()
        client.release()
        assert client.run()["new_ip_address"] == ADDRESS


def test_dhclient_with_a_lease_of_another_address_is_refused_it_and_gets_the_new_one(
    world: PodWorld, tmp_path: Path
) -> None:
    client = Dhclient(world, tmp_path / "client")
    with dhcp_server(world, replace(world.lease, address=OTHER)):
        assert client.run()["new_ip_address"] == OTHER
    with dhcp_server(world):
        assert client.run()["new_ip_address"] == ADDRESS
    # It was refused, not merely left alone: a client that hears nothing falls back to its old lease.
    assert "TIMEOUT" not in client.files.reasons()


def test_networkd_gets_address_routes_dns_and_mtu(world: PodWorld, tmp_path: Path) -> None:
    with dhcp_server(world, replace(full_lease(world), mtu=1312)):
        found = networkd(world, tmp_path / "networkd")
    assert f"inet {ADDRESS}/24" in found["addresses"]
    assert f"default via {GATEWAY} dev eth0 proto dhcp" in found["routes"]
    assert f"{SERVER} dev eth0 proto dhcp scope link" in found["routes"]
    assert "10.50.0.0/16 via 10.201.77.9" in found["routes"]
    assert "DNS=192.0.2.53" in found["lease"]
    assert "HOSTNAME=edge-vm" in found["lease"]
    assert found["mtu"].strip() == "1312"


def test_network_manager_gets_address_routes_dns_and_mtu(world: PodWorld, tmp_path: Path) -> None:
    with dhcp_server(world, replace(full_lease(world), mtu=1312)):
        found = network_manager(world, tmp_path / "manager")
    assert f"inet {ADDRESS}/24" in found["addresses"]
    assert f"default via {GATEWAY} dev eth0 proto dhcp" in found["routes"]
    assert f"{SERVER} dev eth0 proto dhcp scope link" in found["routes"]
    assert "10.50.0.0/16 via 10.201.77.9" in found["routes"]
    assert "search svc.example.com example.com" in found["names"]
    assert "nameserver 192.0.2.53" in found["names"]
    assert found["mtu"].strip() == "1312"


def test_dhcpcd_gets_address_routes_dns_and_mtu(world: PodWorld, tmp_path: Path) -> None:
    with dhcp_server(world, replace(full_lease(world), mtu=1312)):
        found = dhcpcd(world, tmp_path / "dhcpcd")
    assert f"inet {ADDRESS}/24" in found["addresses"]
    assert f"default via {GATEWAY} dev eth0 proto dhcp" in found["routes"]
    assert f"{SERVER} dev eth0 proto dhcp scope link" in found["routes"]
    assert "10.50.0.0/16 via 10.201.77.9" in found["routes"]
    told = dict(line.split("=", 1) for line in found["told"].splitlines() if "=" in line)
    assert (told["new_domain_name_servers"], told["new_host_name"]) == ("192.0.2.53", "edge-vm")
    assert told["new_domain_search"] == "svc.example.com example.com"
    assert f" mtu {1312} " in found["routes"]


@pytest.mark.parametrize("rom", ["virtio-net-pci", "e1000"])
def test_ipxe_in_qemu_gets_its_lease_over_the_tap(world: PodWorld, rom: str) -> None:
    """A guest NIC of QEMU's, on the tap, opened by an unprivileged user: the real thing but for a system on a disk."""
    with dhcp_server(world) as server, ipxe_guest(world, rom):
        assert server.stdout is not None
        assert server.stdout.readline() == f"ack {ADDRESS}\n"


@contextmanager
def foreign_server(world: PodWorld, directory: Path) -> Iterator[str]:
    """busybox's DHCP server in another Pod of the node; yields its namespace."""
    name = f"{world.config.netns_prefix}foreign"
    attach_pod(world.config, name, "10.201.77.50")
    directory.mkdir()
    config = directory / "conf"
    config.write_text(
        f"start 10.201.77.100\nend 10.201.77.120\ninterface eth0\n"
        f"lease_file {directory}/leases\npidfile {directory}/pid\noption subnet 255.255.255.0\n"
    )
    (directory / "leases").touch()
    command = ["busybox", "udhcpd", "-f", "-S", str(config)]
    server = run_in_netns(netns_path(name), lambda: subprocess.Popen(command, stderr=subprocess.DEVNULL))
    try:
        yield name
    finally:
        server.terminate()
        server.wait(10)


def test_a_foreign_server_on_the_pods_side_never_meets_the_guest(world: PodWorld, tmp_path: Path) -> None:
    with foreign_server(world, tmp_path / "foreign") as foreign:
        # That it works at all: a Pod that is not bound asks it and is answered.
        control = f"{world.config.netns_prefix}control"
        attach_pod(world.config, control, "10.201.77.51", "52:54:00:77:00:51")
        with wire(control, "eth0") as wire_of_control:

            def is_answered() -> bool:
                wire_of_control.send(dhcp_frame("52:54:00:77:00:51", "discover"))
                return wire_of_control.first(is_dhcp, seconds=2.0) is not None

            wait_until(is_answered, "the foreign server answers")
        with wire(foreign, "eth0") as seen:
            assert not udhcpc_once(world, ClientFiles(tmp_path / "client"))
            # The server itself may still be answering the other Pod.
            assert seen.first(lambda frame: BOOTP in frame and frame[BOOTP].op == ASKS, seconds=0.5) is None
        with dhcp_server(world), udhcpc(world, files := ClientFiles(tmp_path / "again")):
            assert files.last("bound")["serverid"] == SERVER


@pytest.mark.parametrize("to", [POD_MAC, "ff:ff:ff:ff:ff:ff"], ids=["to the guest alone", "to everybody"])
def test_an_unasked_offer_from_the_pods_side_does_not_pass(world: PodWorld, to: str) -> None:
    with wire(None, world.port) as host, wire(world.guest, "eth0") as guest:
        host.send(offer_frame("52:54:00:77:00:99", GATEWAY, POD_MAC, OTHER, dst=to))
        # Its twin on other ports passes, so the way is open.
        twin = offer_frame("52:54:00:77:00:99", GATEWAY, POD_MAC, OTHER, dst=to)
        twin[UDP].sport, twin[UDP].dport = 1067, 1068
        host.send(twin)
        passed = guest.first(lambda frame: UDP in frame)
        assert passed is not None
        assert passed[UDP].dport == 1068


def test_our_own_answers_never_leave_towards_the_pods_side(world: PodWorld, tmp_path: Path) -> None:
    with wire(None, world.port) as host, dhcp_server(world):
        with udhcpc(world, files := ClientFiles(tmp_path / "client")):
            files.last("bound")
        assert host.first(is_dhcp, seconds=0.5) is None


def test_a_request_from_the_pods_side_is_not_answered(world: PodWorld) -> None:
    with wire(None, world.port) as host, dhcp_server(world), wire(world.guest, "eth0") as guest:
        host.send(dhcp_frame(POD_MAC, "discover", xid=99))
        assert guest.first(is_dhcp, seconds=0.7) is None
        assert host.first(is_dhcp, seconds=0.3) is None


def ask(guest_wire: Wire, frame: bytes | Packet, seconds: float = 20.0) -> str | None:
    """What the responder says to that frame, by scapy's reading: the message type and the address."""
    guest_wire.send(frame)
    reply = guest_wire.first(lambda each: is_dhcp(each) and each[BOOTP].op == 2, seconds=seconds)
    if reply is None:
        return None
    names = {2: "offer", 5: "ack", 6: "nak"}
    return f"{names[dict(o for o in reply[DHCP].options if len(o) == 2)['message-type']]} {reply[BOOTP].yiaddr}"


def test_hostile_packets_get_nothing_and_change_nothing(world: PodWorld) -> None:
    good = bytes(dhcp_frame(POD_MAC, "discover"))
    with dhcp_server(world), wire(world.guest, "eth0") as guest:
        assert ask(guest, good) == f"offer {ADDRESS}"
        for damaged in (
            dhcp_frame(POD_MAC, "discover", ("dhcp-option-overload", 3)),
            dhcp_frame(POD_MAC, "discover", ("message-type", "request")),
            dhcp_frame(POD_MAC, "discover", giaddr="10.201.77.1"),
            dhcp_frame(POD_MAC, "discover", hops=1),
            dhcp_frame("52:54:00:77:00:99", "discover"),
            dhcp_frame(POD_MAC, "request", ("requested_addr", ADDRESS), ("server_id", "10.201.77.50")),
            dhcp_frame(POD_MAC, "offer"),
        ):
            assert ask(guest, damaged, seconds=0.7) is None
        assert ask(guest, dhcp_frame(POD_MAC, "request", ("requested_addr", OTHER))) == "nak 0.0.0.0"
        assert ask(guest, dhcp_frame(POD_MAC, "request", ("requested_addr", ADDRESS))) == f"ack {ADDRESS}"


def test_a_flood_does_not_stop_the_responder(world: PodWorld, tmp_path: Path) -> None:
    frame = bytes(dhcp_frame(POD_MAC, "discover"))
    with dhcp_server(world), wire(world.guest, "eth0") as guest:
        for _ in range(3000):
            guest.send(frame)
        with udhcpc(world, files := ClientFiles(tmp_path / "client")):
            assert files.last("bound")["ip"] == ADDRESS


def test_a_reply_carries_no_checksum_that_offloading_could_spoil(world: PodWorld) -> None:
    with dhcp_server(world), wire(world.guest, "eth0") as guest:
        guest.send(dhcp_frame(POD_MAC, "discover"))
        reply = guest.first(lambda frame: is_dhcp(frame) and frame[BOOTP].op == 2)
        assert reply is not None
        assert reply[UDP].chksum == 0


def test_a_changed_lease_is_given_from_the_next_packet_on(world: PodWorld) -> None:
    acked: list[str] = []
    server = DhcpServer(world.bound.bridge, world.lease, lambda lease: acked.append(lease.hostname))
    world.in_pod(server.start)
    try:
        with wire(world.guest, "eth0") as guest:
            assert ask(guest, dhcp_frame(POD_MAC, "request", ("requested_addr", ADDRESS))) == f"ack {ADDRESS}"
            server.update(replace(world.lease, hostname="renamed", address=OTHER))
            assert ask(guest, dhcp_frame(POD_MAC, "request", ("requested_addr", ADDRESS))) == "nak 0.0.0.0"
            assert ask(guest, dhcp_frame(POD_MAC, "request", ("requested_addr", OTHER))) == f"ack {OTHER}"
            wait_until(lambda: acked == ["edge-vm", "renamed"], "both leases told")
    finally:
        server.stop()
        server.stop()


def test_stopping_frees_the_port_for_the_next(world: PodWorld) -> None:
    for _ in range(3):
        server = DhcpServer(world.bound.bridge, world.lease, lambda lease: None)
        world.in_pod(server.start)
        server.stop()


def test_a_missing_bridge_and_a_taken_port_are_said(world: PodWorld) -> None:
    with pytest.raises(NetworkError, match="DHCP cannot answer on k6t-none"):
        world.in_pod(DhcpServer("k6t-none", world.lease, lambda lease: None).start)

    def take_port() -> socket.socket:
        taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        taken.bind(("", 67))
        return taken

    with world.in_pod(take_port), pytest.raises(NetworkError, match="EADDRINUSE"):
        world.in_pod(DhcpServer(world.bound.bridge, world.lease, lambda lease: None).start)
