"""A guest on networks of the real Multus: CNI's bridge, macvlan and host-device, beside the Pod network.

A NIC that comes while the guest runs takes it to the node with Multus, which is a thin one and joins no running Pod.
And a function of an SR-IOV card up to its launcher: no card of this machine has one, so that a played device plugin
offers it, and the launcher ends the way by saying that the node lacks it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.resources.meta import condition
from kvedge.resources.types.pod_networks import NETWORK_STATUS, pod_nic
from kvedge.resources.types.sriov_networks import NETWORK_INFO, RESOURCE_NAME
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import MachineNode
from tests.support.cluster.moved_guests import moved_guests
from tests.support.cluster.multus import Multus, attachment, missing_multus
from tests.support.cluster.played_functions import device_info, played_functions
from tests.support.hotplug_guest import HotplugGuest, hotplug_vm
from tests.support.needs import may_lift_limits
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]

NAME, NODE = "many", "n2"
BRIDGE = "br-many"
FUNCTIONS, FUNCTION = "kvedge.test/functions", "0000:65:02.3"
NOT_HERE = f"interfaces[1].sriov: function {FUNCTION} is not on this node"
# Inside some containers a handler may not let a launcher lock its guest's memory, and says so before anybody looks.
LOCKED = "the node cannot lift the launcher's limit of locked memory"
# Each network of the VMI by its name: what CNI makes of it, the guest's address there, and the node's.
NETWORKS = {
    "lan": ({"type": "bridge", "bridge": BRIDGE}, "198.51.100.2", "198.51.100.1"),
    "vlan": ({"type": "macvlan", "master": "many0"}, "203.0.113.2", "203.0.113.1"),
    "port": ({"type": "host-device", "device": "many2"}, "192.0.2.2", "192.0.2.1"),
}


def many_networks(image: str) -> JsonObject:
    """A guest with an address on each network, and a page that everybody may ask for."""
    vm = copy.deepcopy(small_vm(NAME, image))
    spec = vm["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    devices = spec["domain"]["devices"]
    devices["interfaces"] = [
        {"name": "default", "masquerade": {}},
        *({"name": each, "bridge": {}} for each in NETWORKS),
    ]
    spec["networks"] = [{"name": "default", "pod": {}}]
    spec["networks"] += [{"name": each, "multus": {"networkName": f"net-{each}"}} for each in NETWORKS]
    script = "#!/bin/sh\n"
    for number, (_, address, _) in enumerate(NETWORKS.values(), 1):
        script += f"ip link set eth{number} up; ip addr add {address}/24 dev eth{number}\n"
    devices["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": script}})
    return vm


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest) -> Iterator[MachineNode]:
    """A node with Multus, and with what its networks are made on."""
    request.getfixturevalue("own_machine")
    if missing := missing_multus():
        pytest.skip(f"needs {', '.join(missing)}")
    cluster: LocalCluster = request.getfixturevalue("cluster")
    cluster.apply(attachment_crd())
    cluster.kubectl("wait", "--for=condition=Established", "crd", attachment_crd()["metadata"]["name"], "--timeout=60s")
    cluster.apply(*(attachment(f"net-{name}", **plugin) for name, (plugin, _, _) in NETWORKS.items()))
    found = cluster.nodes[NODE]
    for link, peer in (("many0", "many1"), ("many2", "many3")):
        found.run("ip", "link", "add", link, "type", "veth", "peer", "name", peer)
        found.run("ip", "link", "set", link, "up")
        found.run("ip", "link", "set", peer, "up")
    found.run("ip", "address", "add", f"{NETWORKS['vlan'][2]}/24", "dev", "many1")
    found.run("ip", "address", "add", f"{NETWORKS['port'][2]}/24", "dev", "many3")
    multus = Multus(cluster, found)
    multus.start()
    yield found
    multus.stop()
    cluster.kubectl("delete", "crd", attachment_crd()["metadata"]["name"])
    for link in ("many0", "many2", BRIDGE):
        found.run("ip", "link", "delete", link, check=False)


@pytest.fixture
def many(own_cluster: LocalCluster, node: MachineNode) -> Iterator[VirtualMachineInstance]:
    own_cluster.apply(many_networks(own_cluster.image))
    yield own_cluster.wait_phase(NAME, "Running")
    own_cluster.remove_vm(NAME)


def page(node: MachineNode, address: str) -> str:
    """The guest's, asked for from its node."""
    return node.run("curl", "-sf", "--noproxy", "*", "--max-time", "2", f"http://{address}/facts", check=False)


def test_a_guest_is_on_each_network_of_the_real_multus(
    own_cluster: LocalCluster, node: MachineNode, many: VirtualMachineInstance
) -> None:
    # CNI has made the bridge with the Pod.
    node.run("ip", "address", "replace", f"{NETWORKS['lan'][2]}/24", "dev", BRIDGE)
    own_cluster.wait_answer(NAME, 240)
    for name, (_, address, _) in NETWORKS.items():
        said = wait_until(lambda at=address: page(node, at), f"the guest answers on {name}", 60)
        assert f"hostname={NAME}" in said
    (pod,) = own_cluster.pods(many)
    joined = {each["interface"]: each for each in json.loads(pod.metadata.annotations[NETWORK_STATUS])}
    first, *others = own_cluster.wait_phase(NAME, "Running").status.interfaces
    assert (first.name, first.ip_address, first.info_source) == ("default", pod.status.pod_ip, "domain")
    assert [nic.name for nic in others] == list(NETWORKS)
    for nic in others:
        assert nic.pod_interface_name == pod_nic(nic.name)
        assert (nic.info_source, nic.link_state) == ("domain, multus-status", "up")
        assert joined[nic.pod_interface_name]["name"] == f"default/net-{nic.name}"
    by_name = {nic.name: nic.mac for nic in others}
    assert joined[pod_nic("lan")]["mac"].lower() == by_name["lan"]
    assert joined[pod_nic("vlan")]["mac"].lower() == by_name["vlan"]
    own_cluster.remove_vm(NAME)
    lent = joined[pod_nic("port")]["mac"]
    wait_until(
        lambda: f"link/ether {lent}" in node.run("ip", "link", "show", "many2", check=False), "many2 is back", 60
    )


def with_function(name: str, image: str) -> JsonObject:
    """A VM with one function of the card."""
    vm = copy.deepcopy(small_vm(name, image))
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}, {"name": "fast", "sriov": {}}]
    spec["networks"].append({"name": "fast", "multus": {"networkName": "net-fast"}})
    return vm


def said(cluster: LocalCluster, name: str, kind: str) -> str:
    """What a condition of the VMI says."""
    vmi = cluster.vmi(name)
    found = None if vmi is None else condition(vmi.status.conditions, kind)
    return "" if found is None or found.status == "True" else found.message


def test_a_function_of_a_card_is_ordered_given_once_and_told_to_its_launcher(
    own_cluster: LocalCluster, node: MachineNode
) -> None:
    # In the place of SR-IOV's own CNI plugin, which would look for the card.
    network = attachment("net-fast", type="bridge", bridge=BRIDGE)
    network["metadata"]["annotations"] = {RESOURCE_NAME: FUNCTIONS}
    own_cluster.apply(network)
    with played_functions(node, FUNCTIONS, FUNCTION):
        try:
            own_cluster.apply(with_function("first", own_cluster.image))
            told = wait_until(lambda: said(own_cluster, "first", "Synchronized"), "the guest is refused", 120)
            assert (NOT_HERE if may_lift_limits() else LOCKED) in told
            (pod,) = own_cluster.pods_of("first")
            assert pod.spec.node_name == NODE
            assert pod.spec.containers[0].resources.limits[FUNCTIONS] == "1"
            wait_until(lambda: NETWORK_INFO in own_cluster.pods_of("first")[0].metadata.annotations, "it is told", 60)
            (pod,) = own_cluster.pods_of("first")
            (row,) = json.loads(pod.metadata.annotations[NETWORK_INFO])["interfaces"]
            assert (row["network"], row["deviceInfo"]) == ("fast", device_info(FUNCTION))
            variables = own_cluster.in_launcher(pod, "/usr/bin/env").splitlines()
            assert f"PCIDEVICE_KVEDGE_TEST_FUNCTIONS={FUNCTION}" in variables
            # There is no second one.
            own_cluster.apply(with_function("second", own_cluster.image))
            wait_until(
                lambda: f"Insufficient {FUNCTIONS}" in said(own_cluster, "second", "PodScheduled"),
                "the scheduler has none left",
                60,
            )
        finally:
            own_cluster.remove_vm("first")
            own_cluster.remove_vm("second")


def test_a_new_nic_takes_its_guest_to_a_node_that_joins_it(own_cluster: LocalCluster, node: MachineNode) -> None:
    name = "moves"
    vm = hotplug_vm(name, own_cluster.image)
    vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}]
    guest = HotplugGuest(own_cluster, name)
    try:
        with own_cluster.cordoned(NODE):
            own_cluster.apply(vm)
            before = own_cluster.wait_phase(name, "Running")
        guest.wait_answer()
        places = "/spec/template/spec/domain/devices/interfaces/-", "/spec/template/spec/networks/-"
        values = {"name": "lan", "bridge": {}}, {"name": "lan", "multus": {"networkName": "net-lan"}}
        change = [{"op": "add", "path": path, "value": value} for path, value in zip(places, values, strict=True)]

        def has_come() -> bool:
            rows = {row.name: row.info_source for row in guest.vmi().status.interfaces}
            return rows.get("lan") == "domain, multus-status"

        with moved_guests(own_cluster):
            own_cluster.kubectl("patch", "vm", name, "--type=json", "-p", json.dumps(change))
            wait_until(has_come, "the guest has its NIC", 180)
        after = guest.vmi()
        assert (after.metadata.uid, after.status.node_name) == (before.metadata.uid, NODE)
        assert before.status.node_name != NODE
        assert "eth1" in guest.run("ls /sys/class/net").split()
        assert own_cluster.count_qemus(after) == 1
        wait_until(lambda: condition(own_cluster.vm(name).status.conditions, "RestartRequired") is None, "all is done")
    finally:
        own_cluster.remove_vm(name)
