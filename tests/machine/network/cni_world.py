"""A node of its own whose Pods get their network from real CNI plugins, and a bound Pod with a stand-in for its guest.

For tests that run inside `own_host.on_a_host_of_its_own`: the plugins then change that host's links alone. Their
addresses are kept in files below a directory of the test's.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path
from kvedge.network.sysctls import write_sysctl
from tests.support.pod_world import PodWorld, node_config, plug_guest

PLUGINS: Final = Path("/usr/lib/cni")
SUBNET4, GATEWAY4 = "10.202.7.0/24", "10.202.7.1"
SUBNET6, GATEWAY6 = "fd77:7::/64", "fd77:7::1"
CLUSTER4, CLUSTER6 = "10.202.0.0/16", "fd77::/32"
GUEST_MAC: Final = "52:54:00:77:99:01"
IPV4, DUAL, IPV6 = "IPv4", "dual stack", "IPv6"
KINDS: Final = ("ptp", "bridge", "flannel", "macvlan")


@dataclass(frozen=True)
class CniNode:
    """A CNI network of one kind on this host; `families` are the addresses that its Pods get."""

    kind: str
    families: str
    state: Path

    @property
    def version4(self) -> bool:
        """Whether its Pods have IPv4."""
        return self.families != IPV6

    @property
    def version6(self) -> bool:
        """Whether its Pods have IPv6."""
        return self.families != IPV4

    def config(self) -> dict[str, Any]:
        """What would stand in /etc/cni/net.d."""
        ranges = [[{"subnet": SUBNET4}]] * self.version4 + [[{"subnet": SUBNET6}]] * self.version6
        ipam: dict[str, Any] = {"type": "host-local", "dataDir": str(self.state), "ranges": ranges}
        everywhere = [{"dst": "0.0.0.0/0"}] * self.version4 + [{"dst": "::/0"}] * self.version6
        found: dict[str, Any] = {"cniVersion": "0.4.0", "name": "pods", "ipam": ipam | {"routes": everywhere}}
        match self.kind:
            case "ptp":
                return found | {"type": "ptp", "mtu": 1400}
            case "bridge":
                return found | {"type": "bridge", "bridge": "cni0", "isGateway": True}
            case "flannel":
                # As flannel's own plugin writes it for the bridge plugin, with a cluster of more than this node.
                cluster = [{"dst": CLUSTER4}] * self.version4 + [{"dst": CLUSTER6}] * self.version6
                ours = {"bridge": "cni0", "isDefaultGateway": True, "hairpinMode": True, "mtu": 1450}
                return found | {"type": "bridge", "ipam": ipam | {"routes": cluster}} | ours
            case "macvlan":
                return found | {"type": "macvlan", "master": "lan0", "mode": "bridge"}
            case "host-device":
                # Without addresses: the LAN's own router gives them.
                return {"cniVersion": "0.4.0", "name": "pods", "type": "host-device", "device": "lan0"}
        raise AssertionError(self.kind)

    def prepare_host(self) -> None:
        """What a node has besides: forwarding, and the LAN of a macvlan or of a NIC that is lent, with its router."""
        write_sysctl("ipv4/ip_forward", "1")
        write_sysctl("ipv6/conf/all/forwarding", "1")
        if self.kind not in ("macvlan", "host-device"):
            return
        with Links() as links:
            links.add("lan0", "veth", peer={"ifname": "lan1"})
            for name in ("lan0", "lan1"):
                links.set(name, state="up")
            if self.version4:
                links.add_address("lan1", GATEWAY4, 24)
            if self.version6:
                links.add_address("lan1", GATEWAY6, 64)

    def call(self, command: str, netns: str, previous: dict[str, Any] | None = None) -> dict[str, Any]:
        """Has the plugin do it for the Pod of that namespace; its answer."""
        config = self.config() | ({} if previous is None else {"prevResult": previous})
        plugin = PLUGINS / config["type"]
        if not plugin.exists():
            pytest.skip(f"{plugin} is not here: install containernetworking-plugins")
        given = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": f"id-{netns}",
            "CNI_NETNS": str(netns_path(netns)),
            "CNI_IFNAME": "eth0",
            "CNI_PATH": str(PLUGINS),
        }
        done = subprocess.run(
            [plugin], input=json.dumps(config), capture_output=True, text=True, env=os.environ | given, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout)) if done.stdout.strip() else {}

    def given_addresses(self) -> list[str]:
        """The addresses that are some Pod's, as the IPAM plugin's files say."""
        return sorted(
            each.name for each in (self.state / "pods").iterdir() if each.name[0].isdigit() or ":" in each.name
        )


@contextmanager
def cni_pod(node: CniNode, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A Pod's namespace with the network the plugin gave it, and the plugin's answer; undone in the end."""
    netns = f"{node_config().netns_prefix}{name}"
    create_netns(netns)
    try:
        answer = node.call("ADD", netns)
        yield netns, answer
        node.call("DEL", netns)
    finally:
        delete_netns(netns)


def addresses_of(answer: dict[str, Any]) -> list[str]:
    """The Pod's addresses in a plugin's answer, without their lengths."""
    return [each["address"].split("/")[0] for each in answer["ips"]]


@contextmanager
def bound_pod(node: CniNode, directory: Path, guest_mac: str = GUEST_MAC) -> Iterator[tuple[PodWorld, dict[str, Any]]]:
    """A Pod of that node, bound, with its guest plugged in; and what the plugin had answered."""
    record = directory / "record.json"
    with cni_pod(node, "pod") as (pod, answer):
        bound = bind_pod_interface(netns_path(pod), record=record, guest_mac=guest_mac)
        guest = plug_guest(node_config(), pod, bound.mac, bound.mtu)
        try:
            yield PodWorld(node_config(), pod, guest, bound, record), answer
        finally:
            delete_netns(guest)
