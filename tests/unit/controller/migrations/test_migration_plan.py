# Tests: kvedge/controller/migrations/failure_ladder.py, kvedge/controller/migrations/migration_view.py
# Tests: kvedge/controller/migrations/migration_status.py, kvedge/controller/vmi/resizing/guest_size.py
"""What is done about a migration: its way to the handlers, what a cancel does, why it has failed, and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.migrations.migration_plan import plan_migration
from kvedge.controller.migrations.migration_view import (
    CreateTarget,
    DeleteEnded,
    DeleteMigration,
    DeleteTarget,
    HandOver,
    MigrationPlan,
    MigrationView,
    PatchStatus,
    Release,
    RequestAbort,
)
from kvedge.controller.migrations.target_pod import target_pod
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import VMI_FINALIZER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MIGRATION_JOB_UID, MigrationState
from kvedge.resources.types.vmi import CpuTopology, MemoryStatus, PodRoom, VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, POD_UID, a_pod, a_vmi, patched
from tests.support.migrating import SOURCE, TARGET, a_migrating_vmi, a_migration, a_target_pod

MOMENT = rfc3339(NOW)
CAN = Condition(type="LiveMigratable", status="True")


def a_guest(phase: Any = "Running", can: Condition | None = CAN) -> VirtualMachineInstance:
    vmi = a_vmi(phase)
    vmi.status.active_pods = {POD_UID: "node-1"}
    vmi.status.conditions = [] if can is None else [can]
    return vmi


def handed_over(**state: Any) -> VirtualMachineInstance:
    vmi = a_migrating_vmi(**{"start_timestamp": None} | state)
    vmi.status.conditions = [CAN]
    return vmi


def source_pod(vmi: VirtualMachineInstance, phase: str = "Running") -> Pod:
    return a_pod(vmi, phase, "node-1")


def planned(migration: Any, vmi: VirtualMachineInstance | None, *pods: Pod, **view: Any) -> MigrationPlan:
    return plan_migration(MigrationView(migration, vmi, pods, **view), NOW)


def kinds(plan: MigrationPlan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def phase_of(plan: MigrationPlan) -> str:
    (written,) = [action.status for action in plan.actions if isinstance(action, PatchStatus)]
    assert written.phase_transition_timestamps[-1].phase == written.phase
    return written.phase


def told(plan: MigrationPlan) -> list[str]:
    return [each.message for each in plan.told]


def test_a_new_migration_is_pending():
    assert phase_of(planned(a_migration(""), a_guest())) == "Pending"


@pytest.mark.parametrize(
    ("vmi", "others"),
    [
        pytest.param(a_migrating_vmi(migration_uid="another"), [], id="the guest moves already"),
        pytest.param(a_guest(), [a_migration("Scheduling", name="other")], id="another one is under way"),
        pytest.param(a_guest(), [a_migration("", name="other", age=5)], id="another one was there before"),
    ],
)
def test_of_two_migrations_of_a_vmi_one_fails(vmi, others):
    plan = planned(a_migration(""), vmi, source_pod(vmi), others=others)
    assert phase_of(plan) == "Failed"
    assert told(plan) == ["VMI is not eligible for migration because another migration job is in progress."]


def test_the_first_of_two_migrations_goes_on():
    younger = a_migration("", name="other")
    younger.metadata.creation_timestamp = "2099-01-01T00:00:00Z"
    ended = [a_migration("Failed", name="a", age=9), a_migration("Succeeded", name="b", age=9)]
    assert phase_of(planned(a_migration(""), a_guest(), others=[younger, *ended])) == "Pending"


def test_a_pending_migration_gets_its_pod_when_it_has_its_turn():
    vmi = a_guest()
    assert planned(a_migration(), vmi, source_pod(vmi)).actions == (CreateTarget(),)
    waiting = planned(a_migration(), vmi, source_pod(vmi), has_turn=False)
    assert (kinds(waiting), waiting.again_after) == (["PatchStatus"], 5.0)
    assert phase_of(planned(a_migration(), vmi, source_pod(vmi), a_target_pod(vmi, "Pending", ""))) == "Scheduling"


def test_a_pending_migration_says_once_what_it_waits_for_and_nothing_more_when_it_begins():
    vmi, waiting = a_guest(), a_migration()
    plan = planned(waiting, vmi, source_pod(vmi), has_turn=False)
    (written,) = plan.actions
    assert isinstance(written, PatchStatus)
    found = condition(written.status.conditions, "migrationWaiting")
    assert found is not None
    assert (found.status, [found.message]) == ("True", told(plan))
    waiting.status = written.status
    again = planned(waiting, vmi, source_pod(vmi), has_turn=False)
    assert (again.actions, again.told, again.again_after) == ((), (), 5.0)
    assert planned(waiting, vmi, source_pod(vmi)).actions == (CreateTarget(),)
    for pods in ([a_target_pod(vmi, "Pending", "")], []):
        can = vmi if pods else a_guest(can=Condition(type="LiveMigratable", status="False"))
        begun = planned(waiting, can, source_pod(vmi), *pods).actions[-1]
        assert isinstance(begun, PatchStatus)
        assert (begun.status.phase, begun.status.conditions) == ("Scheduling" if pods else "Failed", [])


def test_what_was_waited_for_is_taken_back_when_something_passing_keeps_the_guest():
    vmi, waiting = a_guest(), a_migration()
    waiting.status.conditions = [Condition(type="migrationWaiting", status="True", message="before")]
    (written,) = planned(waiting, vmi, source_pod(vmi, "Succeeded")).actions
    assert isinstance(written, PatchStatus)
    assert written.status.conditions == []
    waiting.status = written.status
    assert planned(waiting, vmi, source_pod(vmi, "Succeeded")) == MigrationPlan()


def test_a_guest_that_cannot_move_fails_its_migration_with_the_reason():
    vmi = a_guest(can=Condition(type="LiveMigratable", status="False", reason="HostDevice", message="it has a card"))
    plan = planned(a_migration(), vmi, source_pod(vmi))
    assert phase_of(plan) == "Failed"
    assert told(plan) == ["Cannot migrate VMI, Reason: HostDevice, Message: it has a card"]


def test_the_rest_of_an_earlier_migration_is_waited_for():
    vmi = a_guest()
    rest = a_target_pod(vmi)
    rest.metadata.labels[MIGRATION_JOB_UID] = "an-earlier-one"
    plan = planned(a_migration(), vmi, source_pod(vmi), rest)
    assert (kinds(plan), plan.again_after) == (["PatchStatus"], 1.0)
    gone = a_target_pod(vmi, "Failed")
    gone.metadata.labels[MIGRATION_JOB_UID] = "an-earlier-one"
    assert planned(a_migration(), vmi, source_pod(vmi), gone).actions == (CreateTarget(),)


def test_a_pod_that_runs_is_handed_over_with_all_that_both_handlers_need():
    vmi = a_guest()
    pods = [source_pod(vmi), a_target_pod(vmi)]
    assert phase_of(planned(a_migration("Scheduling"), vmi, *pods)) == "Scheduled"
    assert planned(a_migration("Scheduled"), vmi, *pods).actions == (
        HandOver(
            MigrationState(
                migration_uid=a_migration().metadata.uid,
                source_node="node-1",
                target_node="node-2",
                source_pod=SOURCE,
                target_pod=TARGET,
            ),
            pods[1],
        ),
    )


def test_nothing_is_handed_over_when_the_guest_is_about_to_end():
    vmi = a_guest()
    ending = source_pod(vmi)
    ending.metadata.deletion_timestamp = MOMENT
    assert planned(a_migration("Scheduled"), vmi, ending, a_target_pod(vmi)).actions == ()
    vmi.metadata.deletion_timestamp = MOMENT
    assert planned(a_migration("Scheduled"), vmi, source_pod(vmi), a_target_pod(vmi)).actions == ()


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled"])
@pytest.mark.parametrize(("found", "said"), [("v0.9", "has version v0.9"), ("", "tells no version")])
def test_a_guest_does_not_go_to_a_handler_of_another_version(phase, found, said):
    vmi = a_guest()
    versions = {"node-1": found, "node-2": found}
    plan = planned(a_migration(phase), vmi, source_pod(vmi), a_target_pod(vmi), version="v1.0", versions=versions)
    assert kinds(plan) == ["ConfirmFree", "PatchStatus", "DeleteTarget"]
    assert phase_of(plan) == "Failed"
    assert told(plan) == [
        f"node node-2: its handler {said}, this controller v1.0: guests move to nodes of the controller's version"
        " alone; upgrade the node"
    ]


def with_spec(spec: dict[str, Any]) -> VirtualMachineInstance:
    return decode(VirtualMachineInstance, patched(encode(a_guest()), {"spec": spec}))


@pytest.mark.parametrize(
    ("vmi", "expected"),
    [
        pytest.param(
            with_spec(
                {
                    "networks": [{"name": "lan", "multus": {"networkName": "lan"}}],
                    "domain": {"devices": {"interfaces": [{"name": "lan", "bridge": {}}]}},
                }
            ),
            "the VMI's networks have changed while the target pod started: migrate again",
            id="network",
        ),
        pytest.param(
            with_spec({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "new"}}]}),
            "the claims of the VMI's volumes have changed while the target pod started: PVC new is not there",
            id="claim",
        ),
        pytest.param(
            a_guest(can=Condition(type="LiveMigratable", status="False", reason="HostDevice", message="a card")),
            "Cannot migrate VMI, Reason: HostDevice, Message: a card",
            id="anything else",
        ),
    ],
)
def test_a_guest_that_has_changed_since_its_target_was_made_does_not_move_there(vmi, expected):
    target = a_target_pod(a_guest())
    plan = planned(a_migration("Scheduled"), vmi, source_pod(a_guest()), target)
    assert kinds(plan) == ["ConfirmFree", "PatchStatus", "DeleteTarget"]
    assert phase_of(plan) == "Failed"
    assert told(plan) == [expected]


def a_growing_guest(sockets: int, memory: str, requested: str, room: PodRoom | None = None) -> VirtualMachineInstance:
    """One that has two vCPUs and as much memory as it was asked to have, and is to have others."""
    vmi = with_spec(
        {"domain": {"cpu": {"sockets": sockets, "cores": 1}, "memory": {"guest": memory, "maxGuest": "8Gi"}}}
    )
    vmi.status.current_cpu_topology = CpuTopology(sockets=2, cores=1, threads=1)
    vmi.status.memory = MemoryStatus(guest_at_boot="1Gi", guest_current=requested, guest_requested=requested)
    vmi.status.pod_room = room
    return vmi


@pytest.mark.parametrize(
    ("made_for", "now", "moves"),
    [
        pytest.param(a_growing_guest(2, "1Gi", "1Gi"), a_growing_guest(2, "1Gi", "1Gi"), True, id="as it was"),
        pytest.param(a_growing_guest(1, "1Gi", "1Gi"), a_growing_guest(1, "1Gi", "1Gi"), True, id="more than it is to"),
        pytest.param(a_growing_guest(2, "1Gi", "1Gi"), a_growing_guest(4, "4Gi", "1Gi"), True, id="is to grow"),
        pytest.param(a_growing_guest(2, "1Gi", "1Gi"), a_growing_guest(2, "4Gi", "4Gi"), False, id="has more memory"),
        pytest.param(
            a_growing_guest(2, "1Gi", "1Gi"),
            a_growing_guest(4, "1Gi", "1Gi", PodRoom(node="node-1", vcpus=4, memory="1Gi")),
            False,
            id="may plug CPUs in",
        ),
        pytest.param(a_growing_guest(2, "1Gi", "4Gi"), a_growing_guest(2, "1Gi", "4Gi"), True, id="gives memory back"),
    ],
)
def test_a_guest_comes_to_no_pod_that_was_made_for_a_smaller_one(made_for, now, moves):
    now.status.node_name = made_for.status.node_name = "node-1"
    target = a_target_pod(made_for)
    target.metadata.annotations |= target_pod(
        made_for, a_migration(), source_pod(made_for), CONFIG, {}
    ).metadata.annotations
    plan = planned(a_migration("Scheduled"), now, source_pod(now), target)
    assert ("HandOver" in kinds(plan)) == moves
    if not moves:
        assert kinds(plan) == ["ConfirmFree", "PatchStatus", "DeleteTarget"]
        assert "the guest has grown while the target pod started, to " in told(plan)[0]


def test_a_guest_that_has_changed_comes_to_no_pod_of_an_earlier_controller():
    vmi = a_growing_guest(2, "1Gi", "1Gi", PodRoom(node="node-1", vcpus=2, memory="1Gi"))
    plan = planned(a_migration("Scheduled"), vmi, source_pod(vmi), a_target_pod(vmi))
    assert kinds(plan) == ["ConfirmFree", "PatchStatus", "DeleteTarget"]


def test_a_target_on_the_guests_own_node_is_refused():
    vmi = a_guest()
    plan = planned(a_migration("Scheduled"), vmi, source_pod(vmi), a_target_pod(vmi, node="node-1"))
    assert phase_of(plan) == "Failed"
    assert kinds(plan) == ["ConfirmFree", "PatchStatus", "DeleteTarget"]


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ({}, "PreparingTarget"),
        ({"target_node_address": "10.0.0.2:1"}, "TargetReady"),
        ({"target_node_address": "10.0.0.2:1", "start_timestamp": MOMENT}, "Running"),
        ({"start_timestamp": MOMENT, "completed": True, "end_timestamp": MOMENT}, "Succeeded"),
    ],
)
def test_the_phase_follows_what_the_handlers_write(state, phase):
    vmi = handed_over(**state)
    plan = planned(a_migration("Scheduled"), vmi, source_pod(vmi), a_target_pod(vmi))
    assert phase_of(plan) == phase
    assert plan.actions == planned(a_migration("Scheduled"), vmi, source_pod(vmi), a_target_pod(vmi)).actions
    (written,) = [action.status for action in plan.actions if isinstance(action, PatchStatus)]
    assert (written.migration_state is not None) is (phase == "Succeeded")
    again = planned(a_migration(phase), vmi, source_pod(vmi), a_target_pod(vmi))
    assert not any(isinstance(action, PatchStatus) for action in again.actions)


def only_said_to_have_moved():
    vmi = handed_over(completed=True)
    vmi.status.node_name = "node-1"
    return vmi


def test_a_migration_that_succeeded_keeps_what_its_vmi_says_of_it():
    vmi = handed_over(completed=True, end_timestamp=MOMENT)
    plan = planned(a_migration("Running"), vmi, source_pod(vmi, "Succeeded"), a_target_pod(vmi))
    (written,) = plan.actions
    assert isinstance(written, PatchStatus)
    assert written.status.migration_state == vmi.status.migration_state
    assert told(plan) == ["Source node reported migration succeeded"]
    # Even when the guest has ended since.
    vmi.status.phase = "Succeeded"
    assert phase_of(planned(a_migration("Running"), vmi)) == "Succeeded"


@pytest.mark.parametrize("phase", ["Pending", "Scheduling", "Scheduled"])
def test_a_cancel_before_the_hand_over_ends_the_pod_and_the_migration(phase):
    vmi = a_guest()
    plan = planned(a_migration(phase, deleting=True), vmi, source_pod(vmi), a_target_pod(vmi))
    assert kinds(plan) == ["ConfirmFree", "PatchStatus", "DeleteTarget"]
    assert phase_of(plan) == "Failed"
    assert told(plan) == [
        "Migration failed due to being canceled",
        f"migration canceled and pod default/{TARGET} is deleted",
    ]
    status = plan.actions[1].status  # type: ignore[union-attr]
    assert condition(status.conditions, "migrationAbortRequested") is not None
    assert kinds(planned(a_migration("Pending", deleting=True), vmi, source_pod(vmi))) == ["ConfirmFree", "PatchStatus"]


@pytest.mark.parametrize("phase", ["PreparingTarget", "TargetReady", "Running"])
def test_a_cancel_after_the_hand_over_is_asked_of_the_source_once(phase):
    state = {"target_node_address": "" if phase == "PreparingTarget" else "10.0.0.2:1"}
    if phase == "Running":
        state["start_timestamp"] = MOMENT
    vmi = handed_over(**state)
    plan = planned(a_migration(phase, deleting=True), vmi, source_pod(vmi), a_target_pod(vmi))
    assert kinds(plan) == ["RequestAbort", "PatchStatus"]
    (written,) = [action.status for action in plan.actions if isinstance(action, PatchStatus)]
    assert written.phase == phase
    assert condition(written.conditions, "migrationAbortRequested") is not None
    asked = handed_over(**state, abort_requested=True)
    assert planned(a_migration(phase, deleting=True), asked, source_pod(vmi), a_target_pod(vmi)) == MigrationPlan()


def test_a_target_that_ends_after_the_hand_over_has_the_source_asked_and_decides_nothing():
    vmi = handed_over()
    plan = planned(a_migration("PreparingTarget"), vmi, source_pod(vmi), a_target_pod(vmi, "Failed"))
    assert plan.actions == (RequestAbort(),)
    assert told(plan) == ["Migration failed because target pod shutdown during migration"]
    missing = planned(a_migration("PreparingTarget"), vmi, source_pod(vmi))
    assert missing.actions == (RequestAbort(),)
    assert told(missing) == ["Migration target pod was removed during active migration."]


def test_a_target_that_does_not_get_ready_has_the_source_asked():
    vmi = handed_over()
    waiting = planned(a_migration("PreparingTarget", age=60), vmi, source_pod(vmi), a_target_pod(vmi))
    assert (waiting.actions, waiting.again_after) == ((), 300.0)
    plan = planned(a_migration("PreparingTarget", age=360), vmi, source_pod(vmi), a_target_pod(vmi))
    assert plan.actions == (RequestAbort(),)
    assert told(plan) == ["node node-2: nothing was ready for the guest within 360 s"]


def test_a_source_that_ends_after_the_hand_over_decides_nothing():
    vmi = handed_over(start_timestamp=MOMENT)
    plan = planned(a_migration("Running"), vmi, source_pod(vmi, "Succeeded"), a_target_pod(vmi))
    assert plan == MigrationPlan()
    assert planned(a_migration("Running"), vmi, a_target_pod(vmi)) == MigrationPlan()


def ended_guest() -> VirtualMachineInstance:
    vmi = a_guest()
    vmi.status.phase = "Succeeded"
    return vmi


@pytest.mark.parametrize(
    ("phase", "vmi", "expected"),
    [
        pytest.param("Running", None, "Migration failed because vmi does not exist.", id="no VMI"),
        pytest.param("Pending", ended_guest(), "Migration failed vmi shutdown during migration.", id="VMI over"),
        pytest.param(
            "PreparingTarget",
            a_guest(),
            "VMI's migration state was cleared during the active migration.",
            id="cleared",
        ),
        pytest.param(
            "Running",
            a_migrating_vmi(migration_uid="another"),
            "VMI's migration state was taken over by another migration job during active migration.",
            id="taken over",
        ),
        pytest.param(
            "Running", handed_over(failed=True, completed=True), "source node reported migration failed", id="failed"
        ),
        pytest.param(
            "Running",
            handed_over(failed=True, completed=True, failure_reason="no route"),
            "source node reported migration failed: no route",
            id="failed with a reason",
        ),
        pytest.param(
            "Running",
            only_said_to_have_moved(),
            "VMI's migration state says that its migration has completed, but the VMI is on node node-1.",
            id="completed without a move",
        ),
        pytest.param(
            "Scheduling",
            a_guest(),
            "Migration target pod was removed during active migration.",
            id="the Pod is gone",
        ),
    ],
)
def test_why_a_migration_has_failed(phase, vmi, expected):
    pods = [] if vmi is None else [source_pod(vmi)]
    plan = planned(a_migration(phase), vmi, *pods)
    assert phase_of(plan) == "Failed"
    assert told(plan) == [expected]


def test_a_target_that_ends_before_the_hand_over_fails_the_migration():
    vmi = a_guest()
    plan = planned(a_migration("Scheduling"), vmi, source_pod(vmi), a_target_pod(vmi, "Failed"))
    assert phase_of(plan) == "Failed"
    assert told(plan) == ["Migration failed because target pod shutdown during migration"]


def test_a_migration_that_has_ended_lets_its_finalizer_go():
    vmi = a_guest()
    assert planned(a_migration("Succeeded"), vmi, source_pod(vmi)).actions == (Release(),)
    done = a_migration("Failed")
    done.metadata.finalizers = [VMI_FINALIZER]
    assert planned(done, vmi, source_pod(vmi)) == MigrationPlan()


def test_the_pod_of_a_failed_migration_that_was_not_handed_over_is_ended():
    vmi = a_guest()
    target = a_target_pod(vmi)
    assert planned(a_migration("Failed"), vmi, source_pod(vmi), target).actions == (DeleteTarget(target), Release())
    # The launcher's Pod of today came by an earlier migration.
    moved = a_migrating_vmi(migration_uid="another", source_pod=TARGET, target_pod="third")
    assert planned(a_migration("Failed"), moved, target).actions == (Release(),)


def test_a_migration_goes_with_its_vmi():
    assert planned(a_migration("Failed"), None).actions == (Release(), DeleteMigration())
    going = a_migration("Failed", deleting=True)
    assert planned(going, None).actions == (Release(),)


def test_an_old_migration_goes_with_the_pod_that_was_kept_for_its_logs():
    vmi = a_guest()
    newer = [a_migration("Failed", name=f"newer-{number}") for number in range(5)]
    old = a_migration("Failed", age=60)
    left = a_target_pod(vmi, "Failed")
    plan = planned(old, vmi, source_pod(vmi), left, others=newer)
    assert plan.actions == (Release(), DeleteEnded(left), DeleteMigration())
    moved = a_migrating_vmi(completed=True)
    old = a_migration("Succeeded", age=60)
    old.status.migration_state = moved.status.migration_state
    source = source_pod(moved, "Succeeded")
    plan = planned(old, moved, source, a_target_pod(moved), others=newer)
    assert plan.actions == (Release(), DeleteEnded(source), DeleteMigration())
