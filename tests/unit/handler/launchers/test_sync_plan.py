"""What the handler does next for a VMI, from what it sees."""

from __future__ import annotations

import pytest

from kvedge.handler.launchers.sync_plan import (
    CONNECT_SECONDS,
    RESOLVER_SECONDS,
    SILENT_SECONDS,
    STARTING_SECONDS,
    UNRESPONSIVE_SECONDS,
    LauncherView,
    Step,
    plan_sync,
)
from kvedge.resources.phases import Phase
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_with

NODE = "edge-1"


def vmi(phase: Phase = "Scheduled", deleted: str | None = None, **spec: object) -> VirtualMachineInstance:
    return vmi_with(spec, {"phase": phase, "nodeName": NODE}, uid="u1", deletionTimestamp=deleted)


def ending(phase: Phase, **spec: object) -> VirtualMachineInstance:
    """One that was deleted by another machine, whose clock is years behind."""
    return vmi(phase, "2019-05-01T12:00:00Z", **spec)


def launcher(state: int, reason: int = 0, **more: object) -> LauncherView:
    status = pb.DomainStatus(state=state, reason=reason)  # type: ignore[arg-type]
    return LauncherView(connected=True, status=status, **more)  # type: ignore[arg-type]


def test_a_vmi_that_is_gone_is_forgotten() -> None:
    assert plan_sync(None, NODE, LauncherView()).steps == (Step.FORGET,)


def test_a_vmi_of_another_node_is_never_touched() -> None:
    assert plan_sync(vmi(), "edge-2", launcher(pb.DOMAIN_STATE_RUNNING)).steps == (Step.FORGET,)


def test_a_vmi_that_the_controller_still_owns_is_left_alone() -> None:
    plan = plan_sync(vmi("Scheduling"), NODE, LauncherView())
    assert (plan.steps, plan.phase) == ((), "Scheduling")


def test_a_scheduled_vmi_waits_for_its_launcher() -> None:
    plan = plan_sync(vmi(), NODE, LauncherView())
    assert plan.steps == (Step.CONNECT,)
    assert plan.again is not None


def test_a_launcher_without_a_domain_is_given_the_vmi() -> None:
    plan = plan_sync(vmi(), NODE, launcher(pb.DOMAIN_STATE_ABSENT))
    assert (plan.steps, plan.phase) == ((Step.SYNC,), "Scheduled")


def test_a_launcher_that_came_back_under_a_running_guest_is_given_its_interfaces_again() -> None:
    plan = plan_sync(vmi("Running"), NODE, launcher(pb.DOMAIN_STATE_RUNNING))
    assert (plan.steps, plan.phase) == ((Step.SYNC,), "Running")


def test_a_running_guest_needs_nothing_but_a_look_at_its_name_servers_now_and_then() -> None:
    plan = plan_sync(vmi("Running"), NODE, launcher(pb.DOMAIN_STATE_RUNNING, synced=True))
    assert (plan.steps, plan.phase, plan.again) == ((), "Running", RESOLVER_SECONDS)


def test_a_running_guest_is_told_of_other_name_servers() -> None:
    plan = plan_sync(vmi("Running"), NODE, launcher(pb.DOMAIN_STATE_RUNNING, synced=True, outdated=True))
    assert (plan.steps, plan.phase) == ((Step.SYNC,), "Running")


@pytest.mark.parametrize(
    ("state", "reason", "spec", "phase"),
    [
        pytest.param(pb.DOMAIN_STATE_SHUTOFF, pb.DOMAIN_REASON_SHUTDOWN, {}, "Succeeded", id="the guest powered off"),
        pytest.param(pb.DOMAIN_STATE_SHUTOFF, pb.DOMAIN_REASON_DESTROYED, {}, "Failed", id="killed after its grace"),
        pytest.param(pb.DOMAIN_STATE_SHUTOFF, pb.DOMAIN_REASON_MIGRATED, {}, "Running", id="left for another node"),
        pytest.param(
            pb.DOMAIN_STATE_SHUTOFF,
            pb.DOMAIN_REASON_DESTROYED,
            {"terminationGracePeriodSeconds": 0},
            "Succeeded",
            id="killed without grace, as wanted",
        ),
        pytest.param(
            pb.DOMAIN_STATE_SHUTOFF,
            pb.DOMAIN_REASON_DESTROYED,
            {"domain": {"features": {"acpi": {"enabled": False}}}},
            "Succeeded",
            id="killed as it could not be asked",
        ),
        pytest.param(pb.DOMAIN_STATE_SHUTOFF, pb.DOMAIN_REASON_FAILED, {}, "Failed", id="did not start"),
        pytest.param(pb.DOMAIN_STATE_CRASHED, pb.DOMAIN_REASON_PANICKED, {}, "Failed", id="panicked"),
        pytest.param(pb.DOMAIN_STATE_CRASHED, pb.DOMAIN_REASON_CRASHED, {}, "Failed", id="QEMU died"),
    ],
)
def test_how_a_domain_ended_decides_the_phase(state: int, reason: int, spec: dict[str, object], phase: str) -> None:
    plan = plan_sync(vmi("Running", **spec), NODE, launcher(state, reason, synced=True))
    assert (plan.steps, plan.phase) == ((), phase)


def test_an_ended_domain_is_acknowledged_only_when_the_result_has_been_recorded() -> None:
    ended = launcher(pb.DOMAIN_STATE_SHUTOFF, pb.DOMAIN_REASON_SHUTDOWN)
    assert Step.ACKNOWLEDGE not in plan_sync(vmi("Running"), NODE, ended).steps
    assert plan_sync(vmi("Succeeded"), NODE, ended).steps == (Step.ACKNOWLEDGE, Step.FORGET)


def test_a_vmi_that_ended_is_never_started_again() -> None:
    for phase in ("Succeeded", "Failed"):
        plan = plan_sync(vmi(phase), NODE, launcher(pb.DOMAIN_STATE_ABSENT))
        assert Step.SYNC not in plan.steps


class TestEnd:
    """A VMI that is being deleted."""

    def test_the_guest_is_asked_first(self) -> None:
        plan = plan_sync(ending("Running"), NODE, launcher(pb.DOMAIN_STATE_RUNNING, synced=True))
        assert plan.steps == (Step.SHUTDOWN,)

    def test_it_is_asked_again_after_five_seconds_and_not_before(self) -> None:
        early = launcher(pb.DOMAIN_STATE_RUNNING, synced=True, signalled_seconds=2.0)
        plan = plan_sync(ending("Running"), NODE, early, 10)
        assert plan.steps == ()
        assert plan.again == pytest.approx(3.0)
        late = launcher(pb.DOMAIN_STATE_RUNNING, synced=True, signalled_seconds=5.0)
        assert plan_sync(ending("Running"), NODE, late, 10).steps == (Step.SHUTDOWN,)

    def test_it_is_killed_when_its_grace_period_is_over(self) -> None:
        running = launcher(pb.DOMAIN_STATE_RUNNING, synced=True, signalled_seconds=1.0)
        assert plan_sync(ending("Running"), NODE, running, 31).steps == (Step.KILL,)
        assert plan_sync(ending("Running"), NODE, running, 29).steps == ()

    def test_a_grace_period_of_zero_kills_at_once(self) -> None:
        plan = plan_sync(ending("Running", terminationGracePeriodSeconds=0), NODE, launcher(pb.DOMAIN_STATE_RUNNING))
        assert plan.steps == (Step.KILL,)

    def test_a_guest_that_was_never_started_is_not_started_any_more(self) -> None:
        plan = plan_sync(ending("Scheduled"), NODE, launcher(pb.DOMAIN_STATE_ABSENT))
        assert (plan.steps, plan.phase) == ((), "Failed")


class TestWithoutLauncher:
    """Nobody answers."""

    def test_the_last_word_that_it_left_counts(self) -> None:
        word = pb.DomainStatus(state=pb.DOMAIN_STATE_SHUTOFF, reason=pb.DOMAIN_REASON_SHUTDOWN)
        assert plan_sync(vmi("Running"), NODE, LauncherView(last_word=word)).phase == "Succeeded"

    def test_a_last_word_of_a_guest_that_runs_is_no_outcome(self) -> None:
        word = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING)
        assert plan_sync(vmi("Running"), NODE, LauncherView(last_word=word)).phase == "Running"

    def test_it_is_given_time_and_then_called_failed(self) -> None:
        before = plan_sync(vmi("Running"), NODE, LauncherView(down_seconds=UNRESPONSIVE_SECONDS - 1))
        after = plan_sync(vmi("Running"), NODE, LauncherView(down_seconds=UNRESPONSIVE_SECONDS))
        assert (before.phase, after.phase) == ("Running", "Failed")
        assert "has not answered" in after.reason

    def test_one_that_runs_is_never_called_failed_as_the_next_could_start_beside_it(self) -> None:
        for down in (UNRESPONSIVE_SECONDS, 100 * UNRESPONSIVE_SECONDS):
            plan = plan_sync(vmi("Running"), NODE, LauncherView(down_seconds=down, runs=True))
            assert (plan.phase, plan.steps) == ("Running", (Step.CONNECT,))
            assert plan.silence == "the launcher runs, but has not answered for 30 s"
            assert plan.again is not None

    def test_one_that_still_starts_on_a_busy_box_is_given_more(self) -> None:
        late = plan_sync(vmi("Scheduled"), NODE, LauncherView(down_seconds=STARTING_SECONDS - 1, runs=True))
        never = plan_sync(vmi("Scheduled"), NODE, LauncherView(down_seconds=STARTING_SECONDS, runs=True))
        assert (late.phase, late.steps, late.silence) == ("Scheduled", (Step.CONNECT,), "")
        assert (never.phase, never.silence) == ("Scheduled", "the launcher runs, but has not answered for 240 s")

    def test_one_that_never_started_is_not_waited_for(self) -> None:
        plan = plan_sync(vmi("Scheduled"), NODE, LauncherView(down_seconds=UNRESPONSIVE_SECONDS))
        assert (plan.phase, plan.reason) == (
            "Failed",
            "the launcher has not answered for 30 s, and nothing of it runs",
        )

    def test_one_that_is_silent_is_looked_for_less_often_as_that_is_a_look_at_all_processes(self) -> None:
        soon = plan_sync(vmi("Scheduled"), NODE, LauncherView(down_seconds=UNRESPONSIVE_SECONDS - 1))
        assert soon.again == CONNECT_SECONDS
        for phase in ("Scheduled", "Running"):
            for down in (UNRESPONSIVE_SECONDS, STARTING_SECONDS):
                assert plan_sync(vmi(phase), NODE, LauncherView(down_seconds=down, runs=True)).again == SILENT_SECONDS


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        pytest.param({"startTimestamp": "2026-05-01T00:00:00Z"}, "Running", id="begun"),
        pytest.param({}, "Failed", id="not begun"),
        pytest.param({"startTimestamp": "2026-05-01T00:00:00Z", "failed": True}, "Failed", id="given up"),
        pytest.param({"startTimestamp": "2026-05-01T00:00:00Z", "sourceNode": "edge-2"}, "Failed", id="come here"),
    ],
)
def test_a_guest_that_may_run_where_it_was_to_go_is_no_run_that_failed(state: dict[str, object], phase: Phase) -> None:
    moving = {"migrationUid": "m", "sourceNode": NODE, "targetNode": "edge-3", **state}
    found = vmi_with({}, {"phase": "Running", "nodeName": NODE, "migrationState": moving}, uid="u1")
    plan = plan_sync(found, NODE, LauncherView(down_seconds=UNRESPONSIVE_SECONDS))
    assert plan.phase == phase
    assert (plan.again == SILENT_SECONDS) is (phase == "Running")


def attested(**session: str) -> VirtualMachineInstance:
    return vmi(domain={"launchSecurity": {"sev": {"attestation": {}, **session}}})


def test_a_guest_whose_owner_attests_the_host_first_is_not_started() -> None:
    view = launcher(pb.DOMAIN_STATE_ABSENT)
    assert plan_sync(attested(), NODE, view).steps == ()
    assert plan_sync(attested(session="cw=="), NODE, view).steps == ()
    assert plan_sync(attested(session="cw==", dhCert="Yw=="), NODE, view).steps == (Step.SYNC,)


def test_an_encrypted_guest_that_nobody_attests_starts_at_once() -> None:
    plan = plan_sync(vmi(domain={"launchSecurity": {"sev": {}}}), NODE, launcher(pb.DOMAIN_STATE_ABSENT))
    assert plan.steps == (Step.SYNC,)
