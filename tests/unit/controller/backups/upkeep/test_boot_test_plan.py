"""A backup is tried: restored, booted, judged, removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kvedge.controller.backups.upkeep.boot_test_plan import BootView, plan_boot_test, restore_name
from kvedge.controller.snapshots.snapshot_actions import Create, Delete, Patch, Told
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, patched, small_vmi

UID = "0f5c0000-0000-4000-8000-00000000000e"


class World:
    """One test."""

    def __init__(self, **spec: Any) -> None:
        self.now = NOW
        metadata = {"name": "t", "namespace": "default", "uid": UID}
        body = {"vmName": "web", "repositoryName": "usb", **spec}
        self.test = decode(BackupTest, {"metadata": metadata, "spec": body})
        self.restore: BackupRestore | None = None
        self.vmi: VirtualMachineInstance | None = None
        self.told: list[Told] = []

    def settle(self) -> None:
        for _ in range(8):
            plan = plan_boot_test(BootView(self.test, self.restore, self.vmi), self.now)
            if not plan.actions:
                return
            for action in plan.actions:
                match action:
                    case Create(BackupRestore() as item):
                        self.restore = item
                    case Delete(BackupRestore()):
                        self.restore = self.vmi = None
                    case Patch(BackupTest() as item, body, "status"):
                        self.test = decode(BackupTest, patched(encode(item), body))
                    case _:
                        raise AssertionError(f"no action that a test has: {action}")
            self.told += plan.told
        raise AssertionError(f"the plan does not settle: {plan}")

    def restored(self, phase: str = "Succeeded", message: str = "") -> None:
        assert self.restore is not None
        status = {"phase": phase, "message": message, "backupID": "b"}
        self.restore = decode(BackupRestore, {**encode(self.restore), "status": status})
        self.settle()

    def boots(self, phase: str, *conditions: dict[str, Any]) -> None:
        ran = [{"phase": "Running", "phaseTransitionTimestamp": rfc3339(self.now)}] if phase == "Running" else []
        status = {"phase": phase, "phaseTransitionTimestamps": ran, "conditions": list(conditions)}
        self.vmi = decode(VirtualMachineInstance, {**small_vmi(), "status": status})
        self.settle()

    @property
    def outcome(self) -> tuple[str, str]:
        return self.test.status.phase, self.test.status.message


def booting(**spec: Any) -> World:
    world = World(**spec)
    world.settle()
    world.restored()
    return world


def test_it_asks_for_a_vm_that_nobody_reaches_and_that_is_its_own() -> None:
    world = World(backupID="b", storageClassName="fast")
    world.settle()
    assert world.restore is not None
    spec = world.restore.spec
    assert (spec.isolated, spec.backup_id, spec.storage_class_name) == (True, "b", "fast")
    assert spec.target_name == world.restore.metadata.name == restore_name(world.test)
    assert len(spec.target_name) < 64
    owner = world.restore.metadata.controller_reference()
    assert owner is not None
    assert owner.uid == UID
    assert world.outcome[0] == "Restoring"


def test_a_guest_whose_agent_answers_has_passed_and_all_goes() -> None:
    world = booting()
    assert world.outcome == ("Booting", "the VM has not been started yet")
    world.boots("Scheduling")
    assert world.outcome[0] == "Booting"
    world.boots("Running", {"type": "AgentConnected", "status": "True"})
    assert world.outcome == ("Succeeded", "the guest has booted, and its agent answers")
    assert (world.test.status.agent_connected, world.test.status.backup_id) == (True, "b")
    assert world.restore is None
    assert [each.reason for each in world.told] == ["BackupTested"]


def test_a_guest_without_an_agent_has_to_run_for_a_while() -> None:
    world = booting(seconds=60)
    world.boots("Running")
    world.now += timedelta(seconds=59)
    world.settle()
    assert world.outcome[0] == "Booting"
    world.now += timedelta(seconds=1)
    world.settle()
    assert world.outcome[0] == "Succeeded"
    assert "no agent answers" in world.outcome[1]


def test_where_the_agent_is_required_running_is_not_enough() -> None:
    world = booting(seconds=60, requireAgent=True)
    world.boots("Running")
    world.now += timedelta(seconds=60)
    world.settle()
    assert world.outcome == ("Failed", "the guest has run for 60 s, and its agent does not answer")


@pytest.mark.parametrize(
    ("phase", "conditions", "words"),
    [
        ("Failed", [], "the guest has ended"),
        ("Succeeded", [], "the guest has ended"),
        ("Running", [{"type": "Paused", "status": "True", "message": "I/O error"}], "stands still: I/O error"),
    ],
)
def test_a_guest_that_ends_or_stands_still_has_failed(phase: str, conditions: list[dict[str, Any]], words: str) -> None:
    world = booting()
    world.boots(phase, *conditions)
    assert world.outcome[0] == "Failed"
    assert words in world.outcome[1]
    assert world.restore is None
    assert [each.type for each in world.told] == ["Warning"]


def test_a_backup_that_cannot_be_restored_has_failed() -> None:
    world = World()
    world.settle()
    world.restored("Failed", "a piece is damaged")
    assert world.outcome == ("Failed", "it cannot be restored: a piece is damaged")


def test_a_restore_that_somebody_deletes_is_not_made_anew() -> None:
    world = booting()
    world.restore = None
    world.settle()
    assert world.outcome == ("Failed", "its restore was deleted")


def test_a_restore_of_somebody_else_is_left_alone() -> None:
    world = World()
    world.restore = decode(BackupRestore, {"metadata": {"name": restore_name(world.test), "uid": "x"}})
    world.settle()
    assert world.outcome[0] == "Failed"
    assert world.restore is not None


def test_after_its_deadline_it_fails_with_what_it_waited_for() -> None:
    world = booting(deadline="10m")
    world.boots("Scheduling")
    world.now += timedelta(minutes=10)
    world.settle()
    assert world.outcome == ("Failed", "not complete within its deadline: the guest is Scheduling")
    assert world.restore is None
