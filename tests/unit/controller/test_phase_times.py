"""Changes of phases are timed by the moments in the status, and what says no moment is not counted."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.phase_times import time_migration, time_vmi
from kvedge.kube.figures.vmi_figures import BETWEEN, FROM_CREATION, FROM_DELETION, MIGRATION, Transition
from kvedge.resources.codec import decode
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance


def at(second: int) -> str:
    return f"2026-01-02T03:04:{second:02d}Z"


def status(phase: str, **entered: int) -> dict[str, Any]:
    entries = [{"phase": name, "phaseTransitionTimestamp": at(second)} for name, second in entered.items()]
    return {"phase": phase, "phaseTransitionTimestamps": entries}


def vmi(phase: str, deleted: int | None = None, **entered: int) -> VirtualMachineInstance:
    meta = {"name": "web", "namespace": "shop", "creationTimestamp": at(1)}
    if deleted is not None:
        meta["deletionTimestamp"] = at(deleted)
    return decode(
        VirtualMachineInstance, {"metadata": meta, "spec": {"domain": {}}, "status": status(phase, **entered)}
    )


def migration(phase: str, **entered: int) -> VirtualMachineInstanceMigration:
    meta = {"name": "m", "namespace": "shop", "creationTimestamp": at(1)}
    return decode(
        VirtualMachineInstanceMigration,
        {"metadata": meta, "spec": {"vmiName": "web"}, "status": status(phase, **entered)},
    )


def test_a_phase_is_timed_from_the_one_before_and_from_the_start() -> None:
    old, new = vmi("Scheduling", Scheduling=3), vmi("Running", Scheduling=3, Running=10)
    assert list(time_vmi(old, new)) == [
        (Transition(BETWEEN, "Running", "Scheduling"), 7.0),
        (Transition(FROM_CREATION, "Running"), 9.0),
    ]


def test_the_first_phase_is_timed_from_the_creation() -> None:
    assert list(time_vmi(vmi(""), vmi("Pending", Pending=2))) == [
        (Transition(BETWEEN, "Pending", ""), 1.0),
        (Transition(FROM_CREATION, "Pending"), 1.0),
    ]


def test_an_end_that_was_ordered_is_timed_from_the_order() -> None:
    old = vmi("Running", deleted=20, Running=10)
    found = list(time_vmi(old, vmi("Succeeded", deleted=20, Running=10, Succeeded=25)))
    assert (Transition(FROM_DELETION, "Succeeded"), 5.0) in found
    by_itself = list(time_vmi(vmi("Running", Running=10), vmi("Failed", Running=10, Failed=12)))
    assert FROM_DELETION not in {transition.kind for transition, _ in by_itself}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, vmi("Running", Running=3)),
        (vmi("Running", Running=3), None),
        (vmi("Running", Running=3), vmi("Running", Running=3)),
        (vmi("Running"), vmi("Succeeded")),
    ],
    ids=["was not seen before", "is gone", "no change", "no moments"],
)
def test_what_says_nothing_of_a_change_is_not_counted(
    old: VirtualMachineInstance | None, new: VirtualMachineInstance | None
) -> None:
    assert list(time_vmi(old, new)) == []


def test_clocks_that_differ_make_no_time_negative() -> None:
    found = list(time_vmi(vmi("Scheduled", Scheduled=9), vmi("Running", Scheduled=9, Running=8)))
    assert found[0] == (Transition(BETWEEN, "Running", "Scheduled"), 0.0)


def test_a_migration_is_timed_from_its_creation() -> None:
    found = list(time_migration(migration("Pending", Pending=2), migration("Succeeded", Pending=2, Succeeded=31)))
    assert found == [(Transition(MIGRATION, "Succeeded"), 30.0)]
    assert list(time_migration(None, migration("Succeeded", Succeeded=3))) == []
