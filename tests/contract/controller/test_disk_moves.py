"""`kvedge migrate --with-disks|--storage-class`, up to what the VM's controller takes over, against both servers."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from kvedge.cli.machines.migrate_verbs import migrate
from kvedge.kube.patches import MergePatch
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi, vm_of
from tests.support.either_server import EitherServer

VOLUMES = [
    {"name": "root", "dataVolume": {"name": "web-root"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
]
CONDITIONS = [
    {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable", "message": "not shared"},
    {"type": "StorageLiveMigratable", "status": "True"},
]


@pytest.fixture
def namespace(either_server: EitherServer) -> str:
    """With a VM that runs on claims of one node."""
    namespace, client = either_server.new_namespace(), either_server.admin
    for name in ("web-root", "data"):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        client.request("POST", PersistentVolumeClaim.KIND.path(namespace), document)
    run = small_vmi(volumes=VOLUMES)
    run["metadata"] |= {"name": "web", "namespace": namespace}
    run["spec"]["domain"].setdefault("devices", {})["disks"] = [{"name": each["name"], "disk": {}} for each in VOLUMES]
    vm: dict[str, Any] = vm_of(run)
    vm["metadata"] |= {"name": "web", "namespace": namespace}
    vm["spec"]["dataVolumeTemplates"] = [
        {"metadata": {"name": "web-root"}, "spec": {"source": {"blank": {}}, "storage": {"resources": {}}}}
    ]
    client.request("POST", VirtualMachine.KIND.path(namespace), vm)
    client.request("POST", VirtualMachineInstance.KIND.path(namespace), run)
    status = {"phase": "Running", "nodeName": "node-1", "conditions": CONDITIONS}
    client.patch(VirtualMachineInstance, namespace, "web", MergePatch({"status": status}))
    return namespace


def test_a_vm_gets_new_claims_for_its_disks_and_keeps_the_old_ones(either_server: EitherServer, namespace: str) -> None:
    def run(*more: str) -> str:
        options = ["web", "--with-disks", "--kubeconfig", str(either_server.kubeconfig), "-n", namespace, *more]
        return CliRunner().invoke(migrate, options, catch_exceptions=False).output

    def claims() -> set[str]:
        return {claim.metadata.name for claim in either_server.admin.list(PersistentVolumeClaim, namespace)}

    assert "Dry Run execution" in run("--dry-run")
    assert claims() == {"web-root", "data"}
    said = run()
    made = claims() - {"web-root", "data"}
    assert {name.rpartition("-")[0] for name in made} == {"web-root-moved", "data-moved"}
    assert all(name in said for name in made)
    assert "kvedge delete pvc web-root data" in said
    vm = either_server.admin.get(VirtualMachine, namespace, "web")
    assert vm.spec.update_volumes_strategy == "Migration"
    assert vm.spec.data_volume_templates == []
    assert vm.spec.template is not None
    sources = [volume.persistent_volume_claim for volume in vm.spec.template.spec.volumes]
    assert {source.claim_name for source in sources if source is not None} == made


def test_disks_get_claims_of_another_class(either_server: EitherServer, namespace: str) -> None:
    def run(*more: str) -> str:
        options = ["web", "--kubeconfig", str(either_server.kubeconfig), "-n", namespace, *more]
        found = CliRunner().invoke(migrate, options)
        return f"{found.output}{found.exception or ''}"

    assert "do not go with --with-disks" in run("--storage-class", "fast", "--with-disks")
    assert "give NAME=CLASS" in run("--volume", "data")
    assert "it has no volume nothing on a claim" in run("--volume", "nothing=fast")
    said = run("--volume", "data=fast")
    made = {claim.metadata.name: claim for claim in either_server.admin.list(PersistentVolumeClaim, namespace)}
    (new,) = made.keys() - {"web-root", "data"}
    assert (made[new].spec.storage_class_name, new in said) == ("fast", True)
    vm = either_server.admin.get(VirtualMachine, namespace, "web")
    assert vm.spec.template is not None
    assert vm.spec.update_volumes_strategy == "Migration"
    assert {volume.name: claim_of(volume) for volume in vm.spec.template.spec.volumes}["data"] == new
    assert [template.metadata.name for template in vm.spec.data_volume_templates] == ["web-root"]
    assert "a change is under way" in run("--storage-class", "fast")
