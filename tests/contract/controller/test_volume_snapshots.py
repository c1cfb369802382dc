"""Snapshots that a storage driver keeps, on both servers, by the roles' own rights.

The test plays the driver, what binds claims, the node, and the guest's agent behind a real api role and relay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.api.api_service import ApiRole
from kvedge.controller.controller_service import ControllerRole
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.disks.snapshot_names import METHOD
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.names import HANDLER_ADDRESS
from kvedge.resources.role_users import (
    API_GROUP,
    API_USER,
    CONTROLLER_GROUP,
    CONTROLLER_USER,
    HANDLER_GROUP,
    handler_user,
)
from kvedge.resources.types.core import Node
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotClass
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.contract.controller.played_workers import bound_claim
from tests.support.builders import CONFIG, small_vmi, vm_of
from tests.support.echo_door import EchoDoor
from tests.support.either_server import REAL, EitherServer
from tests.support.kube_apiserver import reachable_address
from tests.support.volume_snapshot_kinds import tell, volume_snapshot_kinds
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
CLASS, LATE, DRIVER = "driver-tests", "driver-tests-late", "csi.example.com"
MOMENT = "2026-01-02T03:04:05Z"
VOLUMES = ("root", "data")


@pytest.fixture(scope="module", autouse=True)
def kinds(either_server: EitherServer) -> Iterator[None]:
    admin = either_server.admin
    with volume_snapshot_kinds(admin):
        for name, mode in ((CLASS, "Immediate"), (LATE, "WaitForFirstConsumer")):
            document = {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode}
            admin.create(decode(StorageClass, document))
        request = {"metadata": {"name": "driver-tests"}, "driver": DRIVER, "deletionPolicy": "Delete"}
        document = {"apiVersion": VolumeSnapshotClass.KIND.api_version, "kind": "VolumeSnapshotClass", **request}
        admin.request("POST", VolumeSnapshotClass.KIND.path(""), document)
        yield
        for name in (CLASS, LATE):
            admin.delete(StorageClass, "", name)


@pytest.fixture(scope="module")
def handler(either_server: EitherServer) -> Iterator[KubeClient]:
    client = KubeClient.from_kubeconfig(either_server.kubeconfig_of(handler_user(NODE), HANDLER_GROUP))
    yield client
    client.close()


@pytest.fixture(scope="module")
def door(either_server: EitherServer, kinds: None, handler: KubeClient) -> Iterator[EchoDoor]:
    """The guests' agents, behind the api role and the relay of their node."""
    host = reachable_address() if either_server.kind == REAL else "127.0.0.1"
    api = ApiRole(either_server.kubeconfig_of(API_USER, API_GROUP), f"{host}:0")
    api.start()
    either_server.admin.create(Node(metadata=ObjectMeta(name=NODE)))
    door = EchoDoor()
    relay = RelayService(handler, RelayConfig(NODE), door)
    relay.start()
    wait_until(lambda: relay.address, "the relay serves")
    handler.patch(Node, "", NODE, MergePatch({"metadata": {"annotations": {HANDLER_ADDRESS: relay.address}}}))

    def answers() -> bool:
        try:
            either_server.admin.request("GET", "/apis/subresources.kubevirt.io/v1/version")
        except KubeError:
            return False
        return True

    wait_until(answers, "the aggregated API answers")
    yield door
    relay.stop()
    api.stop()
    # Other tests of this server have no api role, and no such node.
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/kvedge"
        either_server.admin.request("DELETE", path)
    either_server.admin.delete(Node, "", NODE)


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer, door: EchoDoor) -> Iterator[ControllerRole]:
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    role.stop()


class Site:
    """A VM with two disks of the driver, and what is asked of it."""

    def __init__(
        self, server: EitherServer, namespace: str, storage_class: str = CLASS, strategy: str = "Halted"
    ) -> None:
        self.server, self.client, self.namespace = server, server.admin, namespace
        for name in VOLUMES:
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": storage_class,
            }
            claim = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
            self.client.create(decode(PersistentVolumeClaim, claim))
            bound_claim(server, namespace, name)
        document = vm_of(small_vmi(), runStrategy=strategy)
        document["metadata"] |= {"name": "web", "namespace": namespace}
        run = document["spec"]["template"]["spec"]
        run["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in VOLUMES]
        run["domain"].setdefault("devices", {})["disks"] = [{"name": name, "disk": {}} for name in VOLUMES]
        self.client.create(decode(VirtualMachine, document))

    def ask_snapshot(self, **annotations: str) -> None:
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
        metadata = {"name": "before", "namespace": self.namespace, "annotations": annotations}
        self.client.create(decode(VirtualMachineSnapshot, {"metadata": metadata, "spec": {"source": source}}))

    def snapshot(self) -> VirtualMachineSnapshot:
        return self.client.get(VirtualMachineSnapshot, self.namespace, "before")

    def content(self) -> VirtualMachineSnapshotContent:
        name = self.snapshot().status.virtual_machine_snapshot_content_name or ""
        return self.client.get(VirtualMachineSnapshotContent, self.namespace, name)

    def taken(self) -> dict[str, VolumeSnapshot]:
        """The VolumeSnapshots once both are there, by the claim."""

        def found() -> list[VolumeSnapshot]:
            items = self.client.list(VolumeSnapshot, self.namespace)
            return items if len(items) == len(VOLUMES) else []

        items = wait_until(found, "both VolumeSnapshots are asked for")
        return {each.spec.source.persistent_volume_claim_name or "": each for each in items}

    def take(self) -> dict[str, VolumeSnapshot]:
        self.ask_snapshot()
        taken = self.taken()
        for item in taken.values():
            tell(self.client, item, creationTime=MOMENT, readyToUse=True, restoreSize="2Gi")
        wait_until(lambda: self.snapshot().status.ready_to_use, "the snapshot is ready")
        return taken

    def vm(self, name: str = "web") -> VirtualMachine:
        return self.client.get(VirtualMachine, self.namespace, name)

    def ask_restore(self, target: str = "web", **spec: Any) -> VirtualMachineRestore:
        aim = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": target}
        body = {"target": aim, "virtualMachineSnapshotName": "before", **spec}
        metadata = {"name": "back", "namespace": self.namespace}
        return self.client.create(decode(VirtualMachineRestore, {"metadata": metadata, "spec": body}))

    def restore(self) -> VirtualMachineRestore:
        return self.client.get(VirtualMachineRestore, self.namespace, "back")

    def waits_for(self) -> str:
        found = condition(self.snapshot().status.conditions, "Progressing")
        return "" if found is None else f"{found.reason} {found.message}"


class RunningSite(Site):
    """The same, and it runs; `handler` is its node's, and what that says is the test's."""

    def __init__(self, server: EitherServer, namespace: str, handler: KubeClient, *states: str) -> None:
        super().__init__(server, namespace, strategy="Always")
        self.handler = handler
        node = PlayedNode(server, namespace)
        node.starts(node.pod())
        wait_until(lambda: node.vmi().status.phase == "Scheduled", "the VMI is handed over")
        self.say({"phase": "Running"})
        self.say({"conditions": [{"type": each, "status": "True"} for each in states]})

    def say(self, status: dict[str, Any]) -> None:
        self.handler.patch(VirtualMachineInstance, self.namespace, "web", MergePatch({"status": status}))


def test_a_driver_takes_the_disks_of_a_stopped_vm_and_makes_new_ones(
    either_server: EitherServer, namespace: str
) -> None:
    site = Site(either_server, namespace)
    site.ask_snapshot()
    taken = site.taken()
    uid = site.snapshot().metadata.uid
    assert {claim: each.metadata.name for claim, each in taken.items()} == {
        name: f"vmsnapshot-{uid}-volume-{name}" for name in VOLUMES
    }
    assert {each.spec.volume_snapshot_class_name for each in taken.values()} == {"driver-tests"}
    wait_until(lambda: "is not taken yet" in site.waits_for(), "it waits for the driver")
    tell(site.client, taken["root"], error={"message": "no room in the pool", "time": MOMENT})
    wait_until(lambda: "no room in the pool" in site.waits_for(), "the driver's error is told")
    assert site.vm().status.snapshot_in_progress == "before"
    (failed,) = [each for each in site.content().status.volume_snapshot_status if each.error is not None]
    assert failed.volume_snapshot_name == taken["root"].metadata.name
    for item in taken.values():
        tell(site.client, item, creationTime=MOMENT, readyToUse=False, error=None)
    wait_until(lambda: not site.vm().status.snapshot_in_progress, "the VM is let go")
    assert (site.snapshot().status.phase, site.snapshot().status.ready_to_use) == ("InProgress", False)
    for item in taken.values():
        tell(site.client, item, readyToUse=True, restoreSize="2Gi")
    wait_until(lambda: site.snapshot().status.phase == "Succeeded", "the snapshot is taken")
    content = site.content()
    assert content.metadata.annotations[METHOD] == "volume-snapshots"
    assert [each.ready_to_use for each in content.status.volume_snapshot_status] == [True, True]
    assert content.status.error is None
    restore = site.ask_restore()
    for name in VOLUMES:
        new = f"restore-{restore.metadata.uid}-{name}"
        claim = bound_claim(either_server, namespace, new)
        source = {
            "apiGroup": "snapshot.storage.k8s.io",
            "kind": "VolumeSnapshot",
            "name": taken[name].metadata.name,
        }
        assert claim.spec.data_source is not None
        assert claim.spec.data_source.items() >= source.items()
        assert claim.spec.resources.requests == {"storage": str(2 << 30)}
    wait_until(lambda: site.restore().status.complete, "the restore is complete")
    volumes = site.vm().spec.template.spec.volumes if site.vm().spec.template else []
    names = [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim]
    assert names == [f"restore-{restore.metadata.uid}-{name}" for name in VOLUMES]
    # A driver's snapshot that goes takes the VM's along, which says so.
    site.client.delete(VolumeSnapshot, namespace, taken["root"].metadata.name)
    wait_until(lambda: not site.snapshot().status.ready_to_use, "the loss is told")
    assert site.snapshot().status.error is not None
    assert "missing" in (site.snapshot().status.error.message or "")


def test_a_claim_that_is_bound_late_does_not_hold_the_restore_up(either_server: EitherServer, namespace: str) -> None:
    site = Site(either_server, namespace, LATE)
    site.take()
    site.ask_restore("twin")
    wait_until(lambda: site.restore().status.complete, "the restore is complete")
    assert site.vm("twin").spec.run_strategy == "Halted"
    made = {each.metadata.name: each.status.phase for each in site.client.list(DataVolume, namespace)}
    assert set(made.values()) == {"PendingPopulation"}
    # It starts on claims that its driver fills for it.
    site.client.patch(VirtualMachine, namespace, "twin", MergePatch({"spec": {"runStrategy": "Always"}}))
    node = PlayedNode(either_server, namespace)
    wait_until(node.pods, "the launcher is made, which binds them")


def test_a_guest_is_frozen_before_its_driver_begins_and_thawed_before_it_ends(
    either_server: EitherServer, namespace: str, door: EchoDoor, handler: KubeClient
) -> None:
    site = RunningSite(either_server, namespace, handler, "AgentConnected")
    door.calls.clear()
    door.refusal = DoorError(500, "the guest agent does not answer")
    site.ask_snapshot()
    wait_until(lambda: "does not answer" in site.waits_for(), "the refusal is told", 30)
    assert site.client.list(VolumeSnapshot, namespace) == []
    door.refusal = None
    wait_until(lambda: (namespace, "web", "freeze") in door.calls, "the guest is frozen", 30)
    assert door.options == {"unfreezeSeconds": 60}
    wait_until(lambda: "has not frozen its file systems yet" in site.waits_for(), "the guest's own word is waited for")
    assert site.client.list(VolumeSnapshot, namespace) == []
    site.say({"fsFreezeStatus": "frozen"})
    taken = site.taken()
    assert (namespace, "web", "unfreeze") not in door.calls
    for item in taken.values():
        tell(site.client, item, creationTime=MOMENT, readyToUse=False)
    wait_until(lambda: (namespace, "web", "unfreeze") in door.calls, "the guest is thawed")
    wait_until(lambda: not site.vm().status.snapshot_in_progress, "the VM is let go")
    assert site.snapshot().status.phase == "InProgress"
    for item in taken.values():
        tell(site.client, item, readyToUse=True)
    wait_until(lambda: site.snapshot().status.phase == "Succeeded", "the snapshot is taken")
    assert site.snapshot().status.indications == ["GuestAgent", "Online"]


def test_a_paused_guest_is_left_alone(
    either_server: EitherServer, namespace: str, door: EchoDoor, handler: KubeClient
) -> None:
    site = RunningSite(either_server, namespace, handler, "AgentConnected", "Paused")
    door.calls.clear()
    site.take()
    assert site.snapshot().status.indications == ["Online", "Paused"]
    assert [each for each in door.calls if each[0] == namespace] == []


def test_own_copies_are_made_where_they_are_asked_for(either_server: EitherServer, namespace: str) -> None:
    site = Site(either_server, namespace)
    site.ask_snapshot(**{METHOD: "claim-copies"})
    uid = site.snapshot().metadata.uid
    bound_claim(either_server, namespace, f"vmsnapshot-{uid}-volume-root")
    assert site.client.list(VolumeSnapshot, namespace) == []


def test_a_snapshot_that_is_deleted_takes_its_content_along(either_server: EitherServer, namespace: str) -> None:
    site = Site(either_server, namespace)
    taken = site.take()
    content = site.content()
    site.client.delete(VirtualMachineSnapshot, namespace, "before")

    def is_gone(cls: type[VirtualMachineSnapshotContent] | type[VolumeSnapshot], name: str) -> bool:
        try:
            site.client.get(cls, namespace, name)
        except NotFound:
            return True
        return False

    wait_until(lambda: is_gone(VirtualMachineSnapshotContent, content.metadata.name), "the content goes")
    if either_server.collects_garbage:
        for item in taken.values():
            wait_until(lambda name=item.metadata.name: is_gone(VolumeSnapshot, name), "the VolumeSnapshots go")
