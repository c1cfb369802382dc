"""A guest on a network of the LAN where no Multus is: the handler of a node that has its bridge joins it."""

from __future__ import annotations

import copy
import json
import signal
from collections.abc import Iterator

import pytest

from kvedge.network.lan.lan_plan import lan_prefix
from kvedge.network.lan.node_lans import NODE_LANS
from kvedge.resources.codec import JsonObject
from kvedge.resources.lan_bridges import BRIDGE_PREFIX
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Node
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import MachineNode
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]

NAME, NODE, BRIDGE = "on-lan", "n2", "br-lan"
ADDRESS, NODE_ADDRESS = "198.51.100.2", "198.51.100.1"


def vm(image: str) -> JsonObject:
    """A guest that asks for an address on the LAN, and has a page that everybody may ask for."""
    found = copy.deepcopy(small_vm(NAME, image))
    spec = found["spec"]["template"]["spec"]
    devices = spec["domain"]["devices"]
    devices["interfaces"] = [{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}}]
    spec["networks"] = [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}]
    script = "#!/bin/sh\nip link set eth1 up; udhcpc -i eth1 -b >/dev/null 2>&1\n"
    devices["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": script}})
    return found


@pytest.fixture
def node(own_cluster: LocalCluster) -> Iterator[MachineNode]:
    """The only node that has the bridge, and the network of it."""
    addresses = ("--dhcp", f"{ADDRESS}-198.51.100.9/24", "--filter-addresses")
    made = own_cluster.cli("network", "create", "lan", "--bridge", BRIDGE, *addresses)
    assert "network lan created" in made.stdout
    found = own_cluster.nodes[NODE]
    yield found
    own_cluster.remove_vm(NAME)
    own_cluster.kubectl("delete", "crd", attachment_crd()["metadata"]["name"])
    found.run("ip", "link", "delete", BRIDGE, check=False)


def ports(node: MachineNode) -> list[JsonObject]:
    """The handler's ports on the bridge."""
    found = json.loads(node.run("ip", "-json", "link", "show", "type", "veth") or "[]")
    return [link for link in found if link["ifname"].startswith(lan_prefix(NODE_LANS))]


def page(node: MachineNode) -> str:
    """The guest's, asked for from its node by the LAN."""
    return node.run("curl", "-sf", "--noproxy", "*", "--max-time", "2", f"http://{ADDRESS}/facts", check=False)


def test_a_guest_waits_for_a_node_with_its_bridge_and_is_on_the_lan_there(
    own_cluster: LocalCluster, node: MachineNode
) -> None:
    own_cluster.apply(vm(own_cluster.image))

    def complaint() -> str:
        vmi = own_cluster.vmi(NAME)
        found = condition(vmi.status.conditions, "PodScheduled") if vmi is not None else None
        return found.message if found is not None else ""

    said = wait_until(complaint, "the VM says what it waits for", 60)
    assert f"on nodes with bridge {BRIDGE} alone" in said
    node.run("ip", "link", "add", BRIDGE, "type", "bridge")
    node.run("ip", "link", "set", BRIDGE, "up")
    node.run("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", BRIDGE)
    # A node tells of its bridges with each of its heartbeats, and when its handler starts.
    own_cluster.restart_kvedge(NODE)
    wait_until(
        lambda: BRIDGE_PREFIX + BRIDGE in own_cluster.client.get(Node, "", NODE).metadata.labels, "it is told", 90
    )
    vmi = own_cluster.wait_phase(NAME, "Running", 200)
    assert vmi.status.node_name == NODE
    assert f"hostname={NAME}" in wait_until(lambda: page(node), "the guest answers on the LAN", 240)
    first, second = vmi.status.interfaces
    assert (first.name, second.name, second.info_source) == ("default", "lan", "domain")
    assert second.ip_address == ADDRESS, "the network's first, which the controller has reserved for it"
    (port,) = ports(node)
    assert port["master"] == BRIDGE
    with own_cluster.without(NODE, "kvedge", signal.SIGKILL):
        assert f"hostname={NAME}" in wait_until(lambda: page(node), "the guest goes on without its handler", 60)
        node.run("ip", "link", "set", port["ifname"], "nomaster")
    wait_until(lambda: page(node), "a handler that starts puts the guest back on its network", 60)
    assert [each["ifindex"] for each in ports(node)] == [port["ifindex"]]
    own_cluster.remove_vm(NAME)
    wait_until(lambda: not ports(node), "nothing is left of it", 60)
