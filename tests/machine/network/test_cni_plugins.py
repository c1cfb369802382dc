"""The binding in Pods that real CNI plugins made: what the guest is told, what passes, what the plugins find later."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.errors import MacInUseError
from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from tests.machine.network.cni_world import (
    CLUSTER4,
    CLUSTER6,
    DUAL,
    GATEWAY4,
    GATEWAY6,
    GUEST_MAC,
    IPV4,
    IPV6,
    KINDS,
    SUBNET6,
    CniNode,
    addresses_of,
    bound_pod,
    cni_pod,
)
from tests.machine.network.dhcp_clients import ClientFiles, udhcpc
from tests.machine.network.ipv6_world import DNS6, Dhclient6, ipv6_lease, ipv6_server, networkd6
from tests.machine.network.killed_steps import KilledError, killed_after, steps_made
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.support.pictures import picture
from tests.support.pod_world import dhcp_server
from tests.support.waiting import wait_until

MTU = {"ptp": 1400, "bridge": 1500, "flannel": 1450, "macvlan": 1500}


def node_of(kind: str, families: str, directory: Path) -> CniNode:
    node = CniNode(kind, families, directory / "ipam")
    node.prepare_host()
    return node


def pings(target: str, *options: str) -> bool:
    command = ["busybox", "ping", "-c", "1", "-W", "2", *options, target]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def in_netns(name: str, work: Callable[[], bool]) -> bool:
    return run_in_netns(netns_path(name), work)


def speaks_tcp(server: str, address: str) -> bool:
    """Whether the namespace that calls gets an answer from the one that has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def listening() -> socket.socket:
        opened = socket.create_server((address, 8080), family=family)
        opened.settimeout(5)
        return opened

    with (
        run_in_netns(netns_path(server), listening) as listener,
        socket.create_connection((address, 8080), timeout=5) as client,
    ):
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"hello" * 1000)
            accepted.shutdown(socket.SHUT_WR)
            got = b"".join(iter(lambda: client.recv(4096), b""))
    return got == b"hello" * 1000


@pytest.mark.parametrize("families", [IPV4, DUAL])
@pytest.mark.parametrize("kind", KINDS)
@on_a_host_of_its_own
def test_a_guest_has_what_any_cni_gave_its_pod(kind: str, families: str, tmp_path: Path) -> None:
    node = node_of(kind, families, tmp_path)
    with bound_pod(node, tmp_path) as (world, answer), cni_pod(node, "other") as (other, others):
        address, other_address = addresses_of(answer)[0], addresses_of(others)[0]
        files = ClientFiles(tmp_path / "client")
        with dhcp_server(world), udhcpc(world, files):
            told = files.last("bound")
            assert (told["ip"], told["router"], told["mtu"]) == (address, GATEWAY4, str(MTU[kind]))
            assert (told["dns"], told["mask"]) == ("192.0.2.53", "32" if kind == "ptp" else "24")
            assert (f"{CLUSTER4} {GATEWAY4}" in told["staticroutes"]) is (kind == "flannel")
            largest = ("-s", str(MTU[kind] - 28))
            wait_until(lambda: world.in_guest(lambda: pings(GATEWAY4, *largest)), "the way to the gateway")
            # A first packet may be lost while its neighbour is looked for.
            wait_until(lambda: world.in_guest(lambda: pings(other_address, *largest)), "the way to another Pod")
            wait_until(lambda: pings(address, *largest), "the node's way to the guest")
            wait_until(lambda: in_netns(other, lambda: pings(address, *largest)), "another Pod's way to the guest")
            assert speaks_tcp(world.guest, address)
            assert in_netns(other, lambda: speaks_tcp(world.guest, address))
            assert world.in_guest(lambda: speaks_tcp(other, other_address))


@pytest.mark.parametrize("families", [DUAL, IPV6])
@pytest.mark.parametrize("kind", KINDS)
@on_a_host_of_its_own
def test_a_guest_has_the_ipv6_that_any_cni_gave_its_pod(kind: str, families: str, tmp_path: Path) -> None:
    node = node_of(kind, families, tmp_path)
    with bound_pod(node, tmp_path) as (world, answer), cni_pod(node, "other") as (other, others):
        address, other_address = addresses_of(answer)[-1], addresses_of(others)[-1]
        assert (world.bound.address == "") is (families == IPV6)
        with ipv6_server(world, ipv6_lease(world), log=tmp_path / "log"):
            told = Dhclient6(world, tmp_path / "client").run()
            assert told["new_ip6_address"] == address
            assert (told["new_dhcp6_name_servers"], told["new_dhcp6_domain_search"]) == (
                DNS6,
                "svc.example.com. example.com.",
            )
            wait_until(lambda: world.in_guest(lambda: pings(GATEWAY6)), "the way to the gateway")
            wait_until(lambda: world.in_guest(lambda: pings(other_address)), "the way to another Pod")
            wait_until(lambda: pings(address), "the node's way to the guest")
            wait_until(lambda: in_netns(other, lambda: pings(address)), "another Pod's way to the guest")
            assert speaks_tcp(world.guest, address)
            assert in_netns(other, lambda: speaks_tcp(world.guest, address))
            assert world.in_guest(lambda: speaks_tcp(other, other_address))


@on_a_host_of_its_own
def test_networkd_takes_address_router_routes_and_names_from_a_flannel_pod(tmp_path: Path) -> None:
    node = node_of("flannel", DUAL, tmp_path)
    with bound_pod(node, tmp_path) as (world, answer):
        lease = ipv6_lease(world)
        with ipv6_server(world, lease, log=tmp_path / "log"):
            found = networkd6(world, tmp_path / "networkd")
    assert f"inet6 {addresses_of(answer)[-1]}/128" in found["addresses"]
    assert f"default via {lease.router} dev eth0 proto ra" in found["routes"]
    assert f"{CLUSTER6} via {lease.router} dev eth0 proto ra" in found["routes"]
    assert f"{SUBNET6} dev eth0 proto ra" in found["routes"]
    assert DNS6 in found["links"]


@pytest.mark.parametrize("kind", KINDS)
@on_a_host_of_its_own
def test_the_plugin_takes_down_what_it_made_as_if_nobody_had_bound_it(kind: str, tmp_path: Path) -> None:
    node = node_of(kind, DUAL, tmp_path)
    before = links_here()
    with bound_pod(node, tmp_path) as (world, answer):
        # What the kubelet's own plugins look for: an eth0 with the Pod's addresses.
        assert set(addresses_of(answer)) <= {
            each.split("/")[0] for each in links_of(picture(world.pod))["eth0"]["addresses"]
        }
        assert node.given_addresses() == sorted(addresses_of(answer))
    assert node.given_addresses() == []
    wait_until(lambda: links_here() - {"cni0"} == before, "the node's end of the Pod's link to go")


def links_here() -> set[str]:
    with Links() as links:
        return {link.name for link in links.list_links()}


def links_of(seen: dict[str, object]) -> dict[str, dict[str, list[str]]]:
    found = seen["links"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", KINDS)
@on_a_host_of_its_own
def test_a_binding_cut_at_any_step_goes_on(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(kind, DUAL, tmp_path)
    with cni_pod(node, "whole") as (pod, _), steps_made(monkeypatch) as steps:
        bind_pod_interface(netns_path(pod), record=tmp_path / "whole", guest_mac=GUEST_MAC)
        expected = links_of(picture(pod)).keys()
    for count in range(0, len(steps), 3):
        record = tmp_path / f"cut{count}"
        with cni_pod(node, f"cut{count}") as (pod, _):
            with killed_after(monkeypatch, count), pytest.raises(KilledError):
                bind_pod_interface(netns_path(pod), record=record, guest_mac=GUEST_MAC)
            with steps_made(monkeypatch) as rest:
                bind_pod_interface(netns_path(pod), record=record, guest_mac=GUEST_MAC)
            assert rest
            assert links_of(picture(pod)).keys() == expected, f"killed before step {count}: {steps[count]}"
            with steps_made(monkeypatch) as more:
                bind_pod_interface(netns_path(pod), record=record, guest_mac=GUEST_MAC)
            assert more == []


@on_a_host_of_its_own
def test_two_guests_of_one_mac_on_one_macvlan_are_told_apart_by_the_kernel(tmp_path: Path) -> None:
    node = node_of("macvlan", IPV4, tmp_path)
    refused = pytest.raises(MacInUseError, match=f"{GUEST_MAC}: another Pod .* give one of them another macAddress")
    with bound_pod(node, tmp_path), cni_pod(node, "second") as (second, _), refused:
        bind_pod_interface(netns_path(second), record=tmp_path / "second", guest_mac=GUEST_MAC)


@on_a_host_of_its_own
def test_a_guest_may_have_the_very_mac_of_its_pod(tmp_path: Path) -> None:
    node = node_of("macvlan", IPV4, tmp_path)
    with cni_pod(node, "pod") as (pod, answer):
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        assert bound.mac == answer["interfaces"][0]["mac"]


@on_a_host_of_its_own
def test_a_nic_that_host_device_has_lent_carries_the_guest_and_goes_back_as_it_was(tmp_path: Path) -> None:
    node = node_of("host-device", IPV4, tmp_path)
    with Links() as links:
        before = links.find("lan0")
    assert before is not None
    with bound_pod(node, tmp_path) as (world, _):
        again = bind_pod_interface(netns_path(world.pod), record=world.record, guest_mac=GUEST_MAC)
        assert again == world.bound
        world.in_guest(lambda: configure(f"{GATEWAY4.rpartition('.')[0]}.9"))
        ping = ["busybox", "ping", "-c", "1", "-W", "20", GATEWAY4]
        assert world.in_guest(lambda: subprocess.run(ping, capture_output=True, check=False)).returncode == 0
    with Links() as links:
        after = links.find("lan0")
    assert after is not None
    assert (after.mac, after.mtu, after.master, after.kind) == (before.mac, before.mtu, 0, before.kind)


def configure(address: str) -> None:
    with Links() as links:
        links.add_address("eth0", address, 24)
