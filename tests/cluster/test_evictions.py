"""Who may be sent away from a node, and what becomes of it: disruption budgets, and run strategies but Always."""

from __future__ import annotations

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import APP, VM_NAME
from kvedge.resources.types.core import Pod
from tests.support.box import small_vm
from tests.support.cluster.any_cluster import Cluster
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_DRAIN = ("--ignore-daemonsets", "--force", "--delete-emptydir-data", "--pod-selector=kubevirt.io=virt-launcher")


def budget(name: str) -> JsonObject:
    """One launcher of this VM is always to be there."""
    selector = {"matchLabels": {APP: "virt-launcher", VM_NAME: name}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": selector},
    }


def evict(cluster: Cluster, pod: Pod) -> None:
    meta = {"name": pod.metadata.name, "namespace": cluster.namespace}
    path = f"{Pod.KIND.path(cluster.namespace, pod.metadata.name)}/eviction"
    cluster.client.hurry(10).request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})


def test_a_disruption_budget_keeps_a_guest_from_being_evicted_until_it_goes(cluster: Cluster) -> None:
    cluster.apply(small_vm("needed", cluster.image), budget("needed"))
    vmi = cluster.wait_phase("needed", "Running")
    (pod,) = cluster.pods(vmi)
    healthy = ("get", "poddisruptionbudget", "needed", "--output", "jsonpath={.status.currentHealthy}")
    wait_until(lambda: cluster.kubectl(*healthy).stdout == "1", "the budget counts the launcher", 60, 0.2)
    with pytest.raises(Unavailable, match=_REFUSED) as refused:
        evict(cluster, pod)
    assert refused.value.status == 429
    assert cluster.wait_answer("needed")
    found = cluster.vmi("needed")
    assert found is not None
    assert (found.metadata.uid, found.status.phase, cluster.count_qemus(vmi)) == (vmi.metadata.uid, "Running", 1)
    cluster.kubectl("delete", "poddisruptionbudget", "needed")
    evict(cluster, pod)
    cluster.wait_new_run(vmi)
    assert cluster.count_qemus(vmi) == 0
    cluster.remove_vm("needed")


def test_a_drain_waits_for_a_budget_and_then_ends_guests_as_their_run_strategies_have_it(
    own_cluster: LocalCluster,
) -> None:
    cluster, strategies = own_cluster, {"rerun": "RerunOnFailure", "manual": "Manual"}
    for name, strategy in strategies.items():
        cluster.apply(small_vm(name, cluster.image, strategy, nodeSelector={"kubernetes.io/hostname": "n2"}))
        cluster.cli("start", name, check=False)
    cluster.apply(budget("manual"))
    vmis = {name: cluster.wait_phase(name, "Running") for name in strategies}
    for name in strategies:
        cluster.wait_answer(name)
    with cluster.cordoned("n2"):
        hindered = cluster.kubectl("drain", "n2", *_DRAIN, "--timeout=15s", check=False)
        assert hindered.returncode != 0
        assert _REFUSED in hindered.stderr
        # The one went by ACPI: nothing has failed, so nothing is run again.
        wait_until(lambda: cluster.vm("rerun").status.printable_status == "Stopped", "it is stopped", 60, 0.2)
        assert (cluster.vmi("rerun"), cluster.count_qemus(vmis["rerun"])) == (None, 0)
        # The other one never noticed.
        assert cluster.wait_phase("manual", "Running").metadata.uid == vmis["manual"].metadata.uid
        cluster.wait_answer("manual", 20)
        cluster.kubectl("delete", "poddisruptionbudget", "manual")
        cluster.kubectl("drain", "n2", *_DRAIN, "--timeout=120s")
        assert cluster.wait_phase("manual", "Succeeded").metadata.uid == vmis["manual"].metadata.uid
        assert cluster.count_qemus(vmis["manual"]) == 0
    # Both run again for whoever asks.
    for name in strategies:
        cluster.cli("start", name)
        cluster.wait_new_run(vmis[name])
        cluster.remove_vm(name)
