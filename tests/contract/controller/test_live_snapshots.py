"""Snapshots of VMs that run, on both servers, by the controller's own rights; node, handler and claims are played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.disks.snapshot_names import SEALED_CLAIM, SNAPSHOT_MEMORY, memory_copy_name
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.saved_memory import RESUME_MEMORY
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.contract.controller.played_workers import bound_claim, play, worker_of
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
CLASS = "live-snapshot-tests"
MOMENT = "2026-01-02T03:04:05Z"


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer) -> Iterator[None]:
    document = {"metadata": {"name": CLASS}, "provisioner": "rancher.io/local-path"}
    either_server.admin.create(decode(StorageClass, document))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield
    role.stop()
    either_server.admin.delete(StorageClass, "", CLASS)


class RunningVm:
    """A VM that runs with one disk, of which a snapshot is asked for."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.server, self.client, self.namespace = server, server.admin, namespace
        self.node = PlayedNode(server, namespace)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": CLASS,
        }
        claim = {"metadata": {"name": "data", "namespace": namespace}, "spec": spec}
        self.client.create(decode(PersistentVolumeClaim, claim))
        bound_claim(server, namespace, "data")
        document = vm_of(small_vmi(), runStrategy="Always")
        document["metadata"] |= {"name": "web", "namespace": namespace}
        run = document["spec"]["template"]["spec"]
        run["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        run["domain"]["devices"] = {"disks": [{"name": "data", "disk": {}}]}
        self.client.create(decode(VirtualMachine, document))
        self.node.starts(self.node.pod())
        self.node.runs()

    def ask_snapshot(self, *, memory: bool = False) -> str:
        """Ask for it; the claim that the copy of its disk goes into, once that is brought to the launcher."""
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
        annotations = {SNAPSHOT_MEMORY: "true"} if memory else {}
        metadata = {"name": "live", "namespace": self.namespace, "annotations": annotations}
        made = self.client.create(decode(VirtualMachineSnapshot, {"metadata": metadata, "spec": {"source": source}}))
        copy = f"vmsnapshot-{made.metadata.uid}-volume-data"
        bound_claim(self.server, self.namespace, copy)
        if memory:
            bound_claim(self.server, self.namespace, memory_copy_name(made.metadata.uid))
        wait_until(lambda: self.node.vmi().status.disk_copy, "the copy is asked for")
        return copy

    def stop(self) -> None:
        self.client.patch(VirtualMachine, self.namespace, "web", MergePatch({"spec": {"runStrategy": "Halted"}}))
        pod = self.node.pod()
        self.node.enters("Succeeded")
        self.node.removes(pod)

        def is_gone() -> bool:
            try:
                return self.node.vmi() is None
            except NotFound:
                return True

        wait_until(is_gone, "the run is over")

    def word(self) -> str | None:
        return self.client.get(VirtualMachine, self.namespace, "web").metadata.annotations.get(RESUME_MEMORY)

    def snapshot(self) -> VirtualMachineSnapshot:
        return self.client.get(VirtualMachineSnapshot, self.namespace, "live")

    def handler_says(self, **told: Any) -> None:
        asked = self.node.vmi().status.disk_copy
        assert asked is not None
        status = {"changedBlockTracking": {"backupStatus": {"backupName": asked.name, **told}}}
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch({"status": status}))

    def is_let_go(self) -> bool:
        vm, vmi = self.client.get(VirtualMachine, self.namespace, "web"), self.node.vmi()
        asked = vmi.status.disk_copy is not None or bool(vmi.spec.utility_volumes)
        return not vm.status.snapshot_in_progress and not asked


def test_a_running_vm_is_copied_into_a_claim_that_comes_to_its_launcher(
    either_server: EitherServer, namespace: str
) -> None:
    vm = RunningVm(either_server, namespace)
    copy = vm.ask_snapshot()
    vmi = vm.node.vmi()
    (brought,) = vmi.spec.utility_volumes
    assert (brought.claim_name, brought.type) == (copy, "Backup")
    assert vmi.status.disk_copy is not None
    (wanted,) = vmi.status.disk_copy.volumes
    assert (wanted.volume_name, wanted.copy_name) == ("data", brought.name)

    def attachments() -> list[Pod]:
        return vm.client.list(Pod, namespace, "kubevirt.io=hotplug-disk")

    (pod,) = wait_until(attachments, "a Pod holds the claim on the guest's node")
    assert any(each.persistent_volume_claim for each in pod.spec.volumes)
    either_server.bind(pod, NODE)
    vm.handler_says(startTimestamp=MOMENT, quiesceStatus="NoGuestAgent", backupMsg="10%")
    wait_until(lambda: vm.snapshot().status.indications == ["NoGuestAgent", "Online"], "the moment is told")
    assert vm.snapshot().status.phase == "InProgress"
    vm.handler_says(startTimestamp=MOMENT, quiesceStatus="NoGuestAgent", completed=True)
    wait_until(lambda: vm.snapshot().status.phase == "Succeeded", "the snapshot is taken")
    taken = vm.snapshot()
    assert (taken.status.ready_to_use, taken.status.creation_time) == (True, MOMENT)
    kept = vm.client.get(PersistentVolumeClaim, namespace, copy)
    assert kept.metadata.annotations[SEALED_CLAIM] == kept.metadata.uid
    wait_until(vm.is_let_go, "the VM is let go")


def test_the_memory_comes_into_a_claim_of_its_own_and_the_downtime_is_told(
    either_server: EitherServer, namespace: str
) -> None:
    vm = RunningVm(either_server, namespace)
    vm.ask_snapshot(memory=True)
    vmi = vm.node.vmi()
    asked = vmi.status.disk_copy
    assert asked is not None
    name = memory_copy_name(vm.snapshot().metadata.uid)
    assert {each.name: each.claim_name for each in vmi.spec.utility_volumes}[asked.memory] == name
    vm.handler_says(startTimestamp=MOMENT, completed=True, downtimeMilliseconds=700)
    wait_until(lambda: vm.snapshot().status.phase == "Succeeded", "the snapshot is taken")
    assert vm.snapshot().status.indications == ["Online", "Memory"]
    assert "downtime 700 ms" in (vm.snapshot().status.source_indications[-1].message or "")
    kept = vm.client.get(PersistentVolumeClaim, namespace, name)
    assert kept.metadata.annotations[SEALED_CLAIM] == kept.metadata.uid
    wait_until(vm.is_let_go, "the VM is let go")
    vm.stop()
    restore_with_memory(vm)


def restore_with_memory(vm: RunningVm) -> None:
    """The next start has the memory, and its launcher the claim; once it runs, the word goes, and then the claim."""
    client, namespace = vm.client, vm.namespace
    target = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
    spec = {"target": target, "virtualMachineSnapshotName": "live"}
    restore = client.create(
        decode(VirtualMachineRestore, {"metadata": {"name": "back", "namespace": namespace}, "spec": spec})
    )
    memory = f"restore-{restore.metadata.uid}-memory"
    for name in (f"restore-{restore.metadata.uid}-data", memory):
        bound_claim(vm.server, namespace, name)
        play(vm.server, worker_of(vm.server, namespace, name), "Succeeded", {})
    word = wait_until(lambda: vm.word(), "the VM is told")
    assert word.startswith(f"{memory} ")
    wait_until(lambda: client.get(VirtualMachineRestore, namespace, "back").status.complete, "the restore is over")
    client.patch(VirtualMachine, namespace, "web", MergePatch({"spec": {"runStrategy": "Always"}}))
    pod = vm.node.pod()
    assert vm.node.vmi().metadata.annotations[RESUME_MEMORY] == word
    claims = [each.persistent_volume_claim for each in pod.spec.volumes if each.persistent_volume_claim is not None]
    assert memory in [each.claim_name for each in claims]
    vm.node.starts(pod)
    vm.node.runs()
    wait_until(lambda: vm.word() is None, "the word goes")
    wait_until(lambda: memory not in [each.metadata.name for each in client.list(DataVolume, namespace)], "it goes")


def test_a_copy_that_fails_takes_its_claim_along(either_server: EitherServer, namespace: str) -> None:
    vm = RunningVm(either_server, namespace)
    vm.ask_snapshot()
    vm.handler_says(failed=True, backupMsg="no space left for the copy")
    wait_until(lambda: vm.snapshot().status.phase == "Failed", "the snapshot fails")
    error = vm.snapshot().status.error
    assert error is not None
    assert "no space left for the copy" in (error.message or "")
    wait_until(vm.is_let_go, "the VM is let go")


def test_a_snapshot_that_is_deleted_meanwhile_lets_the_vm_go(either_server: EitherServer, namespace: str) -> None:
    vm = RunningVm(either_server, namespace)
    vm.ask_snapshot()
    vm.client.delete(VirtualMachineSnapshot, namespace, "live")
    wait_until(vm.is_let_go, "the VM is let go")
