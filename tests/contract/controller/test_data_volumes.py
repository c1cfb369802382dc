"""DataVolumes on both servers, by the controller's own rights; the test plays volumes and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.resources import data_volume_names as names
from kvedge.resources.codec import decode
from kvedge.resources.manifests.data_volume_kinds import CDI_CRD
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import (
    CdiConfig,
    DataSource,
    DataVolume,
    StorageProfile,
    data_volume_condition,
)
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from tests.contract.controller.played_workers import bound_claim, play, worker_of
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
CLASS = "dv-tests"


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer) -> Iterator[None]:
    document = {"metadata": {"name": CLASS}, "provisioner": "rancher.io/local-path"}
    either_server.admin.create(decode(StorageClass, document))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield
    role.stop()
    either_server.admin.delete(StorageClass, "", CLASS)


def make(server: EitherServer, namespace: str, name: str, source: dict[str, Any]) -> None:
    storage = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"source": source, "storage": storage},
    }
    server.admin.create(decode(DataVolume, document))


def phase_is(server: EitherServer, namespace: str, name: str, phase: str) -> DataVolume:
    def reached() -> DataVolume | None:
        found = server.admin.get(DataVolume, namespace, name)
        return found if found.status.phase == phase else None

    return wait_until(reached, f"{name} is {phase}")


def test_a_blank_disk_goes_from_nothing_to_succeeded(either_server: EitherServer, namespace: str) -> None:
    make(either_server, namespace, "disk", {"blank": {}})
    claim = bound_claim(either_server, namespace, "disk")
    assert claim.metadata.owner_references[0].kind == "DataVolume"
    pod = worker_of(either_server, namespace, "disk")
    phase_is(either_server, namespace, "disk", "ImportScheduled")
    play(either_server, pod, "Running")
    phase_is(either_server, namespace, "disk", "ImportInProgress")
    play(either_server, pod, "Succeeded", {})
    done = phase_is(either_server, namespace, "disk", "Succeeded")
    assert done.status.progress == "100.0%"
    ready = data_volume_condition(done.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("True", "", "")
    filled = either_server.admin.get(PersistentVolumeClaim, namespace, "disk")
    assert filled.metadata.annotations[names.POD_PHASE] == "Succeeded"


def test_a_worker_that_fails_is_made_again(either_server: EitherServer, namespace: str) -> None:
    make(either_server, namespace, "http", {"http": {"url": "http://192.0.2.1/disk.img"}})
    bound_claim(either_server, namespace, "http")
    first = worker_of(either_server, namespace, "http")
    play(either_server, first, "Failed", {"message": "404 Not Found"})
    second = worker_of(either_server, namespace, "http", but=first.metadata.uid)
    assert second.metadata.uid != first.metadata.uid
    assert either_server.admin.get(DataVolume, namespace, "http").status.restart_count == 1


def test_a_wrong_checksum_fails_for_good(either_server: EitherServer, namespace: str) -> None:
    make(either_server, namespace, "sum", {"http": {"url": "http://192.0.2.1/disk.img"}})
    bound_claim(either_server, namespace, "sum")
    pod = worker_of(either_server, namespace, "sum")
    play(either_server, pod, "Failed", {"message": "wrong", "reason": "ChecksumError", "fatal": True})
    phase_is(either_server, namespace, "sum", "Failed")


def test_classes_have_profiles_and_there_is_a_configuration(either_server: EitherServer) -> None:
    profile = wait_until(lambda: found(either_server, StorageProfile, CLASS), "the profile is there")
    (only,) = profile.status.claim_property_sets
    assert (only.access_modes, only.volume_mode) == (["ReadWriteOnce"], "Filesystem")
    config = wait_until(lambda: found(either_server, CdiConfig, "config"), "the configuration is there")
    assert config.status.filesystem_overhead.global_ == "0.06"


def found(server: EitherServer, cls: Any, name: str) -> Any:
    try:
        item = server.admin.get(cls, "", name)
    except NotFound:
        return None
    return item if item.status != type(item.status)() else None


def test_a_data_source_is_ready_when_its_claim_is_filled(either_server: EitherServer, namespace: str) -> None:
    document = {
        "metadata": {"name": "golden", "namespace": namespace},
        "spec": {"source": {"pvc": {"name": "golden", "namespace": namespace}}},
    }
    either_server.admin.create(decode(DataSource, document))

    def reason(wanted: str) -> bool:
        item = either_server.admin.get(DataSource, namespace, "golden")
        ready = data_volume_condition(item.status.conditions, "Ready")
        return ready is not None and ready.reason == wanted

    wait_until(lambda: reason("NotFound"), "it says that the claim is not there")
    claim = {
        "metadata": {"name": "golden", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    either_server.admin.create(decode(PersistentVolumeClaim, claim))
    wait_until(lambda: reason("Ready"), "it is ready")


def test_a_vm_brings_its_data_volumes_along_and_waits_for_them(either_server: EitherServer, namespace: str) -> None:
    template = {
        "metadata": {"name": "root"},
        "spec": {
            "source": {"blank": {}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS},
        },
    }
    document = vm_of(small_vmi(), runStrategy="Always", dataVolumeTemplates=[template])
    document["metadata"] |= {"name": "web", "namespace": namespace}
    spec = document["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "root", "dataVolume": {"name": "root"}}]
    spec["domain"]["devices"] = {"disks": [{"name": "root", "disk": {}}]}
    either_server.admin.create(decode(VirtualMachine, document))
    bound_claim(either_server, namespace, "root")
    made = either_server.admin.get(DataVolume, namespace, "root")
    assert [owner.kind for owner in made.metadata.owner_references] == ["VirtualMachine"]
    wait_until(
        lambda: either_server.admin.get(VirtualMachine, namespace, "web").status.printable_status == "Provisioning",
        "the VM says that its disks are made",
    )
    assert not [pod for pod in either_server.admin.list(Pod, namespace) if "virt-launcher" in pod.metadata.name]
    play(either_server, worker_of(either_server, namespace, "root"), "Succeeded", {})
    wait_until(
        lambda: [pod for pod in either_server.admin.list(Pod, namespace) if "virt-launcher" in pod.metadata.name],
        "the launcher starts once the disk is there",
    )


def test_kvedge_rests_while_cdi_is_installed_and_goes_on_when_it_has_gone(
    either_server: EitherServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CDI_CRD},
        "spec": {
            "group": "cdi.kubevirt.io",
            "names": {"kind": "CDI", "plural": "cdis", "singular": "cdi", "listKind": "CDIList"},
            "scope": "Cluster",
            "versions": [version],
        },
    }
    either_server.admin.request("POST", path, document)
    try:
        wait_until(lambda: "CDI is installed" in caplog.text, "CDI is found")
        make(either_server, namespace, "disk", {"blank": {}})
        assert not either_server.admin.list(PersistentVolumeClaim, namespace)
    finally:
        either_server.admin.request("DELETE", f"{path}/{CDI_CRD}")
    bound_claim(either_server, namespace, "disk")
    play(either_server, worker_of(either_server, namespace, "disk"), "Succeeded", {"message": "Import Complete"})
    phase_is(either_server, namespace, "disk", "Succeeded")
