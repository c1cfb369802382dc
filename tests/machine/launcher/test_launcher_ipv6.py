"""A launcher speaks to its guest as the router that the handler told it of, by a socket that it could not open."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6ND_RS, IPv6
from scapy.layers.l2 import Ether

from kvedge.network.binding.router_socket import hand_router_socket
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.rpc import launcher_pb2 as m
from tests.machine.network.frames import wire
from tests.support.launcher_pod import BRIDGE, LauncherPod, guest_interface, launcher_pod

pytestmark = pytest.mark.machine

ROUTER = "fe80::77"


def sync_with_ipv6(pod: LauncherPod) -> None:
    """The handler's first call, for a guest that has IPv6."""
    interface = guest_interface()
    lease = m.Ipv6Lease(address="fd77::7", server_mac="02:00:00:00:00:01", router=ROUTER, is_default=True, mtu=1400)
    interface.ipv6.CopyFrom(lease)
    request = m.SyncRequest(
        vmi_json=json.dumps(pod.vmi()).encode(), interfaces=[interface], options=m.NodeOptions(emulation=True)
    )
    pod.call("Sync", request, 60)


def test_a_guest_that_asks_for_its_router_is_told_the_pods(tmp_path: Path, seed: Path) -> None:
    guest = f"kvt{os.getpid()}-guest"
    path = create_netns(guest)
    try:
        with launcher_pod(tmp_path, seed=seed) as pod:
            sync_with_ipv6(pod)
            launcher = pod.launcher_pid()
            inside = Path(f"/proc/{launcher}/ns/net")
            run_in_netns(inside, lambda: plug(path))
            run_in_netns(netns_path(guest), lambda: bring_up("eth0"))
            hand_router_socket(inside, BRIDGE, launcher)
            with wire(guest, "eth0") as link:
                link.send(Ether(dst="33:33:00:00:00:02") / IPv6(src="::", dst="ff02::2", hlim=255) / ICMPv6ND_RS())
                told = link.first(lambda frame: ICMPv6ND_RA in frame, seconds=10)
            assert told is not None
            assert (told[IPv6].src, told[IPv6].hlim) == (ROUTER, 255)
            assert (told[ICMPv6ND_RA].M, told[ICMPv6ND_RA].routerlifetime) == (1, 9000)
    finally:
        delete_netns(guest)


def plug(guest: Path) -> None:
    """A stand-in for the guest's NIC, on the Pod's bridge."""
    with Links() as links:
        links.add_veth("plug0", "eth0", guest, peer_mac="52:54:00:77:88:99", mtu=1400)
        links.enslave("plug0", BRIDGE)
    bring_up("plug0")


def bring_up(name: str) -> None:
    with Links() as links:
        links.set(name, state="up")
