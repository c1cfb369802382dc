"""Snapshots and restores on both servers, by the controller's own rights; the test plays volumes and workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import condition, owner_reference
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from tests.contract.controller.played_workers import bound_claim, play, worker_of
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.either_server import EitherServer
from tests.support.restricted_controller import restricted_controller
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
CLASS = "snapshot-tests"
OLD_STATE = "persistent-state-for-web"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer) -> Iterator[None]:
    document = {"metadata": {"name": CLASS}, "provisioner": "rancher.io/local-path"}
    either_server.admin.create(decode(StorageClass, document))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield
    role.stop()
    either_server.admin.delete(StorageClass, "", CLASS)


def make_vm(server: EitherServer, namespace: str, strategy: str = "Halted") -> VirtualMachine:
    """A VM with a disk of its own DataVolume, which is filled, and one on a claim that somebody has made."""
    template = {
        "metadata": {"name": "root"},
        "spec": {"source": {"blank": {}}, "pvc": claim_spec()},
    }
    document = vm_of(small_vmi(), runStrategy=strategy, dataVolumeTemplates=[template])
    document["metadata"] |= {"name": "web", "namespace": namespace}
    spec = document["spec"]["template"]["spec"]
    spec["volumes"] = [
        {"name": "root", "dataVolume": {"name": "root"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "tools", "containerDisk": {"image": "demo:1"}},
    ]
    spec["domain"]["devices"] = {"disks": [{"name": name, "disk": {}} for name in ("root", "data", "tools")]}
    made = server.admin.create(decode(VirtualMachine, document))
    fill(server, namespace, "root")
    claim = {"metadata": {"name": "data", "namespace": namespace}, "spec": claim_spec()}
    server.admin.create(decode(PersistentVolumeClaim, claim))
    bound_claim(server, namespace, "data")
    return made


def claim_spec() -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": CLASS,
    }


def fill(server: EitherServer, namespace: str, name: str) -> None:
    bound_claim(server, namespace, name)
    play(server, worker_of(server, namespace, name), "Succeeded", {})


def ask_snapshot(server: EitherServer, namespace: str, name: str) -> VirtualMachineSnapshot:
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
    document = {"metadata": {"name": name, "namespace": namespace}, "spec": {"source": source}}
    return server.admin.create(decode(VirtualMachineSnapshot, document))


def ask_restore(server: EitherServer, namespace: str, name: str, target: str, **spec: Any) -> VirtualMachineRestore:
    aim = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": target}
    body = {"target": aim, "virtualMachineSnapshotName": "before", **spec}
    return server.admin.create(
        decode(VirtualMachineRestore, {"metadata": {"name": name, "namespace": namespace}, "spec": body})
    )


def progress(server: EitherServer, namespace: str, name: str) -> str:
    found = condition(server.admin.get(VirtualMachineSnapshot, namespace, name).status.conditions, "Progressing")
    return "" if found is None else found.reason


def take_snapshot(server: EitherServer, namespace: str, name: str) -> VirtualMachineSnapshot:
    made = ask_snapshot(server, namespace, name)
    for volume in ("root", "data"):
        fill(server, namespace, f"vmsnapshot-{made.metadata.uid}-volume-{volume}")

    def taken() -> VirtualMachineSnapshot | None:
        found = server.admin.get(VirtualMachineSnapshot, namespace, name)
        return found if found.status.phase == "Succeeded" else None

    return wait_until(taken, "the snapshot is taken")


def restored(server: EitherServer, namespace: str, name: str) -> VirtualMachineRestore:
    def done() -> VirtualMachineRestore | None:
        found = server.admin.get(VirtualMachineRestore, namespace, name)
        assert not found.has_failed, found.status
        return found if found.status.complete else None

    return wait_until(done, "the restore is complete")


def is_gone(server: EitherServer, cls: Any, namespace: str, name: str) -> bool:
    try:
        server.admin.get(cls, namespace, name)
    except NotFound:
        return True
    return False


def vm_of_test(server: EitherServer, namespace: str, name: str = "web") -> VirtualMachine:
    return server.admin.get(VirtualMachine, namespace, name)


def claims_of_vm(vm: VirtualMachine) -> dict[str, str]:
    assert vm.spec.template is not None
    found = {}
    for volume in vm.spec.template.spec.volumes:
        if volume.data_volume is not None:
            found[volume.name] = f"dv {volume.data_volume.name}"
        elif volume.persistent_volume_claim is not None:
            found[volume.name] = f"pvc {volume.persistent_volume_claim.claim_name}"
    return found


def test_a_stopped_vm_is_taken_put_back_and_the_snapshot_goes(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    vm = make_vm(server, namespace)
    asked = ask_snapshot(server, namespace, "before")
    copy = f"vmsnapshot-{asked.metadata.uid}-volume-root"
    bound_claim(server, namespace, copy)
    locked = vm_of_test(server, namespace)
    assert locked.status.snapshot_in_progress == "before"
    assert "snapshot.kubevirt.io/snapshot-source-protection" in locked.metadata.finalizers
    assert progress(server, namespace, "before") == "Source locked and operation in progress"
    # A second one waits for its turn.
    ask_snapshot(server, namespace, "after")
    words = 'Source not locked snapshot "before" in progress'
    wait_until(lambda: progress(server, namespace, "after") == words, "the second one waits")
    server.admin.delete(VirtualMachineSnapshot, namespace, "after")
    play(server, worker_of(server, namespace, copy), "Succeeded", {})
    fill(server, namespace, f"vmsnapshot-{asked.metadata.uid}-volume-data")

    def is_taken() -> bool:
        return bool(server.admin.get(VirtualMachineSnapshot, namespace, "before").status.ready_to_use)

    wait_until(is_taken, "the snapshot is ready")
    taken = server.admin.get(VirtualMachineSnapshot, namespace, "before")
    assert (taken.status.phase, taken.status.source_uid) == ("Succeeded", vm.metadata.uid)
    volumes = taken.status.snapshot_volumes
    assert volumes is not None
    assert (volumes.included_volumes, volumes.excluded_volumes) == (["root", "data"], ["tools"])
    wait_until(lambda: not vm_of_test(server, namespace).status.snapshot_in_progress, "the VM is let go")
    # It changes, and comes back.
    change = MergePatch({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "128Mi"}}}}}})
    server.admin.patch(VirtualMachine, namespace, "web", change)
    restore = ask_restore(server, namespace, "back", "web")
    new = {volume: f"restore-{restore.metadata.uid}-{volume}" for volume in ("root", "data")}
    bound_claim(server, namespace, new["root"])
    assert vm_of_test(server, namespace).status.restore_in_progress == "back"
    assert claims_of_vm(vm_of_test(server, namespace)) == {"root": "dv root", "data": "pvc data"}
    play(server, worker_of(server, namespace, new["root"]), "Succeeded", {})
    fill(server, namespace, new["data"])
    done = restored(server, namespace, "back")
    assert done.status.deleted_data_volumes == ["root"]
    back = vm_of_test(server, namespace)
    assert claims_of_vm(back) == {"root": f"dv {new['root']}", "data": f"pvc {new['data']}"}
    assert back.spec.data_volume_templates[0].metadata.name == new["root"]
    assert back.spec.template is not None
    assert back.spec.template.spec.domain.memory is not None
    assert back.spec.template.spec.domain.memory.guest == "64Mi"
    assert back.metadata.annotations["restore.kubevirt.io/lastRestoreUID"] == f"back-{restore.metadata.uid}"
    wait_until(lambda: not vm_of_test(server, namespace).status.restore_in_progress, "the VM is let go")
    wait_until(lambda: is_gone(server, DataVolume, namespace, "root"), "the old disk goes")
    assert not is_gone(server, PersistentVolumeClaim, namespace, "data")
    for name in new.values():
        owner = server.admin.get(DataVolume, namespace, name).metadata.controller_reference()
        assert owner is not None
        assert owner.uid == vm.metadata.uid
    # What was restored is still there, and goes when somebody says so.
    content = taken.status.virtual_machine_snapshot_content_name or ""
    assert server.admin.get(VirtualMachineSnapshotContent, namespace, content).status.ready_to_use
    server.admin.delete(VirtualMachineSnapshot, namespace, "before")
    wait_until(lambda: is_gone(server, VirtualMachineSnapshot, namespace, "before"), "the snapshot goes")
    wait_until(lambda: is_gone(server, VirtualMachineSnapshotContent, namespace, content), "its content goes")
    if server.collects_garbage:
        wait_until(lambda: is_gone(server, DataVolume, namespace, copy), "the copies go")


def test_a_new_vm_is_made_of_a_snapshot_with_patches(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    take_snapshot(server, namespace, "before")
    mac = "/spec/template/spec/domain/devices/interfaces/0/macAddress"
    patch = f'{{"op": "add", "path": "{mac}", "value": "02:00:00:00:00:0a"}}'
    interfaces = '{"op": "add", "path": "/spec/template/spec/domain/devices/interfaces", "value": '
    restore = ask_restore(
        server,
        namespace,
        "twin",
        "twin",
        patches=[interfaces + '[{"name": "default", "bridge": {}}]}', patch],
        volumeRestoreOverrides=[{"volumeName": "data", "restoreName": "twin-data", "labels": {"of": "twin"}}],
    )
    fill(server, namespace, f"restore-{restore.metadata.uid}-root")
    fill(server, namespace, "twin-data")
    done = restored(server, namespace, "twin")
    twin = vm_of_test(server, namespace, "twin")
    assert twin.spec.run_strategy == "Halted"
    assert twin.spec.template is not None
    assert twin.spec.template.spec.domain.devices.interfaces[0].mac_address == "02:00:00:00:00:0a"
    assert claims_of_vm(twin)["data"] == "pvc twin-data"
    assert server.admin.get(PersistentVolumeClaim, namespace, "twin-data").metadata.labels["of"] == "twin"
    for each in done.status.restores:
        owner = server.admin.get(DataVolume, namespace, each.persistent_volume_claim).metadata.controller_reference()
        assert owner is not None
        assert owner.uid == twin.metadata.uid
    assert claims_of_vm(vm_of_test(server, namespace)) == {"root": "dv root", "data": "pvc data"}


def test_a_restore_that_is_taken_back_leaves_the_vm_as_it_was(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    take_snapshot(server, namespace, "before")
    restore = ask_restore(server, namespace, "back", "web")
    new = f"restore-{restore.metadata.uid}-root"
    bound_claim(server, namespace, new)
    server.admin.delete(VirtualMachineRestore, namespace, "back")
    wait_until(lambda: is_gone(server, VirtualMachineRestore, namespace, "back"), "the restore goes")
    assert is_gone(server, DataVolume, namespace, new)
    vm = vm_of_test(server, namespace)
    assert not vm.status.restore_in_progress
    assert claims_of_vm(vm) == {"root": "dv root", "data": "pvc data"}


WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@contextlib.contextmanager
def unanswered_webhook(server: EitherServer, namespace: str) -> Iterator[str]:
    """A webhook that nobody answers, for changes of VMs with the namespace's label; its name."""
    name = f"deny-{namespace}.example.com"
    rule = {"operations": ["UPDATE"], "apiGroups": ["kubevirt.io"], "apiVersions": ["*"]}
    hook = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:9/deny"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "rules": [{**rule, "resources": ["virtualmachines"]}],
        "objectSelector": {"matchLabels": {"denied": namespace}},
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }
    server.admin.request("POST", WEBHOOKS, body)
    try:
        yield name
    finally:
        server.admin.request("DELETE", f"{WEBHOOKS}/{name}")


def test_a_restore_whose_vm_a_webhook_keeps_says_so_and_goes_on_without_it(
    either_server: EitherServer, namespace: str
) -> None:
    server = either_server
    make_vm(server, namespace)
    server.admin.patch(VirtualMachine, namespace, "web", MergePatch({"metadata": {"labels": {"denied": namespace}}}))
    take_snapshot(server, namespace, "before")
    # Its finalizer has to leave the VM before a webhook keeps it.
    wait_until(lambda: not vm_of_test(server, namespace).status.snapshot_in_progress, "the VM is let go")
    with unanswered_webhook(server, namespace) as webhook:
        restore = ask_restore(server, namespace, "back", "web")
        new = {volume: f"restore-{restore.metadata.uid}-{volume}" for volume in ("root", "data")}
        for name in new.values():
            fill(server, namespace, name)

        def waits() -> bool:
            conditions = server.admin.get(VirtualMachineRestore, namespace, "back").status.conditions
            told = [each.type for each in conditions if each.status == "False" and webhook in (each.reason or "")]
            return len(conditions) == 2 and sorted(told) == ["Progressing", "Ready"]

        wait_until(waits, "it says which webhook keeps it")
        assert vm_of_test(server, namespace).status.restore_in_progress == "back"
        assert claims_of_vm(vm_of_test(server, namespace)) == {"root": "dv root", "data": "pvc data"}
    restored(server, namespace, "back")
    assert claims_of_vm(vm_of_test(server, namespace)) == {"root": f"dv {new['root']}", "data": f"pvc {new['data']}"}


def give_volume(server: EitherServer, namespace: str, claim: str) -> str:
    """A volume below a bound claim, as a provisioner makes it; its name."""
    found = server.admin.get(PersistentVolumeClaim, namespace, claim)
    name = f"pv-{found.metadata.uid}"
    ref = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim, "uid": found.metadata.uid}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": CLASS,
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": ref,
        "hostPath": {"path": f"/nowhere/{name}"},
    }
    # The typed client drops what kvedge does not read.
    server.admin.request("POST", PersistentVolume.KIND.path(""), {**HEAD, "metadata": {"name": name}, "spec": spec})
    server.admin.patch(PersistentVolumeClaim, namespace, claim, MergePatch({"spec": {"volumeName": name}}))
    return name


HEAD = {"apiVersion": "v1", "kind": "PersistentVolume"}


def bind_volumes(server: EitherServer, namespace: str) -> None:
    """Once, what Kubernetes' controllers do with claims and volumes."""
    for claim in server.admin.list(PersistentVolumeClaim, namespace):
        meta = claim.metadata
        if meta.deletion_timestamp is not None:
            with contextlib.suppress(NotFound):
                server.admin.patch(
                    PersistentVolumeClaim, namespace, meta.name, MergePatch({"metadata": {"finalizers": []}})
                )
        elif claim.spec.volume_name and claim.status.phase != "Bound":
            ref = server.admin.get(PersistentVolume, "", claim.spec.volume_name).spec.claim_ref
            assert ref is not None
            assert (ref.name, ref.uid) == (meta.name, "")
            body = {"spec": {"claimRef": {"uid": meta.uid}}}
            server.admin.patch(PersistentVolume, "", claim.spec.volume_name, MergePatch(body))
            status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
            server.admin.patch(PersistentVolumeClaim, namespace, meta.name, MergePatch(status), "status")


@pytest.fixture
def restricted(either_server: EitherServer, namespace: str) -> Iterator[None]:
    with restricted_controller(either_server, namespace):
        yield


@pytest.mark.usefixtures("restricted")
def test_new_data_come_into_the_claims_that_there_were(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    old = {name: give_volume(server, namespace, name) for name in ("root", "data")}
    take_snapshot(server, namespace, "before")
    # Such as an export's; it keeps the claim until it ends.
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    reader = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    server.admin.request("POST", pods, {"metadata": {"name": "reader"}, "spec": reader})
    restore = ask_restore(server, namespace, "back", "web", volumeRestorePolicy="InPlace")
    new = {}
    for volume in ("root", "data"):
        bound_claim(server, namespace, f"restore-{restore.metadata.uid}-{volume}")
        new[volume] = give_volume(server, namespace, f"restore-{restore.metadata.uid}-{volume}")
        play(server, worker_of(server, namespace, f"restore-{restore.metadata.uid}-{volume}"), "Succeeded", {})

    def waits() -> bool:
        found = condition(server.admin.get(VirtualMachineRestore, namespace, "back").status.conditions, "Progressing")
        return found is not None and "PVC data is in use by Pod reader" in (found.message or "")

    wait_until(waits, "it waits for the one that reads")
    server.admin.request("PATCH", f"{pods}/reader/status", {"status": {"phase": "Succeeded"}}, None, MERGE)

    def done() -> bool:
        bind_volumes(server, namespace)
        found = server.admin.get(VirtualMachineRestore, namespace, "back")
        assert not found.has_failed, found.status
        return bool(found.status.complete)

    wait_until(done, "the restore is complete", seconds=60)
    try:
        for volume, place in new.items():
            claim = server.admin.get(PersistentVolumeClaim, namespace, volume)
            assert (claim.spec.volume_name, claim.status.phase) == (place, "Bound")
            assert is_gone(server, DataVolume, namespace, f"restore-{restore.metadata.uid}-{volume}")
        assert claims_of_vm(vm_of_test(server, namespace)) == {"root": "dv root", "data": "pvc data"}

        def is_whole() -> bool:
            return server.admin.get(DataVolume, namespace, "root").status.phase == "Succeeded"

        wait_until(is_whole, "the VM's own DataVolume has taken its claim again")
        for place in (*old.values(), *new.values()):
            # Who provisions them deletes the old ones by it.
            found = server.admin.get(PersistentVolume, "", place)
            assert found.spec.persistent_volume_reclaim_policy == "Delete"
    finally:
        for place in (*old.values(), *new.values()):
            server.admin.request("DELETE", PersistentVolume.KIND.path("", place))
            server.admin.patch(PersistentVolume, "", place, MergePatch({"metadata": {"finalizers": []}}))


def test_a_lost_copy_is_told_and_never_made_again(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    taken = take_snapshot(server, namespace, "before")
    copy = f"vmsnapshot-{taken.metadata.uid}-volume-data"
    server.admin.patch(PersistentVolumeClaim, namespace, copy, MergePatch({"metadata": {"finalizers": []}}))
    server.admin.delete(PersistentVolumeClaim, namespace, copy)

    def is_told() -> bool:
        status = server.admin.get(VirtualMachineSnapshot, namespace, "before").status
        return status.error is not None and status.error.message == f"VolumeSnapshots ({copy}) missing"

    wait_until(is_told, "that the copy is gone is told")
    told = server.admin.get(VirtualMachineSnapshot, namespace, "before").status
    assert (told.phase, told.ready_to_use) == ("Succeeded", False)
    assert is_gone(server, PersistentVolumeClaim, namespace, copy)


def test_what_somebody_removes_with_its_finalizer_lets_go_of_its_vm(
    either_server: EitherServer, namespace: str
) -> None:
    server = either_server
    make_vm(server, namespace)
    taken = take_snapshot(server, namespace, "before")
    free = MergePatch({"metadata": {"finalizers": []}})
    restore = ask_restore(server, namespace, "back", "web")
    bound_claim(server, namespace, f"restore-{restore.metadata.uid}-root")
    ask_snapshot(server, namespace, "next")
    assert vm_of_test(server, namespace).status.restore_in_progress == "back"
    server.admin.patch(VirtualMachineRestore, namespace, "back", free)
    server.admin.delete(VirtualMachineRestore, namespace, "back")
    # The next in the queue has its turn, and is removed in the same way.
    wait_until(lambda: vm_of_test(server, namespace).status.snapshot_in_progress == "next", "the next one begins", 30)
    server.admin.patch(VirtualMachineSnapshot, namespace, "next", free)
    server.admin.delete(VirtualMachineSnapshot, namespace, "next")

    def is_free() -> bool:
        vm = vm_of_test(server, namespace)
        is_locked = vm.status.restore_in_progress or vm.status.snapshot_in_progress
        return not is_locked and "snapshot.kubevirt.io/snapshot-source-protection" not in vm.metadata.finalizers

    wait_until(is_free, "the VM is let go", 30)
    assert server.admin.get(VirtualMachineSnapshot, namespace, "before").status.ready_to_use
    assert taken.status.ready_to_use is not False


@pytest.mark.usefixtures("restricted")
def test_the_state_of_a_tpm_comes_into_a_claim_of_its_own(either_server: EitherServer, namespace: str) -> None:
    server, state = either_server, "persistent-state-for-this-vm"
    # Bound before the VM's disks are, for which the snapshot waits.
    metadata = {"name": OLD_STATE, "namespace": namespace, "labels": {"persistent-state-for": "web"}}
    server.admin.create(decode(PersistentVolumeClaim, {"metadata": metadata, "spec": claim_spec()}))
    bound_claim(server, namespace, OLD_STATE)
    owner = encode(owner_reference(make_vm(server, namespace)))
    server.admin.patch(
        PersistentVolumeClaim, namespace, OLD_STATE, MergePatch({"metadata": {"ownerReferences": [owner]}})
    )
    asked = ask_snapshot(server, namespace, "before")
    for volume in ("root", "data", state):
        fill(server, namespace, f"vmsnapshot-{asked.metadata.uid}-volume-{volume}")
    restore = ask_restore(server, namespace, "unsealed", "web")
    new = f"restore-{restore.metadata.uid}-{state}"
    for name in (new, *(f"restore-{restore.metadata.uid}-{volume}" for volume in ("root", "data"))):
        fill(server, namespace, name)
    restored(server, namespace, "unsealed")
    assert vm_of_test(server, namespace).metadata.annotations["kvedge.io/state-claim"] == new
    claim = server.admin.get(PersistentVolumeClaim, namespace, new)
    assert claim.metadata.labels["persistent-state-for"] == "web"

    def goes() -> bool:
        gone = is_gone(server, PersistentVolumeClaim, namespace, OLD_STATE)
        found = None if gone else server.admin.get(PersistentVolumeClaim, namespace, OLD_STATE)
        return found is None or found.metadata.deletion_timestamp is not None

    wait_until(goes, "the claim of before goes")
