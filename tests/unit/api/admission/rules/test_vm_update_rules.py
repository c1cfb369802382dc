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
    status: JsonObject, path: str, value: object, groups: list[str] | None = None
) -> list[tuple[str, str, str]]:
    old = vm_of(small_vmi(), runStrategy="Halted")
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


def test_whoever_takes_the_snapshot_changes_what_it_needs_to() -> None:
    assert refused({"restoreInProgress": "r1"}, STRATEGY, "Always", ["kvedge:controllers"]) == []
