"""KubeVirt's backups of VMs that run, on both servers, by the controller's rights; node, handler, claims are played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.meta import condition
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import PlayedNode
from tests.contract.controller.played_workers import bound_claim
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
CLASS = "vm-backup-tests"
MOMENT = "2026-01-02T03:04:05Z"
GATES = {
    "developerConfiguration": {"featureGates": ["IncrementalBackup"]},
    "changedBlockTrackingLabelSelectors": {"virtualMachineLabelSelector": {"matchLabels": {"backed": "up"}}},
}


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer) -> Iterator[None]:
    document = {"metadata": {"name": CLASS}, "provisioner": "rancher.io/local-path"}
    either_server.admin.create(decode(StorageClass, document))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    try:
        wait_until(lambda: has_kubevirt(either_server), "the controller makes the KubeVirt object")
        configure(either_server, GATES)
        yield
        configure(either_server, None)
    finally:
        role.stop()
        either_server.admin.delete(StorageClass, "", CLASS)


def has_kubevirt(server: EitherServer) -> bool:
    try:
        server.admin.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")
    except NotFound:
        return False
    return True


def configure(server: EitherServer, wanted: Any) -> None:
    patch = MergePatch({"spec": {"configuration": wanted}})
    server.admin.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", patch)


class RunningVm:
    """A VM that runs with one disk, and a tracker of its backups."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.server, self.client, self.namespace = server, server.admin, namespace
        self.node = PlayedNode(server, namespace)
        for name in ("data", "usb"):
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": CLASS,
            }
            claim = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
            self.client.create(decode(PersistentVolumeClaim, claim))
            bound_claim(server, namespace, name)
        document = vm_of(small_vmi(), runStrategy="Always")
        document["metadata"] |= {"name": "web", "namespace": namespace, "labels": {"backed": "up"}}
        run = document["spec"]["template"]["spec"]
        run["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        run["domain"]["devices"] = {"disks": [{"name": "data", "disk": {}}]}
        self.client.create(decode(VirtualMachine, document))
        self.node.starts(self.node.pod())
        self.node.runs()
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
        chain = {"metadata": {"name": "chain", "namespace": namespace}, "spec": {"source": source}}
        self.client.create(decode(VirtualMachineBackupTracker, chain))

    def ask(self, name: str, **spec: Any) -> None:
        """Ask for a backup, and wait until the launcher would be told."""
        source = {"apiGroup": "backup.kubevirt.io", "kind": "VirtualMachineBackupTracker", "name": "chain"}
        body = {"source": source, "pvcName": "usb", **spec}
        document = {"metadata": {"name": name, "namespace": self.namespace}, "spec": body}
        self.client.create(decode(VirtualMachineBackup, document))
        wait_until(self.is_asked, "the backup is asked for")

    def is_asked(self) -> bool:
        return self.node.vmi().status.disk_copy is not None

    def handler_says(self, **told: Any) -> None:
        asked = self.node.vmi().status.disk_copy
        assert asked is not None
        before = dict.fromkeys(("completed", "failed", "backupMsg", "startTimestamp"))
        status = {"changedBlockTracking": {"backupStatus": {**before, "backupName": asked.name, **told}}}
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch({"status": status}))

    def backup(self, name: str) -> VirtualMachineBackup:
        return self.client.get(VirtualMachineBackup, self.namespace, name)

    def reason(self, name: str, type_: str) -> str:
        found = condition(self.backup(name).status.conditions, type_)
        return "" if found is None else found.reason

    @property
    def checkpoint(self) -> str:
        return self.client.get(VirtualMachineBackupTracker, self.namespace, "chain").checkpoint

    def is_let_go(self) -> bool:
        return not self.is_asked() and not self.node.vmi().spec.utility_volumes


@pytest.fixture
def vm(either_server: EitherServer, namespace: str) -> RunningVm:
    return RunningVm(either_server, namespace)


def test_the_second_backup_asks_for_what_has_changed_since_the_first(vm: RunningVm) -> None:
    vm.ask("first")
    vmi = vm.node.vmi()
    assert vmi.status.changed_block_tracking is not None
    assert vmi.status.changed_block_tracking.state == "Enabled"
    (brought,) = vmi.spec.utility_volumes
    assert (brought.claim_name, brought.type) == ("usb", "Backup")
    assert vmi.status.disk_copy is not None
    assert vmi.status.disk_copy.backup is not None
    assert vmi.status.disk_copy.backup.since == ""
    vm.handler_says(startTimestamp=MOMENT, quiesceStatus="GuestAgent", backupType="Full", completed=True)
    wait_until(lambda: vm.reason("first", "Complete") == "Completed", "it is complete")
    wait_until(vm.is_let_go, "the VM is let go")
    first = vm.backup("first").status.checkpoint_name
    assert vm.checkpoint == first
    vm.ask("second")
    order = vm.node.vmi().status.disk_copy
    assert order is not None
    assert order.backup is not None
    assert (order.backup.since, order.backup.kept_checkpoints) == (first, [first])
    vm.handler_says(failed=True, backupMsg="no space left")
    wait_until(lambda: vm.reason("second", "Failed") == "Failed", "it fails")
    wait_until(vm.is_let_go, "the VM is let go")
    assert vm.checkpoint == first


def test_a_pulled_backup_has_an_export_and_leaves_the_tracker_when_nobody_could_fetch_it(vm: RunningVm) -> None:
    vm.ask("pulled", mode="Pull", tokenSecretRef="token")
    vm.handler_says(startTimestamp=MOMENT, quiesceStatus="GuestAgent", backupType="Full", completed=True)

    def export() -> VirtualMachineExport | None:
        return next(iter(vm.client.list(VirtualMachineExport, vm.namespace)), None)

    made = wait_until(export, "the backup is exported")
    assert (made.spec.source.kind, made.spec.source.name) == ("VirtualMachineBackup", "pulled")
    assert vm.checkpoint == ""
    vm.client.delete(VirtualMachineBackup, vm.namespace, "pulled")

    def is_gone() -> bool:
        return not vm.client.list(VirtualMachineBackup, vm.namespace)

    wait_until(is_gone, "the backup goes")
    # No exporter has run.
    assert vm.checkpoint == ""


def test_a_backup_that_is_deleted_meanwhile_lets_the_vm_go(vm: RunningVm) -> None:
    vm.ask("gone")
    vm.client.delete(VirtualMachineBackup, vm.namespace, "gone")
    wait_until(vm.is_let_go, "the VM is let go")
    assert vm.checkpoint == ""


def test_a_vm_says_whether_it_is_tracked(vm: RunningVm) -> None:
    def state() -> str:
        found = vm.client.get(VirtualMachine, vm.namespace, "web").status.changed_block_tracking
        return "" if found is None else found.state

    wait_until(lambda: state() == "Enabled", "it is tracked")
    patch = MergePatch({"metadata": {"labels": {"backed": None}}})
    vm.client.patch(VirtualMachine, vm.namespace, "web", patch)
    wait_until(lambda: state() == "Disabled", "it is tracked no more")
