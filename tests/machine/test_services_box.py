"""Services and NetworkPolicies on one box: an exposed guest answers while it is ready, and whom a policy lets in."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network

import pytest

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.resources.types.services import Service
from kvedge.resources.values.bandwidth import INGRESS
from tests.support.agent_guest import RUN_PATH, USER_DATA
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.lan_neighbour import Neighbour, host_bridge, neighbour
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/agent:1"
WEB, CLIENT = "web", "client"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


# A LAN of this machine's, and the addresses there that Services get.
LAN_BRIDGE, LAN_NIC, LAN, LAN_POOL = "bkpool0", "bkpool1", "198.18.41", "198.18.41.128/29"


@pytest.fixture(scope="module")
def lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbour]:
    """A neighbour on it."""
    with (
        host_bridge(LAN_BRIDGE, f"{LAN}.1"),
        neighbour(LAN_NIC, f"{LAN}.9", LAN, tmp_path_factory.mktemp("lan")) as found,
    ):
        subprocess.run(["ip", "link", "set", LAN_NIC, "master", LAN_BRIDGE], check=True)
        yield found


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, lan: Neighbour) -> Iterator[Box]:
    """A box with a guest that serves a page, and one that asks for it."""
    pool = ["--load-balancer-pool", LAN_POOL]
    with guest_box(tmp_path_factory.mktemp("box"), "10.95.41.0/24", IMAGE, agent=True, options=pool) as found:
        for name in (WEB, CLIENT):
            found.apply(guest_with_commands(name))
        for name in (WEB, CLIENT):
            found.wait_phase(name, "Running")
        for name in (WEB, CLIENT):
            found.wait_answer(name)
        yield found


def guest_with_commands(name: str) -> JsonObject:
    """A VM in whose guest commands can be run."""
    vm = small_vm(name, IMAGE)
    if name == WEB:
        vm["spec"]["template"]["metadata"] = {"annotations": {INGRESS: "1M"}}
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    user_data = "\n".join(line for line in USER_DATA.splitlines() if "/dev/vda" not in line)
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": user_data}})
    return vm


def page(address: str, port: int) -> str:
    """What the page there says; empty when nobody answers."""
    with suppress(OSError), OPENER.open(f"http://{address}:{port}/", timeout=2) as answer:
        return str(answer.read(65536).decode())
    return ""


def run_in(box: Box, name: str, command: str) -> str:
    """What a command says in a guest."""
    return run_at(address_of(box, name), command)


def run_at(address: str, command: str) -> str:
    """What a command says in the guest there."""
    url = f"http://{address}{RUN_PATH}"
    with OPENER.open(urllib.request.Request(url, data=command.encode()), timeout=30) as answer:
        return str(answer.read().decode())


def service(box: Box, name: str) -> Service:
    return box.client.get(Service, "default", name)


def address_of(box: Box, name: str) -> str:
    vmi = box.vmi(name)
    assert vmi is not None
    return vmi.status.interfaces[0].ip_address


def host_address() -> str:
    """The host's own address, as the Node has it."""
    done = subprocess.run(["ip", "-j", "route", "get", "192.0.2.1"], capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)[0]["prefsrc"])


def test_a_guest_is_reached_at_its_services_address_and_at_the_nodes_port(box: Box) -> None:
    box.cli("expose", "vm", WEB, "--name", "web-node", "--port", "8080", "--target-port", "80", "--type", "NodePort")
    found = service(box, "web-node")
    mine = address_of(box, WEB)
    assert 30000 <= found.spec.ports[0].node_port <= 32767
    wait_until(lambda: mine in page(found.spec.cluster_ip, 8080), "the Service's address answers", 20)
    assert mine in page(host_address(), found.spec.ports[0].node_port)
    for name in (CLIENT, WEB):
        # The guest's static busybox cannot look up the port of a protocol, as its wget would.
        said = run_in(box, name, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {found.spec.cluster_ip} 8080")
        assert mine in said


def test_a_neighbour_of_the_lan_reaches_a_guest_at_its_services_own_address(box: Box, lan: Neighbour) -> None:
    words = ("--port", "8088", "--target-port", "80", "--type", "LoadBalancer")
    box.cli("expose", "vm", WEB, "--name", "web-lan", *words)

    def given() -> str:
        found = box.client.request("GET", "/api/v1/namespaces/default/services/web-lan")
        assert isinstance(found, dict)
        ingress = found["status"].get("loadBalancer", {}).get("ingress", [])
        return str(ingress[0]["ip"]) if ingress else ""

    address = wait_until(given, "an address of the pool", 20)
    assert ip_address(address) in ip_network(LAN_POOL)
    mine = address_of(box, WEB)
    wait_until(lambda: mine in lan.page(f"http://{address}:8088/"), "the neighbour is answered", 30)
    assert lan.page(f"http://{address}:80/") == "", "the address is the Service's alone"
    box.cli("delete", "service", "web-lan")
    wait_until(lambda: lan.page(f"http://{address}:8088/") == "", "nobody is there any more", 20)


def test_packets_above_a_guests_bandwidth_are_dropped_and_shown(box: Box) -> None:
    mine = address_of(box, WEB)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(400):
            with suppress(OSError):
                sender.sendto(bytes(1200), (mine, 9))
    assert sum(hop.get("toGuest", {}).get("queueDropped", 0) for hop in way_of(box, WEB)) > 0
    assert mine in page(mine, 80)


def way_of(box: Box, name: str) -> list[JsonObject]:
    """The links on the way to a guest's first NIC, with what they have counted."""
    (shown, *_) = json.loads(box.cli("network", "show", name, "-o", "json").stdout)["interfaces"]
    return list(shown["way"])


def test_a_guest_finds_others_by_their_names(box: Box) -> None:
    mine = address_of(box, WEB)
    resolver = run_in(box, CLIENT, "cat /etc/resolv.conf")
    assert "nameserver 10.95.41.1\n" in resolver
    assert "default.svc.cluster.local" in resolver
    for name in ("web.default.svc.cluster.local", "web.default"):
        said = run_in(box, CLIENT, f"nslookup {name} 10.95.41.1")
        assert mine in said, said
    assert "NXDOMAIN" in run_in(box, CLIENT, "nslookup nobody.default.svc.cluster.local 10.95.41.1")


def asked(client: str, address: str) -> str:
    """What the client's guest is told by a page there."""
    return run_at(client, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {address} 80")


def policy(name: str, **spec: JsonValue) -> JsonObject:
    selector: JsonObject = {"matchLabels": {"vm.kubevirt.io/name": WEB}}
    metadata: JsonObject = {"name": name, "namespace": "default"}
    spec = {"podSelector": selector, **spec}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def test_a_guest_is_reached_by_whom_policies_name_and_by_its_node(box: Box) -> None:
    mine, other = address_of(box, WEB), address_of(box, CLIENT)

    def is_let_in() -> bool:
        return mine in asked(other, mine)

    assert is_let_in()
    box.apply(policy("nobody"))
    wait_until(lambda: not is_let_in(), "the policy keeps the client away", 20)
    filtered = [each for hop in way_of(box, WEB) for each in hop.get("filtered", [])]
    denied = {each["what"]: each["packets"] for each in filtered}
    assert denied[f"NetworkPolicies, ingress, {mine}"] > 0
    # The node always reaches its guests.
    assert mine in page(mine, 80)
    client: JsonObject = {"podSelector": {"matchLabels": {"vm.kubevirt.io/name": CLIENT}}}
    box.apply(policy("client", ingress=[{"from": [client], "ports": [{"port": 80}]}]))
    wait_until(is_let_in, "another policy lets the client in", 20)
    box.cli("delete", "networkpolicy", "client")
    wait_until(lambda: not is_let_in(), "the client is kept away again", 20)
    box.cli("delete", "networkpolicy", "nobody")
    wait_until(is_let_in, "nothing is in the way", 20)


def test_nothing_answers_at_once_when_the_guest_is_gone(box: Box) -> None:
    box.cli("expose", "vm", WEB, "--name", "web-gone", "--port", "80")
    address = service(box, "web-gone").spec.cluster_ip
    wait_until(lambda: page(address, 80), "the Service's address answers", 20)
    box.cli("stop", WEB)
    box.wait_gone(WEB)

    def is_refused() -> bool:
        try:
            OPENER.open(f"http://{address}/", timeout=5)
        except OSError as error:
            return "refused" in str(error)
        return False

    wait_until(is_refused, "nobody is behind the Service", 20)
