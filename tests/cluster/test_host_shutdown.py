"""A node's host goes down: its guests are shut down by ACPI, and run again when it is back, by their run strategies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import CHECKOUT, small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

STRATEGIES = {"always": "Always", "rerun": "RerunOnFailure", "manual": "Manual"}
ON_N2 = {"kubernetes.io/hostname": "n2"}


def shut_down(cluster: LocalCluster) -> str:
    """What kvedge-guests.service does on n2, once kvedge-node.service has stopped."""
    node = cluster.nodes["n2"]
    settings = ["KVEDGE_KUBECONFIG=/etc/kvedge/roles", f"KVEDGE_NODE_KUBECONFIG={node.kubeconfig}"]
    return node.run("env", *settings, "KVEDGE_NODE_NAME=n2", *CHECKOUT, "host-shutdown")


@pytest.fixture
def host(own_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster, whose node is up again after a test that failed, too."""
    yield own_cluster
    if not own_cluster.nodes["n2"].is_running("kvedge"):
        own_cluster.start_kvedge("n2")
    for name in STRATEGIES:
        own_cluster.remove_vm(name)


def test_guests_of_a_node_are_shut_down_with_its_host_and_run_again_with_it(host: LocalCluster) -> None:
    cluster = host
    for name, strategy in STRATEGIES.items():
        cluster.apply(small_vm(name, cluster.image, run_strategy=strategy, nodeSelector=ON_N2))
    cluster.cli("start", "manual")
    cluster.cli("start", "rerun", check=False)
    before = {name: cluster.wait_phase(name, "Running") for name in STRATEGIES}
    for name in STRATEGIES:
        cluster.wait_answer(name)

    cluster.nodes["n2"].end("kvedge")
    said = shut_down(cluster)
    assert "is killed" not in said
    assert sorted(line for line in said.splitlines() if line.endswith("is down")) == [
        f"default/{name} is down" for name in sorted(STRATEGIES)
    ]
    assert all(cluster.qemu_pids(vmi.metadata.uid) == [] for vmi in before.values())
    # The cluster knows that nothing should come here.
    labels = cluster.kubectl("get", "node", "n2", "-o", "jsonpath={.metadata.labels}").stdout
    assert f'"{SCHEDULABLE}":"false"' in labels
    # There is nobody left to be told.
    assert shut_down(cluster) == ""

    cluster.start_kvedge("n2")

    def again(name: str) -> VirtualMachineInstance | None:
        found = cluster.vmi(name)
        is_new = found is not None and found.metadata.uid != before[name].metadata.uid
        return found if found is not None and is_new and found.status.phase == "Running" else None

    for name in ("always", "rerun"):
        wait_until(lambda name=name: again(name), f"{name} runs again", 240, 0.2)
        cluster.wait_answer(name)
    # Nobody asked for another run of this one.
    assert cluster.wait_phase("manual", "Failed").metadata.uid == before["manual"].metadata.uid
