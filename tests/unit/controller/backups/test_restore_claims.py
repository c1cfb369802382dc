# Tests: kvedge/controller/backups/restore_plan.py
"""A backup on its way back whose claims somebody deletes: it never becomes a VM with an empty disk."""

from __future__ import annotations

import pytest

from kvedge.resources.types.protection.backup_job import BackupOutcome
from tests.unit.controller.backups.backup_world import GIB, RESTORE_UID, World, a_record

ROOT = f"restore-{RESTORE_UID}-root"


@pytest.fixture
def world() -> World:
    """A restore whose worker has filled all disks, and whose VM is not there yet."""
    found = World()
    found.vm = None
    found.ask_restore()
    found.settle("restore")
    found.record = a_record()
    found.settle("restore")
    found.record = None
    found.end("restore", BackupOutcome(size=2 * GIB))
    return found


def check_failed(world: World) -> None:
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert ROOT in world.restore.status.message
    assert world.vm is None


def test_a_claim_that_is_gone_is_not_made_anew_once_it_was_filled(world: World) -> None:
    del world.claims[ROOT]
    check_failed(world)
    assert ROOT not in world.claims


def test_a_claim_that_came_in_place_of_the_filled_one_is_none(world: World) -> None:
    world.claims[ROOT].metadata.uid = "of another one"
    check_failed(world)


def test_a_claim_that_is_about_to_go_becomes_no_disk(world: World) -> None:
    world.claims[ROOT].metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    check_failed(world)


def test_a_worker_that_says_nothing_of_its_claims_is_not_believed(world: World) -> None:
    world.pods[f"restore-{RESTORE_UID}"].spec.containers[0].env.clear()
    check_failed(world)
