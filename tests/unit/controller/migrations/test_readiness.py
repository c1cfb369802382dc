"""Whether a pending migration may begin, and what is told while it may not."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.migrations.migration_view import MigrationView, Told
from kvedge.controller.migrations.readiness import WAITS, explain_wait, is_ready_to_begin
from kvedge.resources.meta import Condition
from kvedge.resources.types.migrations import MIGRATION_JOB_UID
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod, a_vmi
from tests.support.migrating import TARGET, a_migrating_vmi, a_migration, a_target_pod

CAN = Condition(type="LiveMigratable", status="True")
SILENT = "the handler of node node-1 has not said whether the guest can move"


def a_guest(phase: Any = "Running", can: Condition | None = CAN) -> VirtualMachineInstance:
    vmi = a_vmi(phase)
    vmi.status.node_name = "node-1"
    vmi.status.conditions = [] if can is None else [can]
    return vmi


def view(vmi: VirtualMachineInstance | None, pod_phase: str = "Running", **more: Any) -> MigrationView:
    pods = () if vmi is None else [a_pod(vmi, pod_phase, "node-1")]
    return MigrationView(a_migration(), vmi, pods, version="v1.0", **more)


@pytest.mark.parametrize(
    ("vmi", "pod_phase"),
    [
        pytest.param(a_guest("Scheduled"), "Running", id="it does not run yet"),
        pytest.param(a_guest(can=None), "Running", id="nobody has said that it can"),
        pytest.param(a_guest(), "Succeeded", id="its launcher has ended"),
        pytest.param(a_migrating_vmi(migration_uid="another"), "Running", id="it moves already"),
    ],
)
def test_a_guest_that_cannot_leave_yet_is_waited_for(vmi, pod_phase):
    assert not is_ready_to_begin(view(vmi, pod_phase))


def test_a_guest_that_runs_and_can_move_waits_for_its_turn_alone():
    assert is_ready_to_begin(view(a_guest()))
    assert explain_wait(view(a_guest())) is None
    assert explain_wait(view(a_guest(), has_turn=False)) == Told(
        "Normal",
        WAITS,
        "other migrations are first: parallelMigrationsPerCluster is reached, or parallelOutboundMigrationsPerNode on"
        " node node-1",
    )


@pytest.mark.parametrize(
    ("versions", "kind", "expected"),
    [
        ({"node-1": "v1.0", "node-2": "v0.9"}, "Normal", SILENT),
        ({"node-1": "v0.9"}, "Warning", f"{SILENT}: it has version v0.9, this controller v1.0; upgrade the node"),
        ({"node-1": ""}, "Warning", f"{SILENT}: it tells no version, this controller v1.0; upgrade the node"),
        ({}, "Warning", f"{SILENT}: it tells no version, this controller v1.0; upgrade the node"),
    ],
)
def test_a_handler_that_says_nothing_is_named_with_its_version(versions, kind, expected):
    assert explain_wait(view(a_guest(can=None), versions=versions)) == Told(kind, WAITS, expected)


def test_a_vmi_that_does_not_run_and_the_rest_of_an_earlier_migration_are_named():
    found = explain_wait(view(a_guest("Scheduled")))
    assert found is not None
    assert found.message == "the VMI is Scheduled: its guest moves once it runs"
    vmi = a_guest()
    rest = a_target_pod(vmi)
    rest.metadata.labels[MIGRATION_JOB_UID] = "an-earlier-one"
    found = explain_wait(MigrationView(a_migration(), vmi, [a_pod(vmi, "Running", "node-1"), rest]))
    assert found is not None
    assert found.message == f"pod {TARGET} of an earlier migration has not ended yet"


def test_of_a_vmi_that_is_about_to_end_nothing_is_told():
    vmi = a_guest(can=None)
    vmi.metadata.deletion_timestamp = "2026-05-01T00:00:00Z"
    assert explain_wait(view(vmi)) is None
    assert explain_wait(view(None)) is None
    assert explain_wait(view(a_guest(), "Succeeded")) is None
