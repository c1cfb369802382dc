"""Lasting disks on k3s's own storage: the real local-path-provisioner provides the volumes, which workers fill."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import BIND_IMMEDIATELY
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.api_servers import Kubectl
from tests.support.box import small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import GATEWAY
from tests.support.hotplug_guest import blank_volume
from tests.support.image_server import played_server
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


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A qcow2; beside it is what is in it."""
    raw = tmp_path_factory.mktemp("image") / "raw"
    raw.write_bytes(os.urandom(3 << 20))
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, raw.with_name("disk.qcow2")], check=True)
    return raw.with_name("disk.qcow2")


def disk_of(cluster: LocalCluster, claim_name: str, size: int) -> bytes:
    """The beginning of a claim's disk, from the directory of its node."""
    volume = cluster.client.get(PersistentVolumeClaim, cluster.namespace, claim_name).spec.volume_name
    (found,) = (path for path in cluster.directory.glob(f"n*/var/lib/kubelet/local-path/{volume}*/disk.img"))
    with found.open("rb") as file:
        return file.read(size)


def remove_volume(cluster: LocalCluster, name: str) -> None:
    cluster.kubectl("delete", "datavolume", name, "--ignore-not-found", "--wait=false")
    cluster.kubectl("delete", "pvc", name, "--ignore-not-found", "--wait=false")


def test_a_data_volume_is_imported_by_http_in_a_pod_of_a_real_kubelet(local_path: LocalCluster, image: Path) -> None:
    wanted = blank_volume("fetched")
    wanted["metadata"]["annotations"] = {BIND_IMMEDIATELY: ""}
    with played_server(image.read_bytes(), host=GATEWAY) as server:
        wanted["spec"]["source"] = {"http": {"url": server.url}}
        try:
            local_path.apply(wanted)

            def is_over() -> bool:
                status = local_path.client.get(DataVolume, local_path.namespace, "fetched").status
                assert status.phase != "Failed", status
                return status.phase == "Succeeded"

            wait_until(is_over, "the DataVolume is imported", 120)
            content = image.with_name("raw").read_bytes()
            assert disk_of(local_path, "fetched", len(content)) == content
        finally:
            remove_volume(local_path, "fetched")


@pytest.mark.parametrize("program", ["kvedge", "virtctl"])
def test_an_image_is_uploaded_through_the_cluster_into_a_pod_of_a_real_kubelet(
    local_path: LocalCluster, image: Path, program: str
) -> None:
    name = f"by-{program}"
    upload = ("image-upload", "dv", name, "--size=64Mi", f"--image-path={image}", "--force-bind")
    try:
        if program == "kvedge":
            local_path.cli(*upload)
        else:
            Kubectl(local_path.kubeconfig, program).run(*upload, "--insecure")
        content = image.with_name("raw").read_bytes()
        assert disk_of(local_path, name, len(content)) == content
    finally:
        remove_volume(local_path, name)
