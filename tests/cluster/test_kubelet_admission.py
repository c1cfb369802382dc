"""A kubelet that restarts judges the Pods that it runs anew; without kvedge on its node their devices are missing."""

from __future__ import annotations

import pytest

from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def renewed(cluster: LocalCluster) -> str:
    """When the kubelet has renewed its node's lease."""
    path = "jsonpath={.spec.renewTime}"
    return cluster.kubectl("get", "lease", "n2", "--namespace", "kube-node-lease", "--output", path).stdout


def renews(cluster: LocalCluster) -> None:
    before = renewed(cluster)
    wait_until(lambda: renewed(cluster) != before, "the kubelet renews its lease", 60, 0.5)


def test_a_kubelet_that_restarts_while_kvedge_is_stopped_ends_its_guests_which_run_again_but_never_twice(
    own_cluster: LocalCluster,
) -> None:
    """Kubernetes' way with device plugins (KubeVirt's guests go the same way): upgrade the one, then the other."""
    cluster = own_cluster
    cluster.apply(small_vm("refused", cluster.image, nodeSelector={"kubernetes.io/hostname": "n2"}))
    vmi = cluster.wait_phase("refused", "Running")
    assert cluster.qemu_pids(vmi.metadata.uid) != []
    with cluster.without("n2", "kvedge"):
        with cluster.without("n2", "kubelet"):
            pass
        # By the second time it has judged its Pods.
        renews(cluster)
        renews(cluster)

    def runs_anew() -> VirtualMachineInstance | None:
        found = cluster.vmi("refused")
        if found is None or found.metadata.uid == vmi.metadata.uid:
            return None
        assert not (cluster.qemu_pids(vmi.metadata.uid) and cluster.qemu_pids(found.metadata.uid)), "it runs twice"
        return found if found.status.phase == "Running" else None

    wait_until(runs_anew, "another run", 200, 0.2)
    assert cluster.qemu_pids(vmi.metadata.uid) == []
    cluster.remove_vm("refused")
