"""What breaks in a cluster, one thing at a time: a VM that runs goes on running, and never runs twice."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest

from kvedge.kube.errors import KubeError
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import parse_quantity
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.waiting import comes_within, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def running(own_machine: None, cluster: LocalCluster) -> Iterator[tuple[LocalCluster, VirtualMachineInstance]]:
    """A VM that goes through all of it, on the node that is not the server."""
    cluster.apply(small_vm("hardy", cluster.image, nodeSelector={"kubernetes.io/hostname": "n2"}))
    vmi = cluster.wait_phase("hardy", "Running")
    cluster.wait_answer("hardy")
    yield cluster, vmi
    cluster.remove_vm("hardy")


def goes_on(cluster: LocalCluster, vmi: VirtualMachineInstance, qemu: list[int]) -> None:
    """The same guest, in the same process, answers."""
    assert cluster.qemu_pids(vmi.metadata.uid) == qemu
    found = cluster.vmi("hardy")
    assert found is not None
    assert (found.metadata.uid, found.status.phase) == (vmi.metadata.uid, "Running")
    cluster.wait_answer("hardy", 20)


@pytest.mark.incremental
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_a_handler_that_is_replaced_leaves_its_guests_alone(
    running: tuple[LocalCluster, VirtualMachineInstance], number: signal.Signals
) -> None:
    cluster, vmi = running
    qemu = cluster.qemu_pids(vmi.metadata.uid)
    with cluster.without("n2", "kvedge", number):
        goes_on(cluster, vmi, qemu)
    wait_until(lambda: cluster.is_schedulable("n2"), "the new handler serves", 60)
    # It has found the guest: what only a connected launcher can do, works.
    wait_until(lambda: cluster.cli("pause", "vmi", "hardy", check=False).returncode == 0, "it pauses", 30)
    cluster.cli("unpause", "vmi", "hardy")
    goes_on(cluster, vmi, qemu)


@pytest.mark.incremental
@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_runtime_that_is_restarted_leaves_guests_alone(
    running: tuple[LocalCluster, VirtualMachineInstance], program: str
) -> None:
    cluster, vmi = running
    qemu = cluster.qemu_pids(vmi.metadata.uid)
    with cluster.without("n2", program, signal.SIGKILL):
        goes_on(cluster, vmi, qemu)
    wait_until(lambda: cluster.is_ready("n2"), "the node is ready", 90, 0.5)
    wait_until(lambda: _devices(cluster, "n2") == 1000, "its devices are offered again", 60, 0.5)
    goes_on(cluster, vmi, qemu)
    # And a new one starts there.
    cluster.apply(small_vm("after", cluster.image, nodeSelector={"kubernetes.io/hostname": "n2"}))
    cluster.wait_phase("after", "Running")
    cluster.remove_vm("after")


def _devices(cluster: LocalCluster, node: str) -> int:
    status = cluster.client.get(Node, "", node).status
    return int(parse_quantity(status.allocatable.get("devices.kubevirt.io/tun", "0")))


@pytest.mark.incremental
def test_an_api_server_that_is_restarted_is_found_again(
    running: tuple[LocalCluster, VirtualMachineInstance],
) -> None:
    cluster, vmi = running
    qemu = cluster.qemu_pids(vmi.metadata.uid)
    cluster.plane.api.restart_server()
    goes_on(cluster, vmi, qemu)
    cluster.apply(small_vm("later", cluster.image))
    cluster.wait_phase("later", "Running")
    cluster.remove_vm("later")


def test_a_drained_node_shuts_its_guest_down_and_it_runs_elsewhere(own_cluster: LocalCluster) -> None:
    own_cluster.apply(small_vm("mover", own_cluster.image))
    vmi = own_cluster.wait_phase("mover", "Running")
    own_cluster.wait_answer("mover")
    place = vmi.status.node_name
    drain = ("drain", place, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=120s")
    with own_cluster.cordoned(place):
        own_cluster.kubectl(*drain, "--pod-selector=kubevirt.io=virt-launcher")
        assert own_cluster.qemu_pids(vmi.metadata.uid) == []
        assert own_cluster.wait_new_run(vmi).status.node_name != place
    own_cluster.remove_vm("mover")


def test_a_lost_node_keeps_its_vm_from_running_elsewhere_until_it_is_confirmed_dead(own_cluster: LocalCluster) -> None:
    cluster, lost = own_cluster, "n2"
    cluster.apply(small_vm("lost", cluster.image, nodeSelector={"kubernetes.io/os": "linux"}, affinity=_prefers(lost)))
    vmi = cluster.wait_phase("lost", "Running")
    assert vmi.status.node_name == lost
    cluster.nodes[lost].power_off()
    try:
        wait_until(lambda: not cluster.is_ready(lost), "the cluster notices", 90, 0.5)
        look = ("get", "events", "--field-selector", "reason=NodeNotReady,involvedObject.name=lost")
        wait_until(lambda: "lost" in cluster.kubectl(*look).stdout, "an event of its VMI says so", 90, 0.5)
        # Its Pod is evicted, and stays: nobody on the node can say that it has ended.
        wait_until(lambda: cluster.pods(vmi)[0].metadata.deletion_timestamp, "its Pod is to go", 90, 0.5)
        if comes_within(lambda: (found := cluster.vmi("lost")) and found.metadata.uid != vmi.metadata.uid, 20, 0.5):
            pytest.fail("the VM was started elsewhere while its node may still run it")
        cluster.kubectl("taint", "node", lost, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")

        def elsewhere() -> bool:
            found = cluster.vmi("lost")
            return found is not None and found.metadata.uid != vmi.metadata.uid and found.status.phase == "Running"

        wait_until(elsewhere, "confirmed dead, it runs elsewhere", 240, 0.5)
        cluster.remove_vm("lost")
    finally:
        _bring_back(cluster, lost)


def test_a_server_that_is_killed_and_comes_back_leads_and_admits_again(own_cluster: LocalCluster) -> None:
    cluster = own_cluster
    with cluster.without(SERVER, "kvedge", signal.SIGKILL):
        pass
    wait_until(lambda: cluster.is_schedulable(SERVER), "the server serves again", 60)

    def accepted() -> bool:
        with contextlib.suppress(KubeError, AssertionError):
            cluster.apply(small_vm("fresh", cluster.image))
            return True
        return False

    wait_until(accepted, "the api role answers", 60, 0.5)
    cluster.wait_phase("fresh", "Running")
    cluster.remove_vm("fresh")


def _prefers(node: str) -> dict[str, object]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _bring_back(cluster: LocalCluster, name: str) -> None:
    cluster.restart_node(name)
    cluster.kubectl("taint", "node", name, "node.kubernetes.io/out-of-service:NoExecute-", check=False)
    wait_until(lambda: cluster.is_ready(name), "the node is back", 120, 0.5)
    assert cluster.client is not None
    wait_until(lambda: cluster.is_schedulable(name), f"{name} says {SCHEDULABLE}", 60, 0.5)
