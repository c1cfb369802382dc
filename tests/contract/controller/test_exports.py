"""Exports on both servers, by the controller's own rights; the test plays volumes, exporters and guests."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.controller.exports.exporter_manifest import own_secret_name
from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.kube.shared_authority import ensure_shared_authority
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.disks.uploads import UPLOAD_AUTHORITY_SECRET, UPLOAD_PROXY_CONFIG
from kvedge.resources.meta import condition
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import ConfigMap, Pod, Secret
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.services import Service
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import SystemClock
from tests.contract.controller.played_workers import bound_claim
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
NAME = "virt-export-out"


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer) -> Iterator[None]:
    ensure_shared_authority(either_server.admin, SystemClock().now(), UPLOAD_AUTHORITY_SECRET)
    front = {"metadata": {"name": UPLOAD_PROXY_CONFIG, "namespace": SYSTEM_NAMESPACE}, "data": {}}
    front["data"] = {"url": "https://box.example:6443", "ca.crt": "PEM"}
    either_server.admin.create(decode(ConfigMap, front))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield
    role.stop()
    either_server.admin.delete(ConfigMap, SYSTEM_NAMESPACE, UPLOAD_PROXY_CONFIG)


def make_claim(server: EitherServer, namespace: str, name: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    metadata = {
        "name": name,
        "namespace": namespace,
        "annotations": {"cdi.kubevirt.io/storage.contentType": "kubevirt"},
    }
    server.admin.create(decode(PersistentVolumeClaim, {"metadata": metadata, "spec": spec}))
    bound_claim(server, namespace, name)


def make_vm(server: EitherServer, namespace: str) -> None:
    document = vm_of(small_vmi(), runStrategy="Halted")
    document["metadata"] |= {"name": "web", "namespace": namespace}
    spec = document["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]
    spec["domain"]["devices"] = {"disks": [{"name": "root", "disk": {}}]}
    server.admin.create(decode(VirtualMachine, document))


def make_export(server: EitherServer, namespace: str, source: JsonObject, **spec: Any) -> VirtualMachineExport:
    document = {"metadata": {"name": "out", "namespace": namespace}, "spec": {"source": source, **spec}}
    return server.admin.create(decode(VirtualMachineExport, document))


def find(server: EitherServer, namespace: str) -> VirtualMachineExport | None:
    try:
        return server.admin.get(VirtualMachineExport, namespace, "out")
    except NotFound:
        return None


def wait_phase(server: EitherServer, namespace: str, phase: str, reason: str) -> VirtualMachineExport:
    def check() -> VirtualMachineExport | None:
        export = find(server, namespace)
        ready = None if export is None else condition(export.status.conditions, "Ready")
        return (
            export if export is not None and ready and (export.status.phase, ready.reason) == (phase, reason) else None
        )

    return wait_until(check, f"the export is {phase}: {reason}", 30)


def exporter(server: EitherServer, namespace: str, but: str = "") -> Pod:
    def check() -> Pod | None:
        try:
            pod = server.admin.get(Pod, namespace, NAME)
        except NotFound:
            return None
        return pod if pod.metadata.uid != but and pod.metadata.deletion_timestamp is None else None

    return wait_until(check, "the exporter is made", 30)


def play(server: EitherServer, namespace: str, phase: str, *, ready: bool) -> None:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    server.admin.patch(Pod, namespace, NAME, StrategicPatch({"status": status}), "status")


def is_new_service(server: EitherServer, namespace: str, old: str) -> bool:
    try:
        return server.admin.get(Service, namespace, NAME).metadata.uid != old
    except NotFound:
        return False


def gone(server: EitherServer, namespace: str) -> bool:
    try:
        server.admin.get(Pod, namespace, NAME)
    except NotFound:
        return True
    return False


def test_a_claim_is_served_with_all_that_belongs_to_it(either_server: EitherServer, namespace: str) -> None:
    make_export(either_server, namespace, {"kind": "PersistentVolumeClaim", "name": "disk"})
    waiting = wait_phase(either_server, namespace, "Pending", "Initializing")
    state = condition(waiting.status.conditions, "PVCReady")
    assert state is not None
    assert (state.reason, state.message) == ("PVCNotFound", f"PersistentVolumeClaim {namespace}/disk not found")
    make_claim(either_server, namespace, "disk")
    pod = exporter(either_server, namespace)
    play(either_server, namespace, "Running", ready=True)
    export = wait_phase(either_server, namespace, "Ready", "PodReady")
    links = export.status.links
    assert links is not None
    assert links.external is not None
    assert links.internal is not None
    assert links.external.volumes[0].formats[0].url == (
        f"https://box.example:6443/api/export.kubevirt.io/v1/namespaces/{namespace}"
        "/virtualmachineexports/out/volumes/disk/disk.img"
    )
    assert "BEGIN CERTIFICATE" in links.internal.cert
    service = either_server.admin.get(Service, namespace, NAME)
    assert service.spec.selector.items() <= pod.metadata.labels.items()
    token = either_server.admin.get(Secret, namespace, "export-token-out")
    assert len(base64.b64decode(token.data["token"])) == 20
    secret = either_server.admin.get(Secret, namespace, own_secret_name(pod))
    assert {"tls.crt", "tls.key"} <= secret.data.keys()
    assert [owner.uid for owner in secret.metadata.owner_references] == [pod.metadata.uid]
    either_server.admin.delete(Service, namespace, NAME)
    wait_until(lambda: is_new_service(either_server, namespace, service.metadata.uid), "the Service is made anew", 30)
    either_server.admin.delete(VirtualMachineExport, namespace, "out")


def test_a_run_pauses_an_export_and_its_end_resumes_it(either_server: EitherServer, namespace: str) -> None:
    make_claim(either_server, namespace, "disk")
    make_vm(either_server, namespace)
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
    make_export(either_server, namespace, source, tokenSecretRef="mine")
    first = exporter(either_server, namespace)
    play(either_server, namespace, "Running", ready=True)
    wait_phase(either_server, namespace, "Ready", "PodReady")
    either_server.admin.patch(VirtualMachine, namespace, "web", MergePatch({"spec": {"runStrategy": "Always"}}))
    paused = wait_phase(either_server, namespace, "Pending", "InUse")
    ready = condition(paused.status.conditions, "Ready")
    assert ready is not None
    # Whichever of the two is seen first.
    messages = (f"Virtual Machine {namespace}/web is running", f"PersistentVolumeClaim {namespace}/disk is in use")
    assert ready.message in messages
    assert paused.status.links is None
    assert paused.status.token_secret_ref == "mine"
    wait_until(lambda: gone(either_server, namespace), "the exporter is gone")
    either_server.admin.patch(VirtualMachine, namespace, "web", MergePatch({"spec": {"runStrategy": "Halted"}}))
    second = exporter(either_server, namespace, but=first.metadata.uid)
    play(either_server, namespace, "Succeeded", ready=False)
    third = exporter(either_server, namespace, but=second.metadata.uid)
    assert third.metadata.uid != first.metadata.uid
    play(either_server, namespace, "Running", ready=True)
    ready_again = wait_phase(either_server, namespace, "Ready", "PodReady")
    assert ready_again.status.links is not None
    assert ready_again.status.links.internal is not None
    assert [each.type for each in ready_again.status.links.internal.manifests] == ["all", "auth-header-secret"]
    either_server.admin.delete(VirtualMachineExport, namespace, "out")


def test_an_export_whose_time_is_over_goes_also_while_it_waits(either_server: EitherServer, namespace: str) -> None:
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "never"}
    make_export(either_server, namespace, source, ttlDuration="3s")
    wait_phase(either_server, namespace, "Pending", "VMNotFound")
    wait_until(lambda: find(either_server, namespace) is None, "the export is deleted", 30)


def test_a_pod_of_somebody_that_writes_the_claim_keeps_it_waiting(either_server: EitherServer, namespace: str) -> None:
    make_claim(either_server, namespace, "disk")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
    spec = {"containers": [{"name": "c", "image": "x"}], "volumes": volumes}
    body = {"metadata": {"name": "writer"}, "spec": spec}
    either_server.admin.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    make_export(either_server, namespace, {"kind": "PersistentVolumeClaim", "name": "disk"})
    export = wait_phase(either_server, namespace, "Pending", "InUse")
    ready = condition(export.status.conditions, "Ready")
    assert ready is not None
    assert ready.message == f"PersistentVolumeClaim {namespace}/disk is in use"
    claim = condition(export.status.conditions, "PVCReady")
    assert claim is not None
    assert claim.message == f"{ready.message} by Pod writer"
    either_server.admin.delete(Pod, namespace, "writer", grace_seconds=0)
    exporter(either_server, namespace)
    either_server.admin.delete(VirtualMachineExport, namespace, "out")


def test_a_pod_in_the_way_is_told(either_server: EitherServer, namespace: str) -> None:
    make_claim(either_server, namespace, "disk")
    body = {"metadata": {"name": NAME}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    either_server.admin.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    make_export(either_server, namespace, {"kind": "PersistentVolumeClaim", "name": "disk"})
    export = wait_phase(either_server, namespace, "Pending", "PodPending")
    ready = condition(export.status.conditions, "Ready")
    assert ready is not None
    assert ready.message == f"Pod {NAME} exists and is not of this export, which needs the name: delete it"
    either_server.admin.delete(Pod, namespace, NAME, grace_seconds=0)
    wait_until(lambda: exporter(either_server, namespace).metadata.owner_references, "the exporter is made")
    either_server.admin.delete(VirtualMachineExport, namespace, "out")
