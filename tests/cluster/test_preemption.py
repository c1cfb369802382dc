"""A VM makes room for what counts more: its guest shuts down in order, and runs again when there is room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.kube.informer import Informer
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import parse_quantity
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PLACE = "n2"


@pytest.fixture
def classes(own_cluster: LocalCluster) -> Iterator[None]:
    """Two classes of priority."""
    for name, value in (("test-low", 10), ("test-high", 1000)):
        own_cluster.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    yield
    own_cluster.kubectl("delete", "priorityclass", "test-low", "test-high")


def large_vm(cluster: LocalCluster, name: str, priority: str) -> JsonObject:
    """A VM of which the node can have one only."""
    processors = parse_quantity(cluster.client.get(Node, "", PLACE).status.allocatable["cpu"])
    vm = small_vm(name, cluster.image, priorityClassName=priority, nodeSelector={"kubernetes.io/hostname": PLACE})
    domain = vm["spec"]["template"]["spec"]["domain"]
    domain["resources"] = {"requests": {"cpu": f"{int(processors * 600)}m"}}
    return vm


@pytest.fixture
def phases(own_cluster: LocalCluster) -> Iterator[dict[str, list[str]]]:
    """The phases that each VMI goes through, by UID."""
    seen: dict[str, list[str]] = {}

    def note(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if new is not None:
            before = seen.setdefault(new.metadata.uid, [])
            if new.status.phase not in before[-1:]:
                before.append(new.status.phase)

    informer = Informer(own_cluster.client, VirtualMachineInstance)
    informer.on_change(note)
    informer.start()
    yield seen
    informer.stop()


def test_a_vm_is_preempted_in_order_and_runs_again_when_there_is_room(
    own_cluster: LocalCluster, classes: None, phases: dict[str, list[str]]
) -> None:
    cluster = own_cluster
    cluster.apply(large_vm(cluster, "low", "test-low"))
    before = cluster.wait_phase("low", "Running")
    cluster.wait_answer("low")
    cluster.apply(large_vm(cluster, "high", "test-high"))
    high = cluster.wait_phase("high", "Running")
    assert high.status.node_name == PLACE
    # The guest went by itself: one that has to be ended has failed.
    assert cluster.count_qemus(before) == 0
    assert phases[before.metadata.uid][-1] == "Succeeded"
    assert "Preempted" in cluster.kubectl("get", "events", "--field-selector", "reason=Preempted").stdout
    # Its next run waits, without a QEMU anywhere, and without driving the other one out.
    waits = "ErrorUnschedulable"
    wait_until(lambda: cluster.vm("low").status.printable_status == waits, "the VM says why it waits", 60, 0.2)
    found = cluster.vmi("low")
    assert found is not None
    assert found.metadata.uid != before.metadata.uid
    assert cluster.count_qemus(found) == 0
    cluster.wait_answer("high")
    cluster.remove_vm("high")
    again = cluster.wait_new_run(before)
    assert again.status.node_name == PLACE
    cluster.wait_answer("low")
    cluster.remove_vm("low")
