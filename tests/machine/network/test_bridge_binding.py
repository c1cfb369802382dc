"""The bridge binding in real namespaces: what is there, what passes, and what a crash at any step leaves."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from scapy.layers.l2 import ARP, Ether

from kvedge.network.binding.binding_record import read_record
from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.errors import LostStateError, NetworkError
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.pods.attachments import port_name
from kvedge.network.pods.pod_network import attach_pod
from tests.machine.network.frames import BROADCAST, dhcp_frame, is_dhcp, wire
from tests.machine.network.killed_steps import KilledError, killed_after, steps_made
from tests.machine.network.own_host import host_state, on_a_host_of_its_own
from tests.support.pictures import ip_json, picture, settings
from tests.support.pod_world import (
    ADDRESS,
    GATEWAY,
    POD_MAC,
    QEMU_USER,
    PodWorld,
    make_pod,
    node_config,
    node_network,
    plug_guest,
)
from tests.support.values import replace


def ping(world: PodWorld, address: str) -> bool:
    # An answer ends it at once.
    command = ["busybox", "ping", "-c", "1", "-W", "20", address]
    return world.in_guest(lambda: subprocess.run(command, capture_output=True, check=False)).returncode == 0


def configure_guest(world: PodWorld) -> None:
    def configure() -> None:
        with Links() as links:
            links.add_address("eth0", ADDRESS, 24)
            links.add_route("0.0.0.0/0", GATEWAY, "eth0")

    world.in_guest(configure)


def test_the_objects_are_kubevirts(world: PodWorld) -> None:
    links = picture(world.pod)["links"]
    assert isinstance(links, dict)
    assert set(links) == {"lo", "k6t-eth0", "eth0-nic", "tap0", "eth0", "plug0"}
    assert links["k6t-eth0"]["addresses"] == ["169.254.75.10/32"]
    assert (links["eth0-nic"]["master"], links["eth0-nic"]["learning"]) == ("k6t-eth0", False)
    assert links["eth0-nic"]["addresses"] == []
    assert links["eth0-nic"]["mac"] == links["k6t-eth0"]["mac"] != POD_MAC
    assert (links["eth0"]["mac"], links["eth0"]["addresses"], links["eth0"]["up"]) == (
        POD_MAC,
        [f"{ADDRESS}/24"],
        False,
    )
    tap = links["tap0"]["tap"]
    assert tap["user"] in (QEMU_USER, str(QEMU_USER), user_name(QEMU_USER))
    assert (tap["type"], tap["vnet_hdr"], tap["persist"], tap["multi_queue"]) == ("tap", True, True, False)
    assert links["tap0"]["master"] == "k6t-eth0"
    assert len({links[name]["mtu"] for name in ("k6t-eth0", "eth0-nic", "tap0", "eth0")}) == 1
    assert settings(world.pod) == {
        "ip_unprivileged_port_start": "0",
        "conf/all/arp_ignore": "1",
        "conf/all/rp_filter": "0",
    }


def test_a_guest_that_is_not_served_asks_the_pods_network_for_its_address(tmp_path: Path) -> None:
    with node_network(node_config()) as config:
        pod, record = make_pod(config), tmp_path / "eth0.json"
        for _ in range(2):
            # As a handler that is started again does.
            bound = bind_pod_interface(netns_path(pod), record=record, serves=False)
        guest = plug_guest(config, pod, bound.mac, bound.mtu)
        assert (bound.address, bound.server, bound.pod_addresses) == ("", "", (ADDRESS,))
        links = picture(pod)["links"]
        assert isinstance(links, dict)
        assert (links["k6t-eth0"]["addresses"], links["eth0"]["addresses"]) == ([], [f"{ADDRESS}/24"])
        with wire(None, port_name(config.bridge, pod)) as node, wire(guest, "eth0") as nic:
            nic.send(dhcp_frame(bound.mac, "discover"))
            assert node.first(is_dhcp) is not None
        for name in (guest, pod):
            delete_netns(name)


def user_name(uid: int) -> str:
    """As `ip` may print an owner."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def test_the_answer_says_what_the_pod_was(world: PodWorld) -> None:
    bound = world.bound
    assert (bound.tap, bound.bridge, bound.mac) == ("tap0", "k6t-eth0", POD_MAC)
    assert (bound.address, bound.prefix_length, bound.gateway) == (ADDRESS, 24, GATEWAY)
    assert (bound.routes, bound.server) == ((), "169.254.75.10")


def test_the_guest_reaches_the_gateway_the_world_and_another_pod(world: PodWorld) -> None:
    configure_guest(world)
    attach_pod(world.config, f"{world.config.netns_prefix}other", "10.201.77.6")
    assert ping(world, GATEWAY)
    assert ping(world, "10.201.77.6")
    # An address of the host on another of its links: through the gateway and back.
    uplink = run_outside_address()
    assert ping(world, uplink)


def run_outside_address() -> str:
    with Links() as links:
        names = {link.index: link for link in links.list_links()}
        found = [
            each.address
            for each in links.list_addresses()
            if each.version == 4
            and names[each.link].up
            and names[each.link].name != "lo"
            and names[each.link].kind == ""
        ]
    if not found:
        pytest.skip("this machine has no address on a NIC")
    return found[0]


def test_binding_again_changes_nothing_and_says_the_same(world: PodWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    before = picture(world.pod)
    with steps_made(monkeypatch) as made:
        again = bind_pod_interface(netns_path(world.pod), record=world.record)
    assert again == world.bound
    assert made == []
    assert picture(world.pod) == before


def test_a_descriptor_of_the_namespace_serves_as_well(world: PodWorld) -> None:
    opened = os.open(netns_path(world.pod), os.O_RDONLY)
    try:
        assert bind_pod_interface(opened, record=world.record) == world.bound
    finally:
        os.close(opened)


def test_the_pods_own_stack_is_cut_off_from_the_pods_side(world: PodWorld) -> None:
    # Neither the DHCP server's address nor the stand-in's answers to the node's ARP; the guest is not there yet.
    for address in ("169.254.75.10", ADDRESS):
        command = ["busybox", "arping", "-c", "2", "-w", "2", "-I", world.config.bridge, address]
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_the_servers_address_answers_the_guests_arp(world: PodWorld) -> None:
    # A frame of our own: busybox's arping gives up after a second, whatever -w says, which a busy machine exceeds.
    question = Ether(src=POD_MAC, dst=BROADCAST) / ARP(hwsrc=POD_MAC, psrc=ADDRESS, pdst="169.254.75.10")
    with wire(world.guest, "eth0") as guest:
        guest.send(question)
        answer = guest.first(lambda frame: ARP in frame and frame[ARP].psrc == "169.254.75.10")
    assert answer is not None
    assert (answer.dst, answer[ARP].op, answer[ARP].pdst) == (POD_MAC, 2, ADDRESS)
    assert answer[ARP].hwsrc == ip_json(world.pod, "link", "show", "k6t-eth0")[0]["address"]


OPEN_TAP = """
import fcntl, struct, sys
flags = 0x0002 | 0x1000 | 0x4000 | (0x0100 if int(sys.argv[2]) > 1 else 0)
for descriptor in map(int, sys.argv[3:]):
    fcntl.ioctl(descriptor, 0x400454CA, struct.pack("16sH22x", sys.argv[1].encode(), flags))
print("open", flush=True)
sys.stdin.read()
"""


def open_tap_as(user: int, netns: str, queues: int) -> subprocess.Popen[str]:
    """Opens the tap without a capability, as QEMU does; the device node is handed in, as a device plugin would."""
    descriptors = [os.open("/dev/net/tun", os.O_RDWR) for _ in range(queues)]
    command = [sys.executable, "-c", OPEN_TAP, "tap0", str(queues), *map(str, descriptors)]
    try:
        return run_in_netns(
            netns_path(netns),
            lambda: subprocess.Popen(
                command,
                pass_fds=descriptors,
                user=user,
                group=user,
                extra_groups=[],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ),
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.mark.parametrize("queues", [1, 3], ids=["one queue", "several queues"])
def test_qemus_user_opens_the_tap_and_nobody_else_does(tmp_path: Path, queues: int) -> None:
    with node_network(node_config()) as config:
        pod = make_pod(config)
        # Opened in the Pod's namespace: a tap descriptor belongs to the namespace it was opened in.
        bind_pod_interface(netns_path(pod), record=tmp_path / "r", queues=queues)
        for user, works in ((QEMU_USER, True), (1234, False)):
            opener = run_in_netns(netns_path(pod), lambda user=user: open_tap_as(user, pod, queues))
            try:
                assert opener.stdout is not None
                assert (opener.stdout.readline() == "open\n") is works
            finally:
                _, error = opener.communicate(timeout=60)
            assert works or "Operation not permitted" in error


def test_a_tap_in_use_keeps_its_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_network(node_config()) as config:
        pod = make_pod(config)
        bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        opener = run_in_netns(netns_path(pod), lambda: open_tap_as(QEMU_USER, pod, 1))
        try:
            assert opener.stdout is not None
            assert opener.stdout.readline() == "open\n"
            with steps_made(monkeypatch) as made:
                bind_pod_interface(netns_path(pod), record=tmp_path / "r", queues=4)
            assert made == []
        finally:
            opener.communicate(timeout=60)


def test_a_binding_killed_at_any_step_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_network(node_config()) as config:
        whole = make_pod(config, "whole", "10.201.77.9", POD_MAC)
        with steps_made(monkeypatch) as steps:
            answer = bind_pod_interface(netns_path(whole), record=tmp_path / "whole")
        expected = picture(whole)
        delete_netns(whole)
        assert len(steps) > 20
        for count in range(len(steps)):
            name = f"cut{count}"
            pod = make_pod(config, name, "10.201.77.9", POD_MAC)
            with killed_after(monkeypatch, count), pytest.raises(KilledError):
                bind_pod_interface(netns_path(pod), record=tmp_path / name)
            again = bind_pod_interface(netns_path(pod), record=tmp_path / name)
            assert replace(again, peer_index=answer.peer_index) == answer
            assert picture(pod) == expected, f"killed before step {count}: {steps[count]}"
            delete_netns(pod)


def test_the_record_is_on_disk_before_the_first_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_network(node_config()) as config:
        pod = make_pod(config)
        with killed_after(monkeypatch, 0), pytest.raises(KilledError):
            bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        record = read_record(tmp_path / "r")
        assert record is not None
        assert [each.address for each in record.addresses] == [ADDRESS]
        assert os.listdir(tmp_path) == ["r"]


@pytest.mark.parametrize("damage", ["", "{", '{"netns": 1}', "[]", '{"addresses": [{"ip": "x"}], "routes": []}'])
def test_a_lost_or_damaged_record_of_a_bound_pod_is_said_and_changes_nothing(world: PodWorld, damage: str) -> None:
    before = picture(world.pod)
    world.record.write_text(damage) if damage else world.record.unlink()
    with pytest.raises(LostStateError, match="replace the Pod"):
        bind_pod_interface(netns_path(world.pod), record=world.record)
    assert picture(world.pod) == before


def test_a_record_of_an_earlier_sandbox_is_not_believed(tmp_path: Path) -> None:
    with node_network(node_config()) as config:
        first = make_pod(config, "first", "10.201.77.20", "52:54:00:77:00:20")
        bind_pod_interface(netns_path(first), record=tmp_path / "r")
        delete_netns(first)
        second = make_pod(config, "second", "10.201.77.21", "52:54:00:77:00:21")
        bound = bind_pod_interface(netns_path(second), record=tmp_path / "r")
        assert (bound.address, bound.mac) == ("10.201.77.21", "52:54:00:77:00:21")


def test_a_pod_without_the_interface_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    name = f"{node_config().netns_prefix}bare"
    try:
        path = create_netns(name)
        with pytest.raises(NetworkError, match="no such interface"):
            bind_pod_interface(path, record=tmp_path / "r")
        assert not (tmp_path / "r").exists()
        assert [link["ifname"] for link in ip_json(name, "link")] == ["lo"]
    finally:
        delete_netns(name)


def test_an_off_link_gateway_is_carried_over(tmp_path: Path) -> None:
    with node_network(node_config()) as config:
        pod = make_pod(config)

        def like_calico() -> None:
            with Links() as links:
                links.delete_address("eth0", ADDRESS, 24)
                links.add_address("eth0", ADDRESS, 32)
                links.add_route("169.254.1.1/32", "", "eth0")
                links.add_route("0.0.0.0/0", "169.254.1.1", "eth0")

        run_in_netns(netns_path(pod), like_calico)
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        assert (bound.prefix_length, bound.gateway) == (32, "169.254.1.1")
        assert [route.destination for route in bound.routes] == ["169.254.1.1/32"]


@on_a_host_of_its_own
def test_nothing_is_left_on_the_host(tmp_path: Path) -> None:
    before = host_state()
    with node_network(node_config()) as config:
        pod = make_pod(config)
        bound = bind_pod_interface(netns_path(pod), record=tmp_path / "r")
        plug_guest(config, pod, bound.mac, bound.mtu)
        delete_netns(f"{config.netns_prefix}guest")
    assert host_state() == before
