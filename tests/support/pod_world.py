"""A node with one bound Pod and a stand-in for its guest, of real namespaces and links.

Used by the tests of `tests/machine/network` and by the bench of networks.

The guest is a namespace whose `eth0` hangs on the Pod's bridge by a pair of its own, where QEMU would open the tap.
The pod side is the node network of `kvedge.network.pods.pod_network`, with its own bridge, so that nothing of the
host's is touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.dhcp.dhcp_plan import DhcpLease
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.pods.attachments import NodeNetworkConfig, port_name
from kvedge.network.pods.pod_network import attach_pod, ensure_node_network, remove_node_network
from tests.support.pictures import ip_json
from tests.support.waiting import wait_until

T = TypeVar("T")

CIDR = "10.201.77.0/24"
GATEWAY = "10.201.77.1"
ADDRESS = "10.201.77.5"
POD_MAC = "52:54:00:77:00:05"
QEMU_USER = 107


def node_config(suffix: str = "", cidr: str = CIDR, ipv6_cidr: str = "") -> NodeNetworkConfig:
    """A configuration that no other test run on this machine shares."""
    mark = f"kvt{os.getpid() % 100000}{suffix}"
    return NodeNetworkConfig(bridge=mark, cidr=cidr, ipv6_cidr=ipv6_cidr, table=mark, netns_prefix=f"{mark}-")


@contextmanager
def node_network(config: NodeNetworkConfig) -> Iterator[NodeNetworkConfig]:
    """The node network, removed in the end whatever happened."""
    try:
        ensure_node_network(config)
        yield config
    finally:
        remove_node_network(config)


@dataclass(frozen=True)
class PodWorld:
    """One bound Pod: `pod` and `guest` name namespaces, `bound` is what the binding answered."""

    config: NodeNetworkConfig
    pod: str
    guest: str
    bound: BoundInterface
    record: Path

    @property
    def lease(self) -> DhcpLease:
        """What the guest is to be told."""
        bound = self.bound
        return DhcpLease(
            guest_mac=bound.mac,
            address=bound.address,
            prefix_length=bound.prefix_length,
            server=bound.server,
            gateway=bound.gateway,
            routes=bound.routes,
            dns=("192.0.2.53",),
            search=("svc.example.com", "example.com"),
            hostname="edge-vm",
            domain="example.com",
            mtu=bound.mtu,
        )

    @property
    def port(self) -> str:
        """The host's end of the Pod's pair."""
        return port_name(self.config.bridge, self.pod)

    def in_pod(self, work: Callable[[], T]) -> T:
        """Works in the Pod's namespace."""
        return run_in_netns(netns_path(self.pod), work)

    def in_guest(self, work: Callable[[], T]) -> T:
        """Works where the guest would."""
        return run_in_netns(netns_path(self.guest), work)


def make_pod(config: NodeNetworkConfig, name: str = "pod", address: str = ADDRESS, mac: str = POD_MAC) -> str:
    """A Pod as the node agent makes it; returns its namespace's name."""
    netns = f"{config.netns_prefix}{name}"
    attach_pod(config, netns, address, mac)
    return netns


def plug_guest(config: NodeNetworkConfig, pod: str, mac: str, mtu: int, name: str = "guest") -> str:
    """A guest's NIC on the Pod's bridge, in a namespace of its own."""
    guest = f"{config.netns_prefix}{name}"
    path = create_netns(guest)

    def plug() -> None:
        with Links() as links:
            links.add_veth("plug0", "eth0", path, peer_mac=mac, mtu=mtu)
            links.enslave("plug0", "k6t-eth0")
            links.set("plug0", state="up")

    run_in_netns(netns_path(pod), plug)
    run_in_netns(path, lambda: _bring_up("lo", "eth0"))
    # The kernel opens the bridge's port a moment after the link is up: a frame before that is lost.
    wait_until(lambda: _port_state(pod, "plug0") == "forwarding", "the guest's port forwards")
    return guest


def _port_state(netns: str, link: str) -> object:
    info = ip_json(netns, "link", "show", link)[0]["linkinfo"]
    assert isinstance(info, dict)
    return info["info_slave_data"]["state"]


def _bring_up(*names: str) -> None:
    with Links() as links:
        for name in names:
            links.set(name, state="up")


@contextmanager
def pod_world(directory: Path) -> Iterator[PodWorld]:
    """A node network, a bound Pod on it and its guest; nothing of it is left in the end."""
    with node_network(node_config()) as config:
        record = directory / "eth0.json"
        pod = make_pod(config)
        bound = bind_pod_interface(netns_path(pod), record=record)
        guest = plug_guest(config, pod, bound.mac, bound.mtu)
        yield PodWorld(config, pod, guest, bound, record)
        for name in (guest, pod):
            delete_netns(name)


SERVE = """
import json, sys, threading
from kvedge.network.dhcp.dhcp_plan import DhcpLease, Route
from kvedge.network.dhcp.dhcp_server import DhcpServer
given = json.loads(sys.argv[1])
given["routes"] = tuple(Route(**each) for each in given["routes"])
given = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
given["private_options"] = {int(code): value for code, value in given["private_options"].items()}
acked = lambda lease: print("ack", lease.address, flush=True)
server = DhcpServer(sys.argv[2], DhcpLease(**given), acked)
server.start()
print("ready", flush=True)
sys.stdin.read()
server.stop()
print("stopped", flush=True)
"""


@contextmanager
def dhcp_server(world: PodWorld, lease: DhcpLease | None = None) -> Iterator[subprocess.Popen[str]]:
    """The responder as the launcher runs it: as QEMU's user, without a capability, in the Pod's namespace."""
    given = json.dumps(msgspec.to_builtins(lease or world.lease))
    command = [sys.executable, "-c", SERVE, given, world.bound.bridge]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=QEMU_USER,
            group=QEMU_USER,
            extra_groups=[],
            cwd=Path(__file__).resolve().parents[2],
        )

    server = world.in_pod(start)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    try:
        yield server
    finally:
        rest, _ = server.communicate(timeout=60)
        assert rest.endswith("stopped\n"), rest
        assert server.returncode == 0
