"""Guests in launchers of another release, with the controller under its own rights, against both servers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import encode
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.moves.workload_updates import OUTDATED_LAUNCHER
from kvedge.resources.names import HEARTBEAT, LAUNCHER_VERSION, NODE_NAME, SCHEDULABLE, SYSTEM_NAMESPACE, VERSION
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Namespace, Node
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.contract.controller.test_moving_disks import Moving
from tests.support.builders import CONFIG, small_vmi
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

OLD: Final = "0.0.9"
CAN: Final = {"type": "LiveMigratable", "status": "True"}


@pytest.fixture
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights, and two nodes of its version whose handlers are well."""
    with contextlib.suppress(AlreadyExists):
        either_server.admin.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
    remove_kubevirts(either_server)
    for vmi in either_server.admin.list(VirtualMachineInstance):
        # Guests of other tests count among those that leave the node.
        gone = MergePatch({"metadata": {"labels": {NODE_NAME: "gone"}}, "status": {"nodeName": "gone"}})
        either_server.admin.patch(VirtualMachineInstance, vmi.metadata.namespace, vmi.metadata.name, gone)
    for name in (NODE, "node-2"):
        annotations = {VERSION: CONFIG.version, HEARTBEAT: rfc3339(datetime.now(UTC))}
        metadata = ObjectMeta(name=name, labels={SCHEDULABLE: "true"}, annotations=annotations)
        either_server.admin.create(Node(metadata=metadata))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()
    remove_kubevirts(either_server)
    for name in (NODE, "node-2"):
        either_server.admin.delete(Node, "", name)


def remove_kubevirts(server: EitherServer) -> None:
    for item in server.admin.list(KubeVirt):
        server.admin.delete(KubeVirt, item.metadata.namespace, item.metadata.name)


class Updated:
    """A guest in an older launcher, and the KubeVirt object."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.server, self.namespace, self.client = server, namespace, server.admin
        self.node = PlayedNode(server, namespace)

    def run(self, *conditions: dict[str, str], version: str = OLD) -> None:
        document = small_vmi()
        document["metadata"] |= {"name": "web", "namespace": self.namespace}
        self.client.request("POST", VirtualMachineInstance.KIND.path(self.namespace), document)
        self.node.starts(self.node.pod())
        self.node.runs()
        self.say(version, *conditions)

    def say(self, version: str, *conditions: dict[str, str]) -> None:
        body = {
            "metadata": {"annotations": {LAUNCHER_VERSION: version}},
            "status": {"conditions": list(conditions), "nodeName": NODE},
        }
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch(body))

    def want(self, *methods: str) -> None:
        """Of the object that the controller has made; no api role runs here, and it is Deployed all the same."""
        wait_until(lambda: self.client.list(KubeVirt), "a KubeVirt object")
        deployed = MergePatch({"status": {"phase": "Deployed"}})
        self.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", deployed, "status")
        body = {"spec": {"workloadUpdateStrategy": {"workloadUpdateMethods": list(methods)}}}
        self.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch(body))

    def kubevirt(self) -> KubeVirt:
        return self.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")

    def told(self) -> Condition | None:
        return condition(self.kubevirt().status.conditions, "LaunchersUpToDate")

    def migrations(self) -> list[VirtualMachineInstanceMigration]:
        return self.client.list(VirtualMachineInstanceMigration, self.namespace)

    def end(self) -> None:
        for migration in self.migrations():
            body = MergePatch({"metadata": {"finalizers": None}})
            name = migration.metadata.name
            # The controller deletes some of them, too.
            with contextlib.suppress(NotFound):
                self.client.patch(VirtualMachineInstanceMigration, self.namespace, name, body)
                self.client.delete(VirtualMachineInstanceMigration, self.namespace, name)
        # One that is on its way out still counts where the next test looks.
        known = MergePatch({"metadata": {"annotations": {LAUNCHER_VERSION: None}}})
        with contextlib.suppress(NotFound):
            self.client.patch(VirtualMachineInstance, self.namespace, "web", known)
            self.client.delete(VirtualMachineInstance, self.namespace, "web")
        for pod in self.node.pods():
            self.node.removes(pod)


@pytest.fixture
def updated(role: ControllerRole, either_server: EitherServer, namespace: str) -> Iterator[Updated]:
    updated = Updated(either_server, namespace)
    yield updated
    updated.end()


def is_labelled(updated: Updated) -> bool:
    return OUTDATED_LAUNCHER in updated.node.vmi().metadata.labels


def test_an_outdated_guest_is_counted_and_moves_once_the_object_says_so(updated: Updated) -> None:
    updated.run(CAN)
    updated.want()

    def reason() -> str:
        told = updated.told()
        return "" if told is None else told.reason

    wait_until(lambda: reason() == "NoUpdateMethod", "the object tells that nobody is to update it")
    assert updated.kubevirt().status.outdated_virtual_machine_instance_workloads == 1
    wait_until(lambda: is_labelled(updated), "the label")
    assert updated.migrations() == []
    updated.want("LiveMigrate")
    (migration,) = wait_until(updated.migrations, "a migration")
    assert migration.metadata.annotations["kubevirt.io/workloadUpdateMigration"] == ""
    assert (migration.spec.vmi_name, migration.spec.priority) == ("web", "system-critical")
    updated.say(CONFIG.version, CAN)
    wait_until(lambda: not is_labelled(updated), "no label any more")
    wait_until(lambda: reason() == "UpToDate", "all are up to date")


def test_a_guest_that_cannot_move_is_evicted(updated: Updated) -> None:
    updated.run()
    updated.want("LiveMigrate", "Evict")

    def is_evicted() -> bool:
        return all(pod.metadata.deletion_timestamp is not None for pod in updated.node.pods())

    wait_until(is_evicted, "its Pod is deleted")
    assert updated.migrations() == []


def test_disks_that_are_to_move_get_a_migration_that_goes_with_the_change(updated: Updated) -> None:
    changes = {"type": "VolumesChange", "status": "True"}
    updated.run(CAN, changes, version=CONFIG.version)
    (migration,) = wait_until(updated.migrations, "a migration")
    assert migration.metadata.labels["kubevirt.io/volume-update-migration"] == "web"
    assert migration.spec.priority == "user-triggered"
    updated.say(CONFIG.version, CAN)

    def is_given_up() -> bool:
        return all(each.metadata.deletion_timestamp is not None or each.is_final for each in updated.migrations())

    wait_until(is_given_up, "the migration goes with the change")


def test_a_guest_that_leaves_its_node_takes_its_disks_along(
    role: ControllerRole, either_server: EitherServer, namespace: str
) -> None:
    moving = Moving(either_server, namespace)
    held = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    along = {"type": "StorageLiveMigratable", "status": "True"}
    asked = {"evacuationNodeName": NODE, "nodeName": NODE, "conditions": [held, along]}
    moving.patch_vmi({"spec": {"evictionStrategy": "LiveMigrate"}, "status": asked})
    wait_until(moving.destinations, "the VMI says what its volume becomes")
    (name,) = moving.destinations()
    assert name.startswith("old-moved-")
    claim = moving.client.get(PersistentVolumeClaim, namespace, name)
    assert (claim.metadata.annotations["kvedge.io/moved-from"], claim.spec.storage_class_name) == ("old", "")
    assert moving.vm().spec.update_volumes_strategy == "Migration"
    # The handler's word: what is copied keeps the guest no more.
    others = [encode(each) for each in moving.node.vmi().status.conditions if each.type != "LiveMigratable"]
    moving.patch_vmi({"status": {"conditions": [CAN, *others]}})

    def migrations() -> list[VirtualMachineInstanceMigration]:
        return moving.client.list(VirtualMachineInstanceMigration, namespace)

    (migration,) = wait_until(migrations, "a migration")
    assert migration.metadata.labels["kubevirt.io/volume-update-migration"] == "web"
