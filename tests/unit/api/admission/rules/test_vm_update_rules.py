"""What has to wait while a snapshot is taken or put back."""

from __future__ import annotations

import copy

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.builders import put, small_vmi, vm_of
from tests.support.reviews import request

DISK = "spec.template.spec.domain.devices.disks[0].serial"
VOLUME = "spec.template.spec.volumes[0].containerDisk.image"
MEMORY = "spec.template.spec.domain.memory.guest"
STRATEGY = "spec.runStrategy"
DISKS_WAIT = 'Cannot update vm disks or volumes until snapshot "s1" completes'
STATE_WAITS = 'Cannot update vm running state until snapshot "s1" completes'
STRATEGY_WAITS = 'Cannot update VM runStrategy until restore "r1" completes'


def refused(
    status: JsonObject, path: str, value: object, groups: list[str] | None = None, before: str = "Replacement"
) -> list[tuple[str, str, str]]:
    old = vm_of(small_vmi(), runStrategy="Halted", updateVolumesStrategy=before)
    old["status"] = status
    new = copy.deepcopy(old)
    put(new, path, value)
    judged = plan_verdict(request(new, old, groups=groups), Cluster("amd64"))
    return [(cause.field, cause.message, cause.reason) for cause in judged.causes]


@pytest.mark.parametrize(
    ("status", "path", "value", "text"),
    [
        ({"snapshotInProgress": "s1"}, DISK, "a", DISKS_WAIT),
        ({"snapshotInProgress": "s1"}, VOLUME, "other:1", DISKS_WAIT),
        ({"snapshotInProgress": "s1"}, STRATEGY, "Always", STATE_WAITS),
        ({"restoreInProgress": "r1"}, STRATEGY, "Always", STRATEGY_WAITS),
    ],
)
def test_a_change_waits_for_what_is_in_progress(status: JsonObject, path: str, value: object, text: str) -> None:
    assert refused(status, path, value) == [("spec", text, "FieldValueNotSupported")]


@pytest.mark.parametrize(
    ("status", "path", "value"),
    [
        ({"snapshotInProgress": "s1"}, MEMORY, "128Mi"),
        ({"snapshotInProgress": "s1"}, "metadata.labels", {"a": "b"}),
        ({"restoreInProgress": "r1"}, DISK, "a"),
        ({}, STRATEGY, "Always"),
        ({}, VOLUME, "other:1"),
    ],
)
def test_other_changes_do_not(status: JsonObject, path: str, value: object) -> None:
    assert refused(status, path, value) == []


CLAIMS = "spec.updateVolumesStrategy"
MOVING = {"volumeUpdateState": {"volumeMigrationState": {"migratedVolumes": [{"volumeName": "root"}]}}}


@pytest.mark.parametrize("strategy", ["Replacement", None])
def test_incomplete_claims_are_not_declared_complete_while_data_moves(strategy: str | None) -> None:
    (cause,) = refused(MOVING, CLAIMS, strategy, before="Migration")
    assert (cause[0], cause[2]) == (CLAIMS, "FieldValueNotSupported")
    assert "wait for the end, or put the original claims back" in cause[1]


@pytest.mark.parametrize(
    ("status", "before", "after"),
    [
        ({}, "Migration", "Replacement"),
        ({"volumeUpdateState": {"volumeMigrationState": {}}}, "Migration", None),
        (MOVING | {"conditions": [{"type": "ManualRecoveryRequired", "status": "True"}]}, "Migration", None),
        (MOVING, "Replacement", "Migration"),
        (MOVING, "Migration", "Migration"),
    ],
    ids=["nothing moves", "nothing is named", "the user was asked", "data is to move", "unchanged"],
)
def test_the_strategy_may_change_otherwise(status: JsonObject, before: str, after: str | None) -> None:
    assert refused(status, CLAIMS, after, before=before) == []


def test_whoever_takes_the_snapshot_changes_what_it_needs_to() -> None:
    assert refused({"restoreInProgress": "r1"}, STRATEGY, "Always", ["kvedge:controllers"]) == []
