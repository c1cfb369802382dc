"""Lasting disks on k3s's own storage: the real local-path-provisioner provides the volumes."""

from __future__ import annotations

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def claim(name: str, **spec: object) -> JsonObject:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}


def vm_on_claim(cluster: LocalCluster, name: str, claim_name: str) -> JsonObject:
    """The guest counts its starts on a disk of this serial number."""
    vm = small_vm(name, cluster.image)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}, "serial": "STARTS"})
    spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": claim_name}})
    return vm


def starts(page: str) -> str:
    """What the guest's page says of its starts."""
    return next((line.partition("=")[2] for line in page.splitlines() if line.startswith("starts=")), "")


def test_a_disk_on_local_path_lasts_over_restarts(local_path: LocalCluster) -> None:
    local_path.apply(claim("lasting"), vm_on_claim(local_path, "lasting", "lasting"))
    first = local_path.wait_phase("lasting", "Running")
    wait_until(lambda: starts(local_path.page("lasting")) == "1", "the first start is counted", 120)
    info = {item.name: item.persistent_volume_claim_info for item in first.status.volume_status}["data"]
    assert info is not None
    assert info.claim_name == "lasting"
    local_path.cli("restart", "lasting")
    again = local_path.wait_new_run(first)
    wait_until(lambda: starts(local_path.page("lasting")) == "2", "the second start is counted", 120)
    # The volume is on that node, and on no other one.
    assert again.status.node_name == first.status.node_name
    local_path.remove_vm("lasting")
    local_path.kubectl("delete", "pvc", "lasting")


def test_what_local_path_cannot_do_is_said_on_the_vm(local_path: LocalCluster) -> None:
    local_path.apply(claim("raw", volumeMode="Block"), vm_on_claim(local_path, "raw", "raw"))

    def told() -> str:
        vm = local_path.vm("raw")
        return "; ".join(item.message for item in vm.status.conditions if "block" in item.message.lower())

    wait_until(told, "the VM says that its claim's storage has no block devices", 90)
    assert local_path.client.get(PersistentVolumeClaim, local_path.namespace, "raw").status.phase == "Pending"
    local_path.remove_vm("raw")
    local_path.kubectl("delete", "pvc", "raw")
