"""Volumes that get other claims with their data: the controller against both servers; nodes and handlers are played."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.moved_volumes import MANUAL_RECOVERY_REQUIRED, VOLUMES_CHANGE, as_moved
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.moves.disk_moves import MOVED_FROM
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    MIGRATION_FINALIZER,
    MIGRATION_JOB_UID,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.contract.controller.played_node import PlayedNode
from tests.support.builders import CONFIG, with_volumes
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

OTHER_NODE = "node-2"


@pytest.fixture(scope="module")
def role(either_server: EitherServer) -> Iterator[ControllerRole]:
    """Under its own name, with its own rights."""
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield role
    assert role.failure() is None
    role.stop()


def on(claim: str) -> dict[str, Any]:
    return with_volumes({"name": "root", "persistentVolumeClaim": {"claimName": claim}})


class Moving:
    """A VM whose guest runs on the claim `old`; `new` is another one."""

    def __init__(self, server: EitherServer, namespace: str) -> None:
        self.server, self.client, self.namespace = server, server.admin, namespace
        self.node = PlayedNode(server, namespace)
        for name in ("old", "new"):
            self.has_claim(name)
        spec = {"runStrategy": "Always", "template": {"spec": on("old")}}
        vm = decode(VirtualMachine, {"metadata": {"name": "web", "namespace": namespace}, "spec": spec})
        self.client.create(vm)
        self.source = self.node.pod()
        self.node.starts(self.source)
        self.node.runs()
        can = {"type": "LiveMigratable", "status": "True"}
        self.patch_vmi({"status": {"conditions": [can]}})

    def has_claim(self, name: str) -> None:
        size = {"storage": "1Gi"}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": ""}
        claim = {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec}
        self.client.create(decode(PersistentVolumeClaim, claim))
        bound = MergePatch({"status": {"phase": "Bound", "capacity": size}})
        self.client.patch(PersistentVolumeClaim, self.namespace, name, bound, "status")

    def names(self) -> list[str | None]:
        """The claims of the VM's template."""
        template = self.vm().spec.template
        return [] if template is None else [claim_of(volume) for volume in template.spec.volumes]

    def wants(self, claim: str) -> None:
        spec = {"updateVolumesStrategy": "Migration", "template": {"spec": {"volumes": on(claim)["volumes"]}}}
        self.client.patch(VirtualMachine, self.namespace, "web", MergePatch({"spec": spec}))

    def vm(self) -> VirtualMachine:
        return self.client.get(VirtualMachine, self.namespace, "web")

    def recorded(self) -> list[str]:
        """The claims that the VM's status calls incomplete."""
        update = self.vm().status.volume_update_state
        state = None if update is None else update.volume_migration_state
        moved = [] if state is None else state.migrated_volumes
        return [each.destination_pvc_info.claim_name for each in moved if each.destination_pvc_info is not None]

    def change(self) -> tuple[str, str] | None:
        """What the VMI says of the change of its volumes: status and reason."""
        found = condition(self.node.vmi().status.conditions, VOLUMES_CHANGE)
        return None if found is None else (found.status, found.reason)

    def destinations(self) -> list[str]:
        moved = self.node.vmi().status.migrated_volumes
        return [each.destination_pvc_info.claim_name for each in moved if each.destination_pvc_info is not None]

    def begins(self) -> Pod:
        """A migration whose target's Pod runs on the other node: its claims are the handlers' from now on."""
        spec = VirtualMachineInstanceMigrationSpec(vmi_name="web")
        meta = ObjectMeta(name="move", namespace=self.namespace, finalizers=[MIGRATION_FINALIZER])
        self.client.create(VirtualMachineInstanceMigration(metadata=meta, spec=spec))
        target = wait_until(self.find_target, "the target's Pod")
        self.server.bind(target, OTHER_NODE)
        self.node.starts(self.client.get(Pod, self.namespace, target.metadata.name))
        wait_until(lambda: self.is_open(), "the migration is handed over")
        return target

    def find_target(self) -> Pod | None:
        return next((pod for pod in self.node.pods() if MIGRATION_JOB_UID in pod.metadata.labels), None)

    def is_open(self) -> bool:
        state = self.node.vmi().status.migration_state
        return state is not None and state.is_open

    def moves(self) -> None:
        """The handlers: the guest is off at the source, and the target's takes the VMI over."""
        now = rfc3339(datetime.now(UTC))
        gone = {"startTimestamp": now, "sourceNodeDomainGoneTimestamp": now}
        self.patch_vmi({"status": {"migrationState": gone}})
        moved = as_moved(self.node.vmi())
        kept = [encode(each) for each in moved.status.conditions if each.type != VOLUMES_CHANGE]
        self.patch_vmi(
            {
                "metadata": {"labels": {NODE_NAME: OTHER_NODE, MIGRATION_TARGET_NODE: None}},
                "spec": {"volumes": [encode(volume) for volume in moved.spec.volumes]},
                "status": {
                    "nodeName": OTHER_NODE,
                    "migrationState": {"completed": True, "endTimestamp": now},
                    "migratedVolumes": None,
                    "conditions": kept,
                },
            }
        )

    def patch_vmi(self, body: dict[str, Any]) -> None:
        self.client.patch(VirtualMachineInstance, self.namespace, "web", MergePatch(body))

    def own(self, type_: str) -> Condition | None:
        """A condition of the VM."""
        return condition(self.vm().status.conditions, type_)

    def needs(self, type_: str) -> bool:
        found = self.own(type_)
        return found is not None and found.status == "True"


@pytest.fixture
def moving(role: ControllerRole, either_server: EitherServer, namespace: str) -> Moving:
    return Moving(either_server, namespace)


def test_a_guest_takes_its_data_along_and_its_vm_goes_on_as_if_nothing_had_been(moving: Moving) -> None:
    moving.wants("new")
    wait_until(lambda: moving.destinations() == ["new"], "the VMI says what its volume becomes")
    # The VM's word came before.
    assert moving.recorded() == ["new"]
    assert moving.change() == ("True", "")
    assert [volume.persistent_volume_claim.claim_name for volume in moving.node.vmi().spec.volumes] == ["old"]  # type: ignore[union-attr]
    (each,) = moving.node.vmi().status.migrated_volumes
    assert each.source_pvc_info is not None
    assert (each.source_pvc_info.claim_name, each.source_pvc_info.volume_mode) == ("old", "Filesystem")
    target = moving.begins()
    claims = [each.persistent_volume_claim for each in target.spec.volumes if each.persistent_volume_claim]
    assert [claim.claim_name for claim in claims] == ["new"]
    moving.moves()
    wait_until(lambda: moving.recorded() == [], "nothing is incomplete")
    assert not moving.needs("RestartRequired")
    assert not moving.needs(MANUAL_RECOVERY_REQUIRED)
    info = "the VMI's copy is that of the new claim"
    wait_until(lambda: moving.node.vmi().status.volume_status[0].persistent_volume_claim_info.claim_name == "new", info)  # type: ignore[union-attr]


def test_a_change_that_is_taken_back_leaves_nothing(moving: Moving) -> None:
    moving.wants("new")
    wait_until(lambda: moving.destinations() == ["new"], "the VMI says what its volume becomes")
    moving.wants("old")
    wait_until(lambda: moving.change() == ("False", "VolumesChangeCancellation"), "the VMI is told")
    wait_until(lambda: moving.recorded() == [], "nothing is incomplete")
    assert moving.destinations() == []
    assert not moving.needs("RestartRequired")


def test_a_change_that_is_taken_back_on_the_way_stays_named_until_the_guest_stays(moving: Moving) -> None:
    moving.wants("new")
    wait_until(lambda: moving.destinations() == ["new"], "the VMI says what its volume becomes")
    moving.begins()
    moving.wants("old")
    wait_until(lambda: moving.change() == ("False", "VolumesChangeCancellation"), "the VMI is told")
    assert (moving.destinations(), moving.recorded()) == (["new"], ["new"])
    failed = {
        "failed": True,
        "completed": True,
        "endTimestamp": rfc3339(datetime.now(UTC)),
        "failureReason": "canceled",
    }
    moving.patch_vmi({"status": {"migrationState": failed}})
    wait_until(lambda: moving.destinations() == [], "the VMI stays as it is")
    wait_until(lambda: moving.recorded() == [], "nothing is incomplete")


def test_a_destination_that_comes_later_is_found(moving: Moving) -> None:
    moving.wants("later")
    wait_until(lambda: moving.change() == ("False", "DestinationNotFound"), "the missing claim is told")
    assert (moving.destinations(), moving.recorded()) == ([], [])
    moving.has_claim("later")
    wait_until(lambda: moving.destinations() == ["later"], "the VMI says what its volume becomes")


def test_a_vm_whose_run_ends_on_the_way_waits_for_its_claims(moving: Moving) -> None:
    moving.wants("new")
    wait_until(lambda: moving.destinations() == ["new"], "the VMI says what its volume becomes")
    earlier = moving.node.vmi().metadata.uid
    moving.node.enters("Failed")
    wait_until(lambda: moving.needs(MANUAL_RECOVERY_REQUIRED), "the VM says that it cannot go on by itself")
    moving.node.removes(moving.source)
    wait_until(lambda: not moving.client.list(VirtualMachineInstance, moving.namespace), "the run is gone")
    wait_until(lambda: moving.vm().status.printable_status == "Stopped", "the VM has noticed")
    assert moving.recorded() == ["new"]
    assert not moving.client.list(VirtualMachineInstance, moving.namespace)
    moving.wants("old")

    def runs_anew() -> bool:
        return any(vmi.metadata.uid != earlier for vmi in moving.client.list(VirtualMachineInstance, moving.namespace))

    wait_until(runs_anew, "the VM starts on the claim that has its data")
    wait_until(lambda: not moving.needs(MANUAL_RECOVERY_REQUIRED) and moving.recorded() == [], "it is over")


def test_claims_that_were_made_to_leave_a_node_are_put_back_when_the_run_ends(moving: Moving) -> None:
    made = MergePatch({"metadata": {"annotations": {MOVED_FROM: "old"}}})
    moving.client.patch(PersistentVolumeClaim, moving.namespace, "new", made)
    moving.wants("new")
    wait_until(lambda: moving.destinations() == ["new"], "the VMI says what its volume becomes")
    moving.node.enters("Failed")
    wait_until(lambda: moving.names() == ["old"], "the VM names the claim that has its data")
    wait_until(lambda: moving.recorded() == [], "nothing is incomplete")
    assert not moving.needs(MANUAL_RECOVERY_REQUIRED)
