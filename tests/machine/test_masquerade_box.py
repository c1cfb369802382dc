"""Masqueraded guests on one box: each has the same address of its own, and is reached by its Pod's."""

from __future__ import annotations

import copy
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address, ip_network

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from tests.support.box import Box, small_vm
from tests.support.family_guest import USER_DATA, give_address, in_guest, run_here
from tests.support.guest import build_guest
from tests.support.held_stream import HeldStream
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

IMAGE = "local/masqueraded:1"
PODS, IPV6_PODS = "10.94.31.0/24", "fd94:31::/64"
OWN, OWN_IPV6 = "10.0.2.2", "fd10:0:2::2"
# Whatever comes to this port of the guest comes back.
ECHO_PORT = 7
ECHO = f"nc -ll -p {ECHO_PORT} -e /bin/cat </dev/null >/dev/null 2>&1 &\n"
# One takes all that comes, the other the port of its page alone.
ALL, LISTED = "behind", "listed"
NAMES = (ALL, LISTED)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", f"{PODS},{IPV6_PODS}")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    found.apply(with_commands(masqueraded_vm(ALL)))
    found.apply(masqueraded_vm(LISTED, ports=[{"name": "http", "port": 80}], macAddress="02:aa:00:00:00:07"))
    yield found
    found.remove()


def masqueraded_vm(name: str, **interface: object) -> JsonObject:
    vm = copy.deepcopy(small_vm(name, IMAGE))
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}, **interface}]
    spec["readinessProbe"] = {"httpGet": {"port": 80}, "periodSeconds": 2}
    return vm


def with_commands(vm: JsonObject) -> JsonObject:
    """A guest in which commands can be run, and which echoes."""
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA + ECHO}})
    return vm


@pytest.mark.parametrize("name", NAMES)
def test_a_masqueraded_guest_has_its_own_address_and_answers_by_the_pods(box: Box, name: str) -> None:
    # The guest's page says what the guest has been leased, and its MAC.
    page = box.wait_answer(name, 240)
    nic = box.wait_phase(name, "Running").status.interfaces[0]
    assert ip_address(nic.ip_address) in ip_network(PODS)
    ipv4, ipv6 = nic.ip_addresses
    assert (ipv4, ip_address(ipv6) in ip_network(IPV6_PODS)) == (nic.ip_address, True)
    assert OWN in page
    assert nic.ip_address not in page
    assert nic.mac in page.lower()
    pods = {pod.status.pod_ip: [each.ip for each in pod.status.pod_ips] for pod in box.client.list(Pod, "default")}
    assert pods[nic.ip_address] == nic.ip_addresses
    # The probe asks at the Pod's address, too, and so does a forwarded port.
    wait_until(lambda: box.vm(name).status.ready, "its page makes it ready")
    assert OWN in forwarded(box, name)


def forwarded(box: Box, name: str) -> str:
    """The guest's page by `port-forward`."""
    done = subprocess.run(
        box.command("port-forward", "--stdio=true", f"vmi/{name}/default", "80"),
        input="GET / HTTP/1.0\r\n\r\n",
        capture_output=True,
        text=True,
        env={**os.environ, "KUBECONFIG": str(box.kubeconfig)},
        check=True,
        timeout=60,
        cwd="/",
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_kubectl_reaches_a_guest_by_its_launchers_pod_at_the_ports_that_it_has(box: Box) -> None:
    for name in NAMES:
        box.wait_answer(name, 240)
    assert OWN in by_kubectl(box, ALL, 80)
    assert OWN in by_kubectl(box, LISTED, 80)
    assert "Connection refused" in by_kubectl(box, LISTED, ECHO_PORT)


def by_kubectl(box: Box, name: str, port: int) -> str:
    """A guest's page by `kubectl port-forward`, or what kubectl says of an answer that does not come."""
    vmi = box.vmi(name)
    assert vmi is not None
    (pod,) = box.pods(vmi)
    command = ["kubectl", "--kubeconfig", str(box.kubeconfig), "port-forward", f"pod/{pod.metadata.name}", f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert f"-> {port}" in told, told
            local = int(told.split()[2].rpartition(":")[2])
            found = b""
            with suppress(ConnectionError), socket.create_connection(("127.0.0.1", local), 30) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while piece := client.recv(4096):
                    found += piece
        finally:
            process.terminate()
        return found.decode() or process.stdout.read()


def test_guests_and_their_connections_go_on_when_all_that_runs_a_box_is_killed_and_started(box: Box) -> None:
    """Of both IP versions, begun from either side; and when somebody loads rules of his own."""
    for name in NAMES:
        box.wait_answer(name, 240)
    before = {name: box.wait_phase(name, "Running").metadata.uid for name in NAMES}
    ipv4, ipv6 = box.wait_phase(ALL, "Running").status.interfaces[0].ip_addresses
    give_address(run_here, ipv4, OWN_IPV6)
    with ExitStack() as held:
        streams = [held.enter_context(HeldStream(socket.create_connection((to, ECHO_PORT)))) for to in (ipv4, ipv6)]
        streams.append(held.enter_context(HeldStream(begun_by_guest(ipv4))))

        def all_go_on(what: str) -> None:
            for stream in streams:
                stream.goes_on(what)

        all_go_on("before anything happens")
        box.end(signal.SIGKILL)
        all_go_on("nothing of kvedge runs but the launchers")
        box.start()
        for name in NAMES:
            assert OWN in box.wait_answer(name)
            assert box.wait_phase(name, "Running").metadata.uid == before[name]
        all_go_on("kvedge runs again")
        with foreign_rules():
            all_go_on("somebody's rules are loaded")
        all_go_on("they are gone again")


def begun_by_guest(ipv4: str) -> socket.socket:
    """A connection to this machine's end of the Pod network, where the guest echoes."""
    gateway = f"{PODS.rpartition('.')[0]}.1"
    with socket.create_server((gateway, 0)) as server:
        server.settimeout(30)
        port = server.getsockname()[1]
        in_guest(run_here, ipv4, f"nc {gateway} {port} -e /bin/cat </dev/null >/dev/null 2>&1 &")
        return server.accept()[0]


@contextmanager
def foreign_rules() -> Iterator[None]:
    """A table of somebody else's that looks at all that is forwarded, loaded twice as a firewall's service does it."""
    name = f"kvforeign{os.getpid()}"
    rules = f"table inet {name} {{\n chain forward {{\n  type filter hook forward priority 10; policy accept;\n"
    rules += "  ct state established,related counter accept\n }\n}\n"
    try:
        for text in (rules, f"flush table inet {name}\ndelete table inet {name}\n{rules}"):
            subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", name], check=True)
