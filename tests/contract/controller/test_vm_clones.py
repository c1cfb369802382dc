"""Clones of VMs on both servers, by the controller's own rights; the test plays volumes and workers."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.errors import Invalid, NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.disks.clone_names import temporary_restore, temporary_snapshot
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Event
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine
from tests.contract.controller.test_snapshots import (
    claims_of_vm,
    controller,
    fill,
    is_gone,
    make_vm,
    take_snapshot,
    vm_of_test,
)
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
__all__ = ["controller"]
OF_SNAPSHOT = {"apiGroup": "snapshot.kubevirt.io", "kind": "VirtualMachineSnapshot", "name": "before"}
MAC = "02:00:00:00:00:0a"


def ask_clone(server: EitherServer, namespace: str, **spec: Any) -> VirtualMachineClone:
    vm = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine"}
    body = {"source": {**vm, "name": "web"}, "target": {**vm, "name": "twin"}, **spec}
    document = {"metadata": {"name": "to-twin", "namespace": namespace}, "spec": body}
    return server.admin.create(decode(VirtualMachineClone, document))


def clone_of_test(server: EitherServer, namespace: str) -> VirtualMachineClone:
    return server.admin.get(VirtualMachineClone, namespace, "to-twin")


def wait_for_phase(server: EitherServer, namespace: str, phase: str) -> VirtualMachineClone:
    def is_there() -> VirtualMachineClone | None:
        found = clone_of_test(server, namespace)
        assert found.status.phase == phase or not found.is_final, found.status
        return found if found.status.phase == phase else None

    return wait_until(is_there, f"the clone is in phase {phase}", 30)


def fill_copies(server: EitherServer, namespace: str) -> None:
    """Play the workers of the clone's own snapshot."""
    uid = clone_of_test(server, namespace).metadata.uid

    def taken() -> VirtualMachineSnapshot | None:
        try:
            return server.admin.get(VirtualMachineSnapshot, namespace, temporary_snapshot(uid))
        except NotFound:
            return None

    snapshot = wait_until(taken, "the snapshot is made")
    for volume in ("root", "data"):
        fill(server, namespace, f"vmsnapshot-{snapshot.metadata.uid}-volume-{volume}")


def fill_disks(server: EitherServer, namespace: str) -> VirtualMachineRestore:
    """Play the workers of the new VM's disks."""
    name = wait_for_restore(server, namespace)
    restore = server.admin.get(VirtualMachineRestore, namespace, name)
    for volume in ("root", "data"):
        fill(server, namespace, f"restore-{restore.metadata.uid}-{volume}")
    return restore


def wait_for_restore(server: EitherServer, namespace: str) -> str:
    return wait_until(lambda: clone_of_test(server, namespace).status.restore_name, "the restore is made", 30)


def reason(clone: VirtualMachineClone, type_: str) -> str:
    found = condition(clone.status.conditions, type_)
    return "" if found is None else found.reason


def events(server: EitherServer, namespace: str) -> set[str]:
    found = server.admin.list(Event, namespace)
    return {each.reason for each in found if each.involved_object.kind == VirtualMachineClone.KIND.kind}


def test_a_vm_gets_a_twin_and_both_go_their_ways(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    # The clone waits for its source.
    ask_clone(
        server,
        namespace,
        labelFilters=["*", "!^secret"],
        newMacAddresses={"default": MAC},
        newSMBiosSerial="twin-1",
    )
    wait_until(lambda: reason(clone_of_test(server, namespace), "Progressing") == "Pending", "it waits")
    make_vm(server, namespace)
    change = {
        "metadata": {"labels": {"app": "web", "secret": "x"}},
        "spec": {
            "template": {
                "spec": {
                    "domain": {
                        "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223", "serial": "web-1"},
                        "devices": {
                            "interfaces": [{"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:01"}]
                        },
                    },
                    "networks": [{"name": "default", "pod": {}}],
                }
            }
        },
    }
    wait_for_phase(server, namespace, "SnapshotInProgress")
    # The one that is taken is the VM's at the time of the lock: whatever it was, it is patched.
    fill_copies(server, namespace)
    fill_disks(server, namespace)
    wait_for_phase(server, namespace, "Succeeded")
    twin = vm_of_test(server, namespace, "twin")
    assert twin.spec.run_strategy == "Halted"
    assert twin.spec.template is not None
    assert twin.spec.template.spec.domain.firmware is not None
    assert twin.spec.template.spec.domain.firmware.serial == "twin-1"

    def is_clean() -> bool:
        status = clone_of_test(server, namespace).status
        return status.snapshot_name is None and status.restore_name is None

    wait_until(is_clean, "what it was made with goes", 30)
    uid = clone_of_test(server, namespace).metadata.uid
    wait_until(lambda: is_gone(server, VirtualMachineSnapshot, namespace, temporary_snapshot(uid)), "it goes")
    wait_until(lambda: is_gone(server, VirtualMachineRestore, namespace, temporary_restore(uid)), "it goes, too")
    disks = {name.partition(" ")[2] for name in claims_of_vm(twin).values()}
    assert disks.isdisjoint(name.partition(" ")[2] for name in claims_of_vm(vm_of_test(server, namespace)).values())
    for name in disks:
        owner = server.admin.get(DataVolume, namespace, name).metadata.controller_reference()
        assert owner is not None
        assert owner.uid == twin.metadata.uid
    known = {"SourceDoesNotExist", "SnapshotCreated", "SnapshotReady", "RestoreCreated", "RestoreReady"}
    wait_until(lambda: events(server, namespace) >= {*known, "TargetVMCreated", "PVCBound"}, "all is told")
    # A twin of what the VM is now: in the older version, by a name that nobody has given.
    server.admin.delete(VirtualMachine, namespace, "twin")
    wait_until(lambda: is_gone(server, VirtualMachineClone, namespace, "to-twin"), "the clone goes with its VM", 30)
    server.admin.patch(VirtualMachine, namespace, "web", MergePatch(change))
    kind = VirtualMachineClone.KIND
    path = kind.path(namespace).replace("v1beta1", "v1alpha1")
    body = {
        "apiVersion": f"{kind.group}/v1alpha1",
        "kind": kind.kind,
        "metadata": {"name": "to-twin"},
        "spec": {
            "source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"},
            "labelFilters": ["*", "!^secret"],
            "newMacAddresses": {"default": MAC},
        },
    }
    server.admin.request("POST", path, body)
    fill_copies(server, namespace)
    fill_disks(server, namespace)
    done = wait_for_phase(server, namespace, "Succeeded")
    assert done.status.target_name is not None
    assert done.status.target_name.startswith("clone-web-")
    named = vm_of_test(server, namespace, done.status.target_name)
    assert named.metadata.labels.get("app") == "web"
    assert "secret" not in named.metadata.labels
    assert named.spec.template is not None
    domain = named.spec.template.spec.domain
    assert domain.devices.interfaces[0].mac_address == MAC
    assert domain.firmware is not None
    assert not domain.firmware.uuid
    assert not domain.firmware.serial


def test_a_snapshot_becomes_a_vm_after_its_own_vm_is_gone(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    take_snapshot(server, namespace, "before")
    server.admin.delete(VirtualMachine, namespace, "web")
    ask_clone(server, namespace, source=OF_SNAPSHOT, volumeNamePolicy="PrefixTargetName")
    wait_for_restore(server, namespace)
    fill(server, namespace, "twin-root")
    fill(server, namespace, "twin-data")
    wait_for_phase(server, namespace, "Succeeded")
    assert claims_of_vm(vm_of_test(server, namespace, "twin")) == {"root": "dv twin-root", "data": "pvc twin-data"}
    wait_until(lambda: clone_of_test(server, namespace).status.restore_name is None, "the restore goes", 30)
    assert server.admin.get(VirtualMachineSnapshot, namespace, "before").status.ready_to_use


def test_a_clone_whose_vm_is_refused_leaves_neither_vm_nor_disks(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    take_snapshot(server, namespace, "before")
    patch = '{"op": "remove", "path": "/spec/template/spec/no/such/thing"}'
    ask_clone(server, namespace, source=OF_SNAPSHOT, patches=[patch])
    restore = fill_disks(server, namespace)
    failed = wait_for_phase(server, namespace, "Failed")
    assert "spec.patches" in reason(failed, "Ready")
    wait_until(lambda: is_gone(server, VirtualMachine, namespace, "twin"), "a VM that looks like web goes", 30)
    wait_until(lambda: is_gone(server, VirtualMachineRestore, namespace, restore.metadata.name), "the restore goes", 30)
    wait_until(lambda: is_gone(server, DataVolume, namespace, f"restore-{restore.metadata.uid}-root"), "its disk goes")
    assert server.admin.get(VirtualMachineSnapshot, namespace, "before").status.ready_to_use


def test_a_clone_that_is_deleted_on_its_way_lets_go_of_all(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make_vm(server, namespace)
    ask_clone(server, namespace)
    fill_copies(server, namespace)
    wait_for_restore(server, namespace)
    uid = clone_of_test(server, namespace).metadata.uid
    restore = server.admin.get(VirtualMachineRestore, namespace, temporary_restore(uid))
    owner = restore.metadata.controller_reference()
    assert owner is not None
    assert owner.uid == uid
    server.admin.delete(VirtualMachineClone, namespace, "to-twin")
    if not server.collects_garbage:
        server.admin.delete(VirtualMachineRestore, namespace, restore.metadata.name)
        server.admin.delete(VirtualMachineSnapshot, namespace, temporary_snapshot(uid))
    wait_until(lambda: is_gone(server, VirtualMachineRestore, namespace, restore.metadata.name), "the restore goes", 30)
    wait_until(
        lambda: is_gone(server, VirtualMachineSnapshot, namespace, temporary_snapshot(uid)), "the snapshot goes", 30
    )
    assert is_gone(server, VirtualMachine, namespace, "twin")
    assert not vm_of_test(server, namespace).status.snapshot_in_progress


def test_a_target_that_is_there_already_is_not_touched(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    vm = make_vm(server, namespace)
    take_snapshot(server, namespace, "before")
    target = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
    server.admin.delete(VirtualMachine, namespace, "web")
    wait_until(lambda: is_gone(server, VirtualMachine, namespace, "web"), "the VM goes")
    other = vm_of_test_copy(vm)
    made = server.admin.create(other)
    ask_clone(server, namespace, source=OF_SNAPSHOT, target=target)
    failed = wait_for_phase(server, namespace, "Failed")
    assert "restore target already exists" in reason(failed, "Ready")
    assert vm_of_test(server, namespace).metadata.uid == made.metadata.uid


def vm_of_test_copy(vm: VirtualMachine) -> VirtualMachine:
    metadata = {"name": vm.metadata.name, "namespace": vm.metadata.namespace}
    spec = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}}
    return decode(VirtualMachine, {"metadata": metadata, "spec": spec})


def test_a_filter_that_is_no_pattern_never_gets_in_where_the_schema_refuses_it(
    either_server: EitherServer, namespace: str
) -> None:
    path = VirtualMachineClone.KIND.path(namespace)
    body = {
        "apiVersion": VirtualMachineClone.KIND.api_version,
        "kind": VirtualMachineClone.KIND.kind,
        "metadata": {"name": "x"},
        "spec": {"target": {"kind": "VirtualMachine", "name": "twin"}},
    }
    with pytest.raises(Invalid, match="source"):
        either_server.admin.request("POST", path, body)
