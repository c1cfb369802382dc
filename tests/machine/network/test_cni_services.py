"""What Kubernetes does on the node's side of a Pod reaches the guest: Services, also its own, and network policies."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import ICMPv6ND_NS, IPv6
from scapy.layers.l2 import Ether

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.links import Links
from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.sysctls import write_sysctl
from tests.machine.network.cni_world import DUAL, GATEWAY4, GUEST_MAC, IPV4, CniNode, addresses_of, bound_pod, cni_pod
from tests.machine.network.dhcp_clients import needs
from tests.machine.network.frames import wire
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.support.pod_world import PodWorld
from tests.support.waiting import wait_until

SERVICE = "10.96.0.10"
# As kube-proxy does: the Service's address becomes the Pod's, and who is Pod and client at once gets the node's.
KUBE_PROXY = """
table ip kube {
  chain prerouting { type nat hook prerouting priority -100; ip daddr %(service)s tcp dport 80 dnat to %(pod)s:8080; }
  chain output { type nat hook output priority -100; ip daddr %(service)s tcp dport 80 dnat to %(pod)s:8080; }
  chain postrouting {
    type nat hook postrouting priority 100;
    ip saddr %(pod)s ip daddr %(pod)s masquerade
  }
}
"""
POLICY = """
table ip policies {
  chain forward { type filter hook forward priority 0; ip saddr %(other)s ip daddr %(pod)s drop; }
}
"""


def nft(rules: str, **names: str) -> None:
    subprocess.run([needs("nft", "nftables"), "-f", "-"], input=rules % names, text=True, check=True)


@contextmanager
def configured_guest(node: CniNode, directory: Path) -> Iterator[tuple[PodWorld, str]]:
    """A guest with its Pod's address, and a server on it."""
    with bound_pod(node, directory) as (world, answer):
        address = addresses_of(answer)[0]

        def configure() -> socket.socket:
            with Links() as links:
                links.add_address("eth0", address, world.bound.prefix_length)
                links.add_route("0.0.0.0/0", GATEWAY4, "eth0")
            return socket.create_server((address, 8080))

        with world.in_guest(configure):
            yield world, address


def reaches(address: str, port: int) -> bool:
    """Whether a connection is made; its other end takes it by its backlog alone."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["flannel", "ptp"])
@on_a_host_of_its_own
def test_a_service_leads_to_the_guest_from_everywhere_and_from_itself(kind: str, tmp_path: Path) -> None:
    node = CniNode(kind, IPV4, tmp_path / "ipam")
    node.prepare_host()
    with configured_guest(node, tmp_path) as (world, address), cni_pod(node, "other") as (other, _):
        nft(KUBE_PROXY, service=SERVICE, pod=address)
        assert reaches(SERVICE, 80), "the node does not reach the Service"
        assert run_in_netns(netns_path(other), lambda: reaches(SERVICE, 80))
        assert world.in_guest(lambda: reaches(SERVICE, 80)), "the guest does not reach its own Service"


def port_flags() -> dict[str, dict[str, object]]:
    """What the node's bridge was told of its ports."""
    found = subprocess.run(["bridge", "-d", "-j", "link"], capture_output=True, text=True, check=True)
    names = ("hairpin", "learning", "flood", "guard", "isolated", "mcast_flood")
    return {port["ifname"]: {name: port[name] for name in names} for port in json.loads(found.stdout)}


@on_a_host_of_its_own
def test_the_nodes_end_of_the_pods_link_stays_as_the_cni_made_it(tmp_path: Path) -> None:
    node = CniNode("flannel", IPV4, tmp_path / "ipam")
    node.prepare_host()
    with cni_pod(node, "pod") as (pod, _):
        before = port_flags()
        assert [flags["hairpin"] for flags in before.values()] == [True]
        bind_pod_interface(netns_path(pod), record=tmp_path / "r", guest_mac=GUEST_MAC)
        assert port_flags() == before


@on_a_host_of_its_own
def test_a_network_policy_of_the_node_holds_for_the_guest(tmp_path: Path) -> None:
    node = CniNode("flannel", IPV4, tmp_path / "ipam")
    node.prepare_host()
    if not Path("/proc/sys/net/bridge").exists():
        pytest.skip("this kernel has no br_netfilter: load it")
    # As every node of Kubernetes has it: what its bridges pass on goes by its rules.
    write_sysctl("bridge/bridge-nf-call-iptables", "1")
    with configured_guest(node, tmp_path) as (_, address), cni_pod(node, "other") as (other, others):
        assert run_in_netns(netns_path(other), lambda: reaches(address, 8080))
        nft(POLICY, pod=address, other=addresses_of(others)[0])
        wait_until(lambda: not run_in_netns(netns_path(other), lambda: reaches(address, 8080)), "the policy to hold")
        assert reaches(address, 8080), "the node is kept out as well"


@on_a_host_of_its_own
def test_a_hairpin_does_not_let_the_guest_take_its_own_question_for_somebody_elses(tmp_path: Path) -> None:
    node = CniNode("flannel", DUAL, tmp_path / "ipam")
    node.prepare_host()
    with bound_pod(node, tmp_path) as (world, _), wire(world.guest, "eth0") as guest:
        to_all = {"src": GUEST_MAC, "dst": "33:33:00:00:00:01"}
        # As guests ask that know no nonce (RFC 7527), by which Linux recognises what comes back.
        guest.send(Ether(**to_all) / IPv6(src="::", dst="ff02::1", hlim=255) / ICMPv6ND_NS(tgt="fd77:7::2"))
        guest.send(Ether(**to_all) / IPv6(src="fe80::7", dst="ff02::1") / UDP(dport=9))
        came_back = guest.first(lambda frame: frame[Ether].src == GUEST_MAC and (ICMPv6ND_NS in frame or UDP in frame))
        assert came_back is not None, "the node's bridge reflects nothing"
        assert UDP in came_back
