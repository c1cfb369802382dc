# Tests: kvedge/controller/clones/clone_report.py, kvedge/controller/clones/clone_view.py
"""What is done about a clone, step by step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.controller.clones.clone_plan import plan_clone, target_of
from kvedge.controller.clones.clone_view import CloneView
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, SnapshotPlan
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import condition, owner_reference
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, a_claim, a_vm, patched

UID = "0f5c0000-0000-4000-8000-000000000009"
SNAPSHOT, RESTORE = f"tmp-snapshot-{UID}", f"tmp-restore-{UID}"
VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine"}
OF_SNAPSHOT = {"apiGroup": "snapshot.kubevirt.io", "kind": "VirtualMachineSnapshot", "name": "before"}


class World:
    """A clone, and what there is around it; what its plan says is done to these."""

    def __init__(self, **spec: Any) -> None:
        body = {"source": {**VM, "name": "web"}, "target": {**VM, "name": "twin"}, **spec}
        document = {"metadata": {"name": "c", "namespace": "default", "uid": UID}, "spec": body}
        self.view = CloneView(decode(VirtualMachineClone, document), source=a_vm())
        self.told: list[tuple[str, str]] = []
        self.deleted: list[str] = []

    @property
    def clone(self) -> VirtualMachineClone:
        return self.view.clone

    def set(self, **parts: Any) -> None:
        self.view = CloneView(**{name: getattr(self.view, name) for name in CloneView.__struct_fields__} | parts)

    def settle(self) -> SnapshotPlan:
        for _ in range(10):
            plan = plan_clone(self.view, NOW)
            if not plan.actions:
                return plan
            for action in plan.actions:
                match action:
                    case Create(VirtualMachineSnapshot() as item):
                        self.set(snapshot=item)
                    case Create(VirtualMachineRestore() as item):
                        self.set(restore=item)
                    case Patch(item, body):
                        self.set(clone=decode(VirtualMachineClone, patched(encode(item), body)))
                    case Delete(item):
                        self.deleted.append(item.metadata.name)
                        if item is self.clone:
                            return plan
                        self.set(**{"snapshot" if isinstance(item, VirtualMachineSnapshot) else "restore": None})
            self.told += [(told.type, told.reason) for told in plan.told]
        raise AssertionError("the plan does not settle")

    def reason(self, type_: str = "Ready") -> str:
        found = condition(self.clone.status.conditions, type_)
        return "" if found is None else f"{found.status} {found.reason}"

    def take_snapshot(self, *held: str) -> None:
        """Play the loop of snapshots."""
        snapshot = self.view.snapshot or decode(
            VirtualMachineSnapshot, {"metadata": {"name": "before", "namespace": "default"}}
        )
        volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}]
        interfaces = [{"name": "default", "macAddress": "02:00:00:00:00:01"}]
        domain = {"devices": {"interfaces": interfaces}}
        vm = {"metadata": {"name": "web"}, "spec": {"template": {"spec": {"domain": domain, "volumes": volumes}}}}
        backups = [{"volumeName": name, "volumeSnapshotName": f"copy-{name}"} for name in held]
        content = {"metadata": {"name": "k"}, "spec": {"source": {"virtualMachine": vm}, "volumeBackups": backups}}
        snapshot.status.ready_to_use, snapshot.status.phase = True, "Succeeded"
        self.set(snapshot=snapshot, content=decode(VirtualMachineSnapshotContent, content))

    def restore(self) -> VirtualMachineRestore:
        assert self.view.restore is not None
        return self.view.restore

    def complete_restore(self) -> None:
        restores = [{"volumeName": "root", "persistentVolumeClaim": "twin-root"}]
        document = encode(self.restore())
        document["status"] = {"complete": True, "restores": restores}
        target = a_vm()
        target.metadata.name = "twin"
        self.set(restore=decode(VirtualMachineRestore, document), target=target)


def test_a_vm_becomes_another_one_and_what_it_was_made_with_goes_when_its_claims_are_bound() -> None:
    world = World()
    world.settle()
    assert world.clone.status.phase == "SnapshotInProgress"
    assert world.clone.status.snapshot_name == SNAPSHOT
    made = world.view.snapshot
    assert made is not None
    assert (made.metadata.name, made.spec.source.name) == (SNAPSHOT, "web")
    assert made.metadata.owner_references == [owner_reference(world.clone)]
    assert world.reason() == "False Still processing"
    world.take_snapshot("root")
    world.settle()
    assert world.clone.status.phase == "RestoreInProgress"
    spec = world.restore().spec
    assert world.restore().metadata.name == world.clone.status.restore_name == RESTORE
    assert (spec.target.name, spec.virtual_machine_snapshot_name) == ("twin", SNAPSHOT)
    assert '"op":"remove"' in spec.patches[0]
    world.complete_restore()
    plan = world.settle()
    assert (world.clone.status.phase, world.clone.status.target_name) == ("Succeeded", "twin")
    assert world.clone.status.creation_time == rfc3339(NOW)
    assert (world.reason("Progressing"), world.reason()) == ("False Ready", "True Ready")
    # The claim is not bound.
    assert (world.deleted, plan.again_after) == ([], 5.0)
    world.set(claims={"twin-root": a_claim("twin-root", "Pending")})
    world.settle()
    assert world.deleted == []
    world.set(claims={"twin-root": a_claim("twin-root")})
    world.settle()
    assert world.deleted == [RESTORE, SNAPSHOT]
    assert (world.clone.status.snapshot_name, world.clone.status.restore_name) == (None, None)
    assert [reason for _, reason in world.told] == [
        "SnapshotCreated", "SnapshotReady", "RestoreCreated", "RestoreReady", "TargetVMCreated", "PVCBound",
    ]  # fmt: skip


def test_it_goes_with_its_vm() -> None:
    world = World()
    world.settle()
    world.take_snapshot("root")
    world.settle()
    world.complete_restore()
    world.settle()
    world.set(target=None)
    world.settle()
    assert world.deleted == ["c"]


@pytest.mark.parametrize("spec", [{}, {"source": OF_SNAPSHOT}], ids=["a VM", "a snapshot"])
def test_it_waits_for_its_source(spec: Any) -> None:
    world = World(**spec)
    world.set(source=None)
    world.settle()
    assert world.clone.status.phase == ""
    assert world.reason("Progressing") == "False Pending"
    assert world.reason().startswith("False Source doesnt exist")
    assert world.told == [("Normal", "SourceDoesNotExist")]
    # It is told once.
    world.settle()
    assert len(world.told) == 1
    world.set(source=a_vm())
    if spec:
        world.take_snapshot("root")
    world.settle()
    assert world.clone.status.phase in ("SnapshotInProgress", "RestoreInProgress")


def test_a_snapshot_that_somebody_took_stays() -> None:
    world = World(source=OF_SNAPSHOT, volumeNamePolicy="PrefixTargetName")
    world.take_snapshot("root")
    world.settle()
    assert world.restore().spec.virtual_machine_snapshot_name == "before"
    assert world.restore().spec.volume_restore_policy == "PrefixTargetName"
    assert world.clone.status.snapshot_name is None
    world.complete_restore()
    world.set(claims={"twin-root": a_claim("twin-root")})
    world.settle()
    assert world.deleted == [RESTORE]


def fail_snapshot(world: World) -> None:
    assert world.view.snapshot is not None
    conditions = [{"type": "Failure", "status": "True", "reason": "snapshot deadline exceeded"}]
    document = encode(world.view.snapshot)
    document["status"] = {"phase": "Failed", "conditions": conditions}
    world.set(snapshot=decode(VirtualMachineSnapshot, document))


def fail_restore(world: World) -> None:
    world.take_snapshot("root")
    world.settle()
    document = encode(world.restore())
    document["status"] = {"conditions": [{"type": "Failure", "status": "True", "reason": "copy failed"}]}
    world.set(restore=decode(VirtualMachineRestore, document))


def refuse_restore(world: World) -> None:
    world.take_snapshot("root")
    world.set(refusal="no room")


def lose_copies(world: World) -> None:
    assert world.view.snapshot is not None
    document = encode(world.view.snapshot)
    document["status"] = {
        "phase": "Succeeded",
        "readyToUse": False,
        "error": {"message": "VolumeSnapshots (a) missing"},
    }
    world.set(snapshot=decode(VirtualMachineSnapshot, document))


def take_by_another(world: World) -> None:
    assert world.view.snapshot is not None
    world.set(snapshot=msgspec.structs.replace(world.view.snapshot, metadata=a_vm().metadata))


@pytest.mark.parametrize(
    ("play", "why", "event"),
    [
        pytest.param(fail_snapshot, "snapshot deadline exceeded", "SnapshotContentInvalid", id="failed snapshot"),
        pytest.param(lambda world: world.set(snapshot=None), "anymore", "SnapshotDeleted", id="lost snapshot"),
        pytest.param(
            lambda world: world.take_snapshot(), "root is not backed up", "SnapshotContentInvalid", id="holes"
        ),
        pytest.param(lose_copies, "(a) missing", "SnapshotContentInvalid", id="lost copies"),
        pytest.param(take_by_another, "not the clone's own", "SnapshotContentInvalid", id="another one's snapshot"),
        pytest.param(fail_restore, "copy failed", "RestoreCreationFailed", id="failed restore"),
        pytest.param(refuse_restore, "no room", "RestoreCreationFailed", id="refused restore"),
    ],
)
def test_it_fails_with_the_reason_and_leaves_nothing(play: Any, why: str, event: str) -> None:
    world = World()
    world.settle()
    play(world)
    is_own = world.view.snapshot is not None and world.view.snapshot.metadata.name == SNAPSHOT
    world.settle()
    assert world.clone.status.phase == "Failed"
    assert why in world.reason()
    assert world.reason("Progressing") == "False Failed"
    assert world.told[-1] == ("Warning", event)
    assert (SNAPSHOT in world.deleted) == is_own
    assert world.clone.status.snapshot_name is None


def test_what_its_snapshot_waits_for_is_told() -> None:
    world = World()
    world.settle()
    document = encode(world.view.snapshot)
    words = "Source not locked source is running"
    document["status"] = {"conditions": [{"type": "Progressing", "status": "False", "reason": words}]}
    world.set(snapshot=decode(VirtualMachineSnapshot, document))
    world.settle()
    found = condition(world.clone.status.conditions, "Progressing")
    assert found is not None
    assert words in found.message


def test_a_clone_that_goes_does_nothing_more() -> None:
    world = World()
    world.clone.metadata.deletion_timestamp = rfc3339(NOW)
    assert plan_clone(world.view, NOW) == SnapshotPlan()


def test_a_target_that_admission_has_not_named_has_one_name_for_good() -> None:
    world = World()
    world.clone.spec.target = None
    assert target_of(world.clone) == target_of(world.clone) == "clone-web-0f5c0"


def test_a_vm_without_disks_needs_no_claims() -> None:
    world = World()
    world.settle()
    world.take_snapshot()
    assert world.view.content is not None
    assert world.view.content.spec.source.virtual_machine is not None
    world.view.content.spec.source.virtual_machine["spec"]["template"]["spec"]["volumes"] = []
    world.settle()
    document = encode(world.restore())
    document["status"] = {"complete": True}
    world.set(
        restore=decode(VirtualMachineRestore, document), target=decode(VirtualMachine, {"metadata": {"name": "x"}})
    )
    world.settle()
    assert world.clone.status.phase == "Succeeded"
    assert world.deleted == [RESTORE, SNAPSHOT]
