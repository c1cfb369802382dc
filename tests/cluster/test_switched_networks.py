"""A running guest whose NIC is to be on another network of the real Multus: it goes to a Pod that has joined that one.

As KubeVirt's tests/network/nad_live_update.go has it. Multus is a thin one, and on both nodes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.resources.meta import condition
from kvedge.resources.names import MIGRATION_REQUIRED
from kvedge.resources.types.pod_networks import NETWORK_STATUS, pod_nic
from kvedge.resources.types.vmi import InterfaceStatus
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import MachineNode
from tests.support.cluster.moved_guests import moved_guests
from tests.support.cluster.multus import Multus, attachment, missing_multus
from tests.support.hotplug_guest import USER_DATA, HotplugGuest, hotplug_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NAME = "switches"
# The networks' names, each with the bridge that CNI makes of it on a node.
FIRST, SECOND = ("net-first", "br-first"), ("net-second", "br-second")
ADDRESS, NODE_ADDRESS = "198.51.100.2", "198.51.100.1"


@pytest.fixture(scope="module")
def nodes(request: pytest.FixtureRequest) -> Iterator[Mapping[str, MachineNode]]:
    """Both nodes with Multus, and the two networks."""
    request.getfixturevalue("own_machine")
    if missing := missing_multus():
        pytest.skip(f"needs {', '.join(missing)}")
    cluster: LocalCluster = request.getfixturevalue("cluster")
    kind = attachment_crd()
    with ExitStack() as left:
        left.callback(cluster.kubectl, "delete", "crd", kind["metadata"]["name"])
        cluster.apply(kind)
        cluster.kubectl("wait", "--for=condition=Established", "crd", kind["metadata"]["name"], "--timeout=60s")
        cluster.apply(*(attachment(name, type="bridge", bridge=bridge) for name, bridge in (FIRST, SECOND)))
        for node in cluster.nodes.values():
            for _, bridge in (FIRST, SECOND):
                left.callback(node.run, "ip", "link", "delete", bridge, check=False)
            multus = Multus(cluster, node)
            multus.start()
            left.callback(multus.stop)
        yield cluster.nodes


def vm_on_first(image: str) -> JsonObject:
    """A guest that runs commands, with an address of its own on the first network."""
    vm = copy.deepcopy(hotplug_vm(NAME, image))
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}}]
    spec["networks"] = [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": FIRST[0]}}]
    script = f"{USER_DATA}ip link set eth1 up; ip addr add {ADDRESS}/24 dev eth1\n"
    spec["volumes"][-1]["cloudInitNoCloud"]["userData"] = script
    return vm


def reaches(node: MachineNode, bridge: str) -> bool:
    """Whether the guest answers a node that is on this bridge, and on no other."""
    node.run("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", bridge)
    try:
        asked = ("curl", "-sf", "--noproxy", "*", "--max-time", "2", f"http://{ADDRESS}/facts")
        return f"hostname={NAME}" in node.run(*asked, check=False)
    finally:
        node.run("ip", "address", "delete", f"{NODE_ADDRESS}/24", "dev", bridge)


def row_of_lan(guest: HotplugGuest) -> InterfaceStatus:
    """What the VMI says of the NIC."""
    return next(row for row in guest.vmi().status.interfaces if row.name == "lan")


def needs_move(guest: HotplugGuest) -> str:
    """What the VMI says that it is to be migrated for; empty when it is not."""
    found = condition(guest.vmi().status.conditions, MIGRATION_REQUIRED)
    return found.message if found is not None and found.status == "True" else ""


def ports(node: MachineNode, bridge: str) -> str:
    """What is on a bridge of the node."""
    return node.run("ip", "-oneline", "link", "show", "master", bridge, check=False)


def test_a_guest_goes_to_a_pod_on_the_network_that_its_nic_is_to_be_on(
    own_cluster: LocalCluster, nodes: Mapping[str, MachineNode]
) -> None:
    guest = HotplugGuest(own_cluster, NAME)
    try:
        own_cluster.apply(vm_on_first(own_cluster.image))
        before = own_cluster.wait_phase(NAME, "Running")
        source = nodes[before.status.node_name]
        guest.wait_answer()
        wait_until(lambda: reaches(source, FIRST[1]), "the guest answers on its first network", 60)
        mac = row_of_lan(guest).mac
        boot = guest.run("cat /proc/sys/kernel/random/boot_id")
        pulled = int(guest.run("cat /sys/class/net/eth1/carrier_changes"))
        place = "/spec/template/spec/networks/1/multus/networkName"
        change = json.dumps([{"op": "replace", "path": place, "value": SECOND[0]}])
        own_cluster.kubectl("patch", "vm", NAME, "--type=json", "-p", change)
        said = wait_until(lambda: needs_move(guest), "the VMI is to be migrated", 60)
        assert f"the Pod is on another network than default/{SECOND[0]}, that of interface lan" in said
        wait_until(lambda: reaches(source, FIRST[1]), "until then it stays where it is", 60)
        with moved_guests(own_cluster):
            wait_until(lambda: guest.vmi().status.node_name != before.status.node_name, "the guest has moved", 240)
        wait_until(lambda: not needs_move(guest), "nothing is left to do", 60)
        # By the address of its new Pod.
        guest.wait_answer()
        after = guest.vmi()
        target = nodes[after.status.node_name]
        assert after.metadata.uid == before.metadata.uid
        assert own_cluster.count_qemus(after) == 1
        assert guest.run("cat /proc/sys/kernel/random/boot_id") == boot, "it is the same run of the guest"
        # So that it asks for its addresses anew: the networks' servers are others.
        wait_until(
            lambda: int(guest.run("cat /sys/class/net/eth1/carrier_changes")) >= pulled + 2, "its cable was pulled", 60
        )
        wait_until(lambda: reaches(target, SECOND[1]), "the guest answers on its second network", 60)
        assert not ports(target, FIRST[1])
        wait_until(lambda: not ports(source, FIRST[1]), "nothing of it is left on the first", 60)
        row = row_of_lan(guest)
        assert (row.mac, row.info_source) == (mac, "domain, multus-status")
        (pod,) = [pod for pod in own_cluster.pods(after) if pod.spec.node_name == after.status.node_name]
        joined = {each["interface"]: each["name"] for each in json.loads(pod.metadata.annotations[NETWORK_STATUS])}
        assert joined[pod_nic("lan")] == f"default/{SECOND[0]}"
        assert condition(own_cluster.vm(NAME).status.conditions, "RestartRequired") is None
    finally:
        own_cluster.remove_vm(NAME)
