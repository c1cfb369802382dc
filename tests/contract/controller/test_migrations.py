"""A live migration over its objects, with the controller against both servers; nodes and handlers are played."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.data_volume_names import DEFAULT_CLASS
from kvedge.resources.disks.state_claims import STATE_CLAIM
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import APP, MIGRATION_TARGET_NODE, NODE_NAME
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.migrations import (
    MIGRATION_FINALIZER,
    MIGRATION_JOB_UID,
    MigrationState,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
    VolumeResources,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import NODE, PlayedNode
from tests.support.builders import CONFIG, vmi_with
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

OTHER_NODE = "node-2"
STATE = "persistent-state-for-web"


@pytest.fixture(scope="module")
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    assert role.failure() is None
    role.stop()


class Moving:
    """One guest of the test's namespace that runs on one node, and a migration to another."""

    def __init__(self, server: EitherServer, namespace: str, devices: dict[str, Any] | None = None) -> None:
        self.server, self.namespace = server, namespace
        self.client: KubeClient = server.admin
        self.node = PlayedNode(server, namespace)
        self.client.create(vmi_with({"domain": {"devices": devices or {}}}, name="web", namespace=namespace))
        if devices:
            wait_until(lambda: self.client.list(PersistentVolumeClaim, namespace), "the claim of its state")
            self.binds(STATE)
        self.source = self.node.pod()
        self.node.starts(self.source)
        self.node.runs()
        can = {"type": "LiveMigratable", "status": "True"}
        self.patch_vmi({"status": {"conditions": [can]}})

    def begins(self) -> Pod:
        """The target's Pod, which runs on the other node, once it is handed over."""
        target = self.target_starts()
        self.enters("PreparingTarget")
        return self.client.get(Pod, self.namespace, target.metadata.name)

    def target_starts(self) -> Pod:
        """The target's Pod, which runs on the other node."""
        spec = VirtualMachineInstanceMigrationSpec(vmi_name="web")
        meta = ObjectMeta(name="move", namespace=self.namespace, finalizers=[MIGRATION_FINALIZER])
        self.client.create(VirtualMachineInstanceMigration(metadata=meta, spec=spec))
        target = wait_until(self.find_target, "the target's Pod")
        assert self.get().status.phase in ("Pending", "Scheduling")
        self.server.bind(target, OTHER_NODE)
        self.node.starts(self.client.get(Pod, self.namespace, target.metadata.name))
        return target

    def has_plugged(self, name: str) -> Pod:
        """The guest has a shared claim that was plugged in; its attachment Pod."""
        spec = PersistentVolumeClaimSpec(
            access_modes=["ReadWriteMany"],
            resources=VolumeResources(requests={"storage": "1Gi"}),
            storage_class_name="",
        )
        meta = ObjectMeta(name=name, namespace=self.namespace)
        self.client.create(PersistentVolumeClaim(metadata=meta, spec=spec))
        self.binds(name)
        volume = {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}}
        disks = [{"name": name, "disk": {"bus": "scsi"}}]
        self.patch_vmi({"spec": {"volumes": [volume], "domain": {"devices": {"disks": disks}}}})
        (pod,) = wait_until(self.attachments, "its attachment Pod")
        self.attaches(pod, NODE)
        wait_until(lambda: self.held_by(name) == pod.metadata.uid, "the Pod's UID is told")
        (entry,) = self.client.request("GET", VirtualMachineInstance.KIND.path(self.namespace, "web"))["status"][
            "volumeStatus"
        ]
        self.patch_vmi({"status": {"volumeStatus": [{**entry, "phase": "Ready", "target": "sda"}]}})
        return pod

    def binds(self, claim: str) -> None:
        """A provisioner has made a claim's volume."""
        bound = MergePatch({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
        self.client.patch(PersistentVolumeClaim, self.namespace, claim, bound, "status")

    def attaches(self, pod: Pod, node: str) -> None:
        """An attachment Pod runs."""
        self.server.bind(pod, node)
        self.node.reports(pod, "Running", {"hotplug-disk": {"running": {"startedAt": now()}}})

    def attachments(self) -> list[Pod]:
        """Those that nobody has asked to end."""
        found = self.client.list(Pod, self.namespace, f"{APP}={ATTACHMENT_APP}")
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def has_another(self) -> bool:
        """Whether the target's node has an attachment Pod, too."""
        self.goes_on()
        return len(self.attachments()) == 2

    def held_by(self, name: str) -> str:
        entries = {entry.name: entry.hotplug_volume for entry in self.node.vmi().status.volume_status}
        found = entries.get(name)
        return "" if found is None else found.attach_pod_uid

    def find_target(self) -> Pod | None:
        self.goes_on()
        return next((pod for pod in self.node.pods() if MIGRATION_JOB_UID in pod.metadata.labels), None)

    def goes_on(self) -> None:
        """A migration that has failed is not waited for: what it and its guest say is told."""
        migration = self.get()
        assert migration.status.phase != "Failed", (migration.status, self.told(), self.node.vmi().status)

    def get(self) -> VirtualMachineInstanceMigration:
        return self.client.get(VirtualMachineInstanceMigration, self.namespace, "move")

    def enters(self, phase: str) -> None:
        wait_until(lambda: self.get().status.phase == phase, f"the migration is {phase}")

    def patch_vmi(self, body: dict[str, Any]) -> None:
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch(body))

    def handler_writes(self, **state: Any) -> None:
        self.patch_vmi({"status": {"migrationState": state}})

    def state(self) -> MigrationState:
        found = self.node.vmi().status.migration_state
        assert found is not None
        return found

    def told(self) -> set[tuple[str, str]]:
        events = self.client.list(Event, self.namespace)
        return {(item.reason, item.message) for item in events if item.involved_object.name == "move"}


@pytest.fixture
def moving(role: ControllerRole, either_server: EitherServer, namespace: str) -> Moving:
    return Moving(either_server, namespace)


def now() -> str:
    return rfc3339(datetime.now(UTC))


def test_a_guest_moves_and_its_vmi_goes_on_from_the_other_node(moving: Moving) -> None:
    target = moving.begins()
    vmi, state = moving.node.vmi(), moving.state()
    assert vmi.metadata.labels[MIGRATION_TARGET_NODE] == OTHER_NODE
    assert (state.source_node, state.target_node) == (NODE, OTHER_NODE)
    assert (state.source_pod, state.target_pod) == (moving.source.metadata.name, target.metadata.name)
    assert vmi.status.active_pods == {moving.source.metadata.uid: NODE, target.metadata.uid: OTHER_NODE}
    assert state.migration_configuration is not None
    assert state.migration_configuration.completion_timeout_per_gib == 150
    moving.handler_writes(targetNodeAddress="10.0.0.2:8186")
    moving.enters("TargetReady")
    moving.handler_writes(startTimestamp=now(), mode="PreCopy")
    moving.enters("Running")
    moving.handler_writes(sourceNodeDomainGoneTimestamp=now())
    moving.node.reports(moving.source, "Succeeded", {"compute": {"terminated": {"exitCode": 0}}})
    wait_until(lambda: moving.state().source_pod_gone_timestamp is not None, "the source's end is written down")
    assert moving.node.vmi().status.phase == "Running"
    done = {"completed": True, "endTimestamp": now()}
    labels = {NODE_NAME: OTHER_NODE, MIGRATION_TARGET_NODE: None}
    moving.patch_vmi({"metadata": {"labels": labels}, "status": {"nodeName": OTHER_NODE, "migrationState": done}})
    moving.enters("Succeeded")
    migration = wait_until(lambda: None if (found := moving.get()).metadata.finalizers else found, "it may go")
    assert [entry.phase for entry in migration.status.phase_transition_timestamps] == [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ]
    assert migration.status.migration_state is not None
    wait_until(
        lambda: moving.node.vmi().status.active_pods == {target.metadata.uid: OTHER_NODE}, "the source's Pod is over"
    )
    assert moving.node.vmi().status.phase == "Running"
    wait_until(
        lambda: {"SuccessfulCreate", "SuccessfulHandOver", "SuccessfulMigration"} <= {one for one, _ in moving.told()},
        "all is told",
    )


def test_a_volume_that_was_plugged_in_is_held_on_both_nodes_and_then_where_the_guest_is(moving: Moving) -> None:
    old = moving.has_plugged("data")
    target = moving.target_starts()
    wait_until(moving.has_another, "another attachment Pod")
    (new,) = (pod for pod in moving.attachments() if pod.metadata.uid != old.metadata.uid)
    (owner,) = new.metadata.owner_references
    assert owner.uid == target.metadata.uid
    moving.enters("Scheduling")
    assert moving.node.vmi().status.migration_state is None
    moving.attaches(new, OTHER_NODE)
    moving.enters("PreparingTarget")
    state = moving.state()
    assert state.target_attachment_pods == {"data": new.metadata.uid}
    assert state.target_attachment_pod_uid == new.metadata.uid
    moving.handler_writes(targetNodeAddress="10.0.0.2:8186", startTimestamp=now(), mode="PreCopy")
    moving.enters("Running")
    moving.handler_writes(sourceNodeDomainGoneTimestamp=now())
    moving.node.reports(moving.source, "Succeeded", {"compute": {"terminated": {"exitCode": 0}}})
    wait_until(lambda: moving.state().source_pod_gone_timestamp is not None, "the source's end is written down")
    assert moving.held_by("data") == old.metadata.uid
    assert len(moving.attachments()) == 2
    done = {"completed": True, "endTimestamp": now()}
    labels = {NODE_NAME: OTHER_NODE, MIGRATION_TARGET_NODE: None}
    moving.patch_vmi({"metadata": {"labels": labels}, "status": {"nodeName": OTHER_NODE, "migrationState": done}})
    wait_until(lambda: moving.held_by("data") == new.metadata.uid, "the target's Pod is told to hold it")
    wait_until(lambda: [pod.metadata.uid for pod in moving.attachments()] == [new.metadata.uid], "the old one goes")


def test_a_volume_that_was_plugged_in_stays_with_a_guest_that_stays(moving: Moving) -> None:
    old = moving.has_plugged("data")
    target = moving.target_starts()
    wait_until(moving.has_another, "another attachment Pod")
    (new,) = (pod for pod in moving.attachments() if pod.metadata.uid != old.metadata.uid)
    moving.attaches(new, OTHER_NODE)
    moving.enters("PreparingTarget")
    moving.node.reports(new, "Failed", {"hotplug-disk": {"terminated": {"exitCode": 1}}})
    wait_until(lambda: moving.state().abort_requested, "the source's handler is asked to keep the guest")
    moving.node.reports(target, "Succeeded", {"compute": {"terminated": {"exitCode": 0}}})
    moving.handler_writes(failed=True, completed=True, endTimestamp=now(), failureReason="canceled")
    moving.enters("Failed")
    wait_until(lambda: [pod.metadata.uid for pod in moving.attachments()] == [old.metadata.uid], "the new one goes")
    assert moving.held_by("data") == old.metadata.uid


def test_the_claim_with_a_tpm_s_state_is_made_for_many_nodes_and_the_target_has_it(
    role: ControllerRole, either_server: EitherServer, namespace: str
) -> None:
    client, meta = either_server.admin, ObjectMeta(name=f"files-{namespace}", annotations={DEFAULT_CLASS: "true"})
    client.create(StorageClass(metadata=meta, provisioner="nfs.csi.k8s.io"))
    try:
        moving = Moving(either_server, namespace, {"tpm": {"persistent": True}})
        claim = client.get(PersistentVolumeClaim, namespace, STATE)
        assert claim.spec.access_modes == ["ReadWriteMany"]
        target = moving.begins()
    finally:
        client.delete(StorageClass, "", meta.name)
    for pod in (moving.source, target):
        claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
        assert [each.claim_name for each in claims if each is not None] == [STATE]


def a_guest_with_a_tpm(role: ControllerRole, server: EitherServer, namespace: str) -> tuple[Moving, Pod, str]:
    """A guest whose TPM is on a claim of one node, its target's Pod, and the claim that this one has for it."""
    moving = Moving(server, namespace, {"tpm": {"persistent": True}})
    assert moving.client.get(PersistentVolumeClaim, namespace, STATE).spec.access_modes == ["ReadWriteOnce"]
    target = moving.begins()
    names = [volume.persistent_volume_claim for volume in target.spec.volumes]
    (coming,) = [each.claim_name for each in names if each is not None]
    state = moving.state()
    assert (state.source_persistent_state_pvc_name, state.target_persistent_state_pvc_name) == (STATE, coming)
    made = moving.client.get(PersistentVolumeClaim, namespace, coming)
    assert (made.spec.access_modes, made.metadata.labels) == (["ReadWriteOnce"], {"persistent-state-for": "web"})
    assert coming != STATE
    moving.handler_writes(targetNodeAddress="10.0.0.2:8186")
    moving.handler_writes(startTimestamp=now(), mode="PreCopy")
    moving.enters("Running")
    return moving, target, coming


def state_claims(moving: Moving) -> list[str]:
    """Those that nobody has deleted."""
    found = moving.client.list(PersistentVolumeClaim, moving.namespace)
    return [each.metadata.name for each in found if each.metadata.deletion_timestamp is None]


def test_a_tpm_on_a_claim_of_one_node_comes_to_another_claim_which_counts_from_the_target_s_word_on(
    role: ControllerRole, either_server: EitherServer, namespace: str
) -> None:
    moving, _target, coming = a_guest_with_a_tpm(role, either_server, namespace)
    moving.handler_writes(sourceNodeDomainGoneTimestamp=now())
    assert STATE_CLAIM not in moving.node.vmi().metadata.annotations
    moving.handler_writes(targetTakenTimestamp=now())
    named = lambda: moving.node.vmi().metadata.annotations.get(STATE_CLAIM) == coming  # noqa: E731
    wait_until(named, "the VMI names the other claim")
    assert sorted(state_claims(moving)) == sorted([STATE, coming])
    done = {"completed": True, "endTimestamp": now()}
    labels = {NODE_NAME: OTHER_NODE, MIGRATION_TARGET_NODE: None}
    moving.patch_vmi({"metadata": {"labels": labels}, "status": {"nodeName": OTHER_NODE, "migrationState": done}})
    moving.enters("Succeeded")
    wait_until(lambda: state_claims(moving) == [coming], "the claim that the guest has left goes")


def test_a_guest_that_stays_keeps_the_claim_of_its_tpm_and_the_other_one_goes(
    role: ControllerRole, either_server: EitherServer, namespace: str
) -> None:
    moving, _target, coming = a_guest_with_a_tpm(role, either_server, namespace)
    assert coming in state_claims(moving)
    moving.handler_writes(failed=True, completed=True, endTimestamp=now(), failureReason="the wire was cut")
    moving.enters("Failed")
    wait_until(lambda: state_claims(moving) == [STATE], "the claim to which nothing came goes")
    assert STATE_CLAIM not in moving.node.vmi().metadata.annotations


def test_a_guest_that_stays_keeps_its_pod_and_the_other_one_is_ended(moving: Moving) -> None:
    target = moving.begins()
    moving.client.delete(VirtualMachineInstanceMigration, moving.namespace, "move")
    wait_until(lambda: moving.state().abort_requested, "the source's handler is asked to keep the guest")
    assert moving.get().status.phase == "PreparingTarget"
    moving.handler_writes(
        failed=True, completed=True, endTimestamp=now(), failureReason="canceled", abortStatus="Succeeded"
    )

    def is_gone() -> bool:
        try:
            return moving.get() is None
        except NotFound:
            return True

    wait_until(is_gone, "the migration goes")
    expected = ("FailedMigration", "source node reported migration failed: canceled")
    wait_until(lambda: expected in moving.told(), "why is told")

    wait_until(lambda: is_ended(moving, target), "the target's Pod is ended")
    vmi = moving.node.vmi()
    assert (vmi.status.phase, vmi.status.node_name) == ("Running", NODE)
    wait_until(lambda: MIGRATION_TARGET_NODE not in moving.node.vmi().metadata.labels, "the label goes")
    assert any(pod.metadata.name == moving.source.metadata.name for pod in moving.node.pods())


def test_a_migration_that_is_removed_with_its_finalizer_is_canceled(moving: Moving) -> None:
    target = moving.begins()
    kind = VirtualMachineInstanceMigration
    moving.client.patch(kind, moving.namespace, "move", MergePatch({"metadata": {"finalizers": None}}))
    moving.client.delete(kind, moving.namespace, "move")
    wait_until(lambda: moving.state().abort_requested, "the source's handler is asked to keep the guest")
    moving.handler_writes(failed=True, completed=True, endTimestamp=now(), failureReason="canceled")
    wait_until(lambda: is_ended(moving, target), "the target's Pod is ended")
    assert moving.node.vmi().status.phase == "Running"


def is_ended(moving: Moving, pod: Pod) -> bool:
    living = {each.metadata.name for each in moving.node.pods() if each.metadata.deletion_timestamp is None}
    return pod.metadata.name not in living
