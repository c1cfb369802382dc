"""Pods with addresses of both IP versions from a real kubelet and CNI: bridge and masquerade carry both, both ways."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import MachineNode
from tests.support.family_guest import USER_DATA, fetch, give_address, seen_from_guest, server_command
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NODE, PORT = "n1", 8099
IPV6_PODS, IPV6_GATEWAY = "fd42:7:1::/64", "fd42:7:1::1"
CONFIG = "/etc/cni/net.d"
# Before the node's own, by its name.
OURS = "05-dual.conflist"
BINDINGS = ("bridge", "masquerade")
# A masqueraded guest's own, which nobody else sees.
OWN_IPV6 = "fd10:0:2::2"


@dataclass(frozen=True)
class DualGuest:
    """A running guest, and where it is reached."""

    vmi: VirtualMachineInstance
    node: MachineNode

    def run(self, *command: str) -> str:
        """Beside the Pods, where their gateway is."""
        return self.node.run(*command, check=False)


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest) -> Iterator[MachineNode]:
    """A node whose CNI gives addresses of both versions, with a server that says whom it sees."""
    request.getfixturevalue("own_machine")
    cluster: LocalCluster = request.getfixturevalue("cluster")
    found = cluster.nodes[NODE]
    own = found.directory / CONFIG.lstrip("/")
    config = json.loads(next(own.glob("*.conflist")).read_text())
    (plugin,) = config["plugins"]
    plugin["ipam"]["ranges"].append([{"subnet": IPV6_PODS, "gateway": IPV6_GATEWAY}])
    plugin["ipam"]["routes"].append({"dst": "::/0"})
    (own / OURS).write_text(json.dumps(config))
    # It would notice a new configuration, but not say when.
    found.end("containerd")
    found.start_containerd()
    found.spawn("seen", *server_command(PORT))
    yield found
    found.end("seen")
    (own / OURS).unlink()
    found.end("containerd")
    found.start_containerd()


def dual_vm(binding: str, image: str) -> JsonObject:
    vm = copy.deepcopy(small_vm(f"dual-{binding}", image))
    spec = vm["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", binding: {}}]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA}})
    return vm


@pytest.fixture(scope="module")
def guests(request: pytest.FixtureRequest, node: MachineNode) -> Iterator[Callable[[str], DualGuest]]:
    """One for each binding; they boot side by side."""
    cluster: LocalCluster = request.getfixturevalue("cluster")
    for binding in BINDINGS:
        cluster.apply(dual_vm(binding, cluster.image))

    def running(binding: str) -> DualGuest:
        vmi = cluster.wait_phase(f"dual-{binding}", "Running")
        return DualGuest(vmi, node)

    yield running
    for binding in BINDINGS:
        cluster.remove_vm(f"dual-{binding}")


@pytest.mark.parametrize("binding", BINDINGS)
def test_both_ip_versions_pass_both_ways_from_a_real_kubelet(
    own_cluster: LocalCluster, guests: Callable[[str], DualGuest], binding: str
) -> None:
    guest = guests(binding)
    (pod,) = own_cluster.pods(guest.vmi)
    addresses = [each.ip for each in pod.status.pod_ips]
    assert [":" in address for address in addresses] == [False, True]
    ipv4, ipv6 = addresses

    def told() -> list[str]:
        found = own_cluster.vmi(guest.vmi.metadata.name)
        return found.status.interfaces[0].ip_addresses if found is not None and found.status.interfaces else []

    wait_until(lambda: told() == addresses, "the status has the Pod's addresses", 60, 0.3)
    wait_until(lambda: "Hello from" in fetch(guest.run, ipv4), "the guest's page", 240, 0.3)
    give_address(guest.run, ipv4, ipv6 if binding == "bridge" else OWN_IPV6)
    assert "Hello from" in wait_until(lambda: fetch(guest.run, ipv6), "its page by IPv6", 60, 0.3)
    # What the guest begins is seen from its Pod's addresses.
    # The node's end of the Pod network, as CNI chooses it.
    gateway = f"{ipv4.rpartition('.')[0]}.1"
    assert seen_from_guest(guest.run, ipv4, gateway, PORT) == ipv4
    assert seen_from_guest(guest.run, ipv4, IPV6_GATEWAY, PORT) == ipv6
