"""Real DHCP clients behind a Pod's address: what they are told leads out, in both IP versions."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.machine.network.dhcp_clients import ClientFiles, Dhclient, networkd, udhcpc
from tests.machine.network.ipv6_world import DNS6, Dhclient6, ipv6_lease, ipv6_server, networkd6
from tests.machine.network.masquerade_world import GUEST, NEIGHBOUR, POD, ROUTER, MasqueradeWorld, masquerade_world
from tests.machine.network.network_manager import network_manager
from tests.machine.network.test_masquerade_binding import connected, listening, talk
from tests.support.pod_world import PodWorld, dhcp_server, node_config
from tests.support.waiting import wait_until


@pytest.fixture
def world() -> Iterator[MasqueradeWorld]:
    """A guest that knows nothing yet."""
    with masquerade_world(told=False) as made:
        yield made


def as_pod_world(world: MasqueradeWorld, directory: Path) -> PodWorld:
    """As the clients of the other tests expect it."""
    assert world.bound is not None
    return PodWorld(node_config(), world.pod, world.guest, world.bound, directory)


def reaches(world: MasqueradeWorld, version: int) -> None:
    """A connection from the guest to the neighbour, who sees the Pod."""
    with (
        closing(listening(world, world.neighbour, NEIGHBOUR[version])) as server,
        closing(connected(world, world.guest, NEIGHBOUR[version])) as client,
    ):
        assert talk(client, server) == POD[version][0]


def test_busybox_is_told_of_the_bridge_and_reaches_the_world(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod, files = as_pod_world(world, tmp_path), ClientFiles(tmp_path / "client")
    with dhcp_server(pod), udhcpc(pod, files):
        told = files.last("bound")
        assert (told["ip"], told["router"], told["serverid"], told["subnet"]) == (
            GUEST[4],
            ROUTER[4],
            ROUTER[4],
            "255.255.255.0",
        )
        assert (told["mtu"], told["hostname"], told["dns"]) == ("1450", "edge-vm", "192.0.2.53")
        reaches(world, 4)


def test_dhclient_keeps_its_lease_over_a_reboot(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod = as_pod_world(world, tmp_path)
    with dhcp_server(pod):
        client = Dhclient(pod, tmp_path / "client")
        for told in (client.run(), client.run()):
            assert (told["new_ip_address"], told["new_routers"]) == (GUEST[4], ROUTER[4])
            assert (told["new_dhcp_server_identifier"], told["new_interface_mtu"]) == (ROUTER[4], "1450")


def test_networkd_takes_address_and_way_out_of_ipv4(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod = as_pod_world(world, tmp_path)
    with dhcp_server(pod):
        found = networkd(pod, tmp_path / "networkd")
    assert f"inet {GUEST[4]}/24" in found["addresses"]
    assert f"default via {ROUTER[4]} dev eth0" in found["routes"]
    assert found["mtu"].strip() == "1450"


def test_network_manager_takes_address_and_way_out_of_ipv4(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod = as_pod_world(world, tmp_path)
    with dhcp_server(pod):
        found = network_manager(pod, tmp_path / "manager")
    assert f"inet {GUEST[4]}/24" in found["addresses"]
    assert f"default via {ROUTER[4]} dev eth0" in found["routes"]
    assert found["mtu"].strip() == "1450"
    reaches(world, 4)


def test_dhclient_and_the_kernel_get_address_and_way_out_of_ipv6(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod = as_pod_world(world, tmp_path)
    with ipv6_server(pod, ipv6_lease(pod), log=tmp_path / "log"):
        told = Dhclient6(pod, tmp_path / "client").run()
        assert (told["new_ip6_address"], told["new_dhcp6_name_servers"]) == (GUEST[6], DNS6)
        wait_until(lambda: "fe80::1" in default_routes(world), "the router's advertisement")
        reaches(world, 6)


def default_routes(world: MasqueradeWorld) -> str:
    command = ["ip", "-6", "route", "show", "default"]
    return world.inside(world.guest, lambda: subprocess.run(command, capture_output=True, text=True, check=True)).stdout


def test_networkd_takes_address_router_and_names_of_ipv6(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod = as_pod_world(world, tmp_path)
    with ipv6_server(pod, ipv6_lease(pod), log=tmp_path / "log"):
        found = networkd6(pod, tmp_path / "networkd")
    assert f"inet6 {GUEST[6]}/128" in found["addresses"]
    assert "default via fe80::1 dev eth0 proto ra" in found["routes"]
    assert DNS6 in found["links"]


def test_network_manager_takes_address_router_and_names_of_ipv6(world: MasqueradeWorld, tmp_path: Path) -> None:
    pod = as_pod_world(world, tmp_path)
    with ipv6_server(pod, ipv6_lease(pod), log=tmp_path / "log"):
        found = network_manager(pod, tmp_path / "manager", 6)
    assert f"inet6 {GUEST[6]}/128" in found["addresses"]
    assert "default via fe80::1 dev eth0 proto ra" in found["routes6"]
    assert f"nameserver {DNS6}" in found["names"]
    reaches(world, 6)
