"""Guests by passt on one box: each has its Pod's own address, and passt beside its QEMU speaks for it."""

from __future__ import annotations

import copy
import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from kvedge.launcher.passt.passt_command import needed_descriptors
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Event, Pod
from kvedge.rpc.launcher_pb2 import Passt
from tests.support.box import Box, small_vm
from tests.support.family_guest import USER_DATA, in_guest, run_here, seen_from_guest, server_command
from tests.support.guest import build_guest
from tests.support.held_stream import HeldStream
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("passt") is None, reason="this host has no passt: install its package"),
]

IMAGE = "local/passt:1"
PODS, IPV6_PODS = "10.94.33.0/24", "fd94:33::/64"
GATEWAY = "10.94.33.1"
NAME = "passed"
# Whatever comes to the first port comes back; the second echoes too, and nobody outside is led to it.
ECHO_PORT, HIDDEN_PORT = 7, 8
ECHO = "".join(f"nc -ll -p {port} -e /bin/cat </dev/null >/dev/null 2>&1 &\n" for port in (ECHO_PORT, HIDDEN_PORT))
_, MOST_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
ALL_PORTS = needed_descriptors(Passt(all_ports=True))
PORTS: list[JsonObject] = [{"name": "http", "port": 80}, {"port": ECHO_PORT, "protocol": "TCP"}]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", f"{PODS},{IPV6_PODS}")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    found.apply(passt_vm())
    yield found
    found.remove()
    assert passts() == []


def passt_vm(ports: list[JsonObject] | None = None) -> JsonObject:
    vm = copy.deepcopy(small_vm(NAME, IMAGE))
    spec = vm["spec"]["template"]["spec"]
    led = PORTS if ports is None else ports
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "passtBinding": {}, "ports": led}]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA + ECHO}})
    spec["readinessProbe"] = {"httpGet": {"port": 80}, "periodSeconds": 2}
    return vm


def passts() -> list[int]:
    """The processes of passt that speak from this box's addresses."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].rpartition(b"/")[2].startswith(b"passt") and b"--no-map-gw" in words:
            found.append(int(process.name))
    return found


def addresses(box: Box) -> list[str]:
    return box.wait_phase(NAME, "Running").status.interfaces[0].ip_addresses


def test_the_guest_has_its_pods_own_address_and_is_reached_by_it(box: Box) -> None:
    page = box.wait_answer(NAME, 240)
    ipv4, ipv6 = addresses(box)
    assert (ip_address(ipv4) in ip_network(PODS), ip_address(ipv6) in ip_network(IPV6_PODS)) == (True, True)
    # The guest's page says what it has been leased: no address of its own, but that of its Pod.
    assert ipv4 in page
    assert [each.ip for pod in box.client.list(Pod, "default") for each in pod.status.pod_ips] == [ipv4, ipv6]
    wait_until(lambda: box.vm(NAME).status.ready, "its page makes it ready")
    # No bridge and no tap is in the Pod.
    assert len(passts()) == 1
    links = subprocess.run(
        ["nsenter", "-t", str(passts()[0]), "-n", "ip", "-br", "link"], capture_output=True, text=True, check=True
    ).stdout
    assert sorted(line.split()[0].partition("@")[0] for line in links.splitlines()) == ["eth0", "lo"]


def test_only_listed_ports_lead_to_the_guest(box: Box) -> None:
    ipv4 = addresses(box)[0]
    box.wait_answer(NAME, 240)
    with HeldStream(socket.create_connection((ipv4, ECHO_PORT), 10)) as stream:
        stream.goes_on("the port is listed")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((ipv4, HIDDEN_PORT), 10)


def test_what_the_guest_begins_comes_from_the_pods_addresses(box: Box) -> None:
    box.wait_answer(NAME, 240)
    ipv4, ipv6 = addresses(box)
    port = free_port()
    with subprocess.Popen(server_command(port)) as server:
        try:
            wait_until(lambda: run_here("curl", "-s", f"http://127.0.0.1:{port}/"), "a server")
            assert seen_from_guest(run_here, ipv4, GATEWAY, port) == ipv4
            wait_until(lambda: "default via fe80::" in in_guest(run_here, ipv4, "ip -6 route"), "a router", 60, 0.5)
            assert seen_from_guest(run_here, ipv4, "fd94:33::1", port) == ipv6
        finally:
            server.terminate()
    # Over both versions from outside as well; names are asked for where the Pod asks; pings are answered.
    assert in_guest(run_here, ipv6, "echo heard") == "heard\n"
    assert "0% packet loss" in in_guest(run_here, ipv4, f"ping -c 1 -W 5 {GATEWAY}")
    assert ipv4 in in_guest(run_here, ipv4, f"nslookup {NAME}.default.svc.cluster.local")


def test_its_connections_go_on_when_all_that_runs_a_box_is_killed_and_started(box: Box) -> None:
    box.wait_answer(NAME, 240)
    with HeldStream(socket.create_connection((addresses(box)[0], ECHO_PORT), 10)) as stream:
        stream.goes_on("before")
        box.end(signal.SIGKILL)
        stream.goes_on("nothing of kvedge runs but the launcher")
        box.start()
        box.wait_answer(NAME)
        stream.goes_on("kvedge runs again")


def test_a_restart_brings_the_guest_back_with_one_passt(box: Box) -> None:
    box.wait_answer(NAME, 240)
    before = passts()
    box.cli("restart", NAME)
    wait_until(lambda: len(passts()) == 1 and passts() != before, "another passt", 120)
    box.wait_answer(NAME, 240)
    condition = next(
        each for each in box.wait_phase(NAME, "Running").status.conditions if each.type == "LiveMigratable"
    )
    assert (condition.status, condition.reason) == ("False", "InterfaceNotLiveMigratable")


def said_of_network(box: Box) -> tuple[str, str]:
    """What the VMI's condition says, and the state of the link."""
    status = box.wait_phase(NAME, "Running").status
    found = next((each for each in status.conditions if each.type == "Synchronized"), None)
    return "" if found is None else f"{found.reason}: {found.message}", status.interfaces[0].link_state


@pytest.mark.parametrize("launcher", ["goes on", "is told by a handler that begins anew"])
def test_a_passt_that_dies_is_told_and_a_restart_of_the_guest_brings_another(box: Box, launcher: str) -> None:
    box.wait_answer(NAME, 240)
    assert said_of_network(box) == ("", "up")
    if launcher != "goes on":
        box.end(signal.SIGKILL)
    (killed,) = passts()
    os.kill(killed, signal.SIGKILL)
    if launcher != "goes on":
        box.start()
    told = "NetworkCutOff: interface default has no network: passt has ended; restart the VM"
    wait_until(lambda: said_of_network(box) == (told, "down"), "the VMI says that nobody serves its NIC", 60, 0.5)
    uid = box.wait_phase(NAME, "Running").metadata.uid
    wait_until(
        lambda: any(
            each.reason == "NetworkCutOff" and each.involved_object.uid == uid and "passt has ended" in each.message
            for each in box.client.list(Event, "default")
        ),
        "an event",
    )
    box.cli("restart", NAME)
    wait_until(lambda: len(passts()) == 1, "another passt", 120)
    box.wait_answer(NAME, 240)
    wait_until(lambda: said_of_network(box) == ("", "up"), "it is served again", 60, 0.5)


@pytest.mark.skipif(MOST_FILES >= ALL_PORTS, reason="this host lets passt have all ports")
def test_all_ports_where_a_pod_may_open_few_files_are_refused_before_the_guest_starts(box: Box) -> None:
    template = passt_vm(ports=[])["spec"]["template"]
    meta = {"name": "greedy", "namespace": "default"}
    box.apply({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", **template, "metadata": meta})
    vmi = box.wait_phase("greedy", "Failed")
    said = next(each.message for each in vmi.status.conditions if each.type == "Synchronized")
    assert "spec.domain.devices.interfaces[0].passtBinding: for all ports passt has 11" in said
    assert "list the guest's ports" in said
