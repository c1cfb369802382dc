from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import ImageVolume, Pod, PodStatus, PodVolume, ReadinessGate
from kvedge.standalone.agent.container.container_state import ContainerState, NotStarted, Starting
from kvedge.standalone.agent.pod.pod_checks import Rejection
from kvedge.standalone.agent.pod.pod_plan import ImageProblem
from kvedge.standalone.agent.pod.pod_status import StatusFacts, pod_phase, pod_status
from tests.support.builders import plain_pod as pod
from tests.unit.standalone.agent.pods import RUNNING, ended

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_STAMP = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ({"a": NotStarted(), "b": NotStarted()}, "Pending"),
        ({"a": Starting(), "b": NotStarted()}, "Pending"),
        ({"a": RUNNING, "b": NotStarted()}, "Running"),
        ({"a": RUNNING, "b": ended(0)}, "Running"),
        ({"a": RUNNING, "b": ended(1)}, "Running"),
        ({"a": ended(0), "b": ended(0)}, "Succeeded"),
        ({"a": ended(0), "b": ended(2)}, "Failed"),
        ({"a": ended(0), "b": NotStarted()}, "Pending"),
    ],
)
def test_the_phase_follows_the_containers(states: dict[str, ContainerState], phase: str) -> None:
    assert pod_phase(pod("a", "b"), states) == phase


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_stays_over(phase: str) -> None:
    assert pod_phase(pod(status=PodStatus(phase=phase)), {"c": RUNNING}) == phase


def test_a_failed_init_container_fails_the_pod() -> None:
    assert pod_phase(pod("c", init=("i",)), {"i": ended(1), "c": NotStarted()}) == "Failed"


def _truths(status: PodStatus) -> dict[str, str]:
    return {item.type: item.status for item in status.conditions}


def test_a_running_pod_says_where_it_is_and_that_it_is_ready() -> None:
    addresses = ("10.0.0.2", "fd00::2")
    facts = StatusFacts({"c": RUNNING}, image_ids={"c": "sha256:1"}, addresses=addresses, host_address="192.0.2.1")
    status = pod_status(pod(), facts, _NOW)

    assert (status.phase, status.pod_ip, status.host_ip, status.start_time) == (
        "Running",
        "10.0.0.2",
        "192.0.2.1",
        _STAMP,
    )
    assert [each.ip for each in status.pod_ips] == ["10.0.0.2", "fd00::2"]
    assert set(_truths(status).values()) == {"True"}
    (container,) = status.container_statuses
    assert (container.ready, container.image_id, container.container_id) == (True, "sha256:1", "kvedge://uid-1/c")


def test_a_status_that_is_made_again_from_the_same_facts_is_the_same() -> None:
    facts = StatusFacts({"c": RUNNING}, addresses=("10.0.0.2",))
    made = pod()
    made.status = pod_status(made, facts, _NOW)
    later = datetime(2027, 1, 1, tzinfo=UTC)

    assert pod_status(made, facts, later) == made.status


def test_a_condition_is_dated_by_its_last_change() -> None:
    made = pod()
    made.status = pod_status(made, StatusFacts({"c": NotStarted()}), _NOW)
    later = datetime(2027, 1, 1, tzinfo=UTC)
    status = pod_status(made, StatusFacts({"c": RUNNING}), later)

    ready, scheduled = condition(status.conditions, "Ready"), condition(status.conditions, "PodScheduled")
    assert ready is not None
    assert scheduled is not None
    assert (ready.last_transition_time, scheduled.last_transition_time) == ("2027-01-01T00:00:00Z", _STAMP)


def test_conditions_of_others_are_left_as_they_are() -> None:
    foreign = Condition(type="kubevirt.io/virtual-machine-unpaused", status="True", last_transition_time="then")
    made = pod(status=PodStatus(conditions=[foreign]), readiness_gates=[ReadinessGate(condition_type=foreign.type)])
    status = pod_status(made, StatusFacts({"c": RUNNING}), _NOW)

    assert foreign in status.conditions
    assert _truths(status)["Ready"] == "True"


@pytest.mark.parametrize(("gate", "words"), [(None, "does not exist"), ("False", 'is not "True", but False')])
def test_a_readiness_gate_that_is_not_true_keeps_ready_away_but_not_containers_ready(
    gate: str | None, words: str
) -> None:
    conditions = [Condition(type="gate", status=gate)] if gate else []
    made = pod(status=PodStatus(conditions=conditions), readiness_gates=[ReadinessGate(condition_type="gate")])
    status = pod_status(made, StatusFacts({"c": RUNNING}), _NOW)

    ready = condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "ReadinessGatesNotReady")
    assert words in ready.message
    assert _truths(status)["ContainersReady"] == "True"


@pytest.mark.parametrize(("code", "reason"), [(0, "PodCompleted"), (1, "PodFailed")])
def test_an_ended_pod_is_not_ready_because_it_is_over(code: int, reason: str) -> None:
    ready = condition(pod_status(pod(), StatusFacts({"c": ended(code)}), _NOW).conditions, "Ready")

    assert ready is not None
    assert (ready.status, ready.reason) == ("False", reason)


def test_a_terminated_container_tells_how_and_when() -> None:
    state = pod_status(pod(), StatusFacts({"c": ended(3)}), _NOW).container_statuses[0].state

    assert state is not None
    assert state.terminated is not None
    found = state.terminated
    assert (found.exit_code, found.reason, found.started_at, found.finished_at) == (
        3,
        "Error",
        "1970-01-01T00:16:40Z",
        "1970-01-01T00:33:20Z",
    )


def _waiting(made: Pod, facts: StatusFacts, name: str = "c") -> tuple[str, str]:
    status = pod_status(made, facts, _NOW)
    found = next(item for item in (*status.container_statuses, *status.init_container_statuses) if item.name == name)
    assert found.state is not None
    assert found.state.waiting is not None
    return found.state.waiting.reason, found.state.waiting.message


def test_a_waiting_container_says_why() -> None:
    problem = ImageProblem("ErrImagePull", "no such host")

    assert _waiting(pod(), StatusFacts({})) == ("ContainerCreating", "")
    assert _waiting(pod(), StatusFacts({}, images={"busybox": problem})) == ("ErrImagePull", "no such host")
    assert _waiting(pod(), StatusFacts({}, images={"busybox": ImageProblem("", "")})) == ("ContainerCreating", "")
    assert _waiting(pod(), StatusFacts({}, problem=ImageProblem("CreateContainerError", "x"))) == (
        "CreateContainerError",
        "x",
    )


def test_an_image_volume_that_lacks_shows_at_the_containers_that_wait_for_it() -> None:
    made = pod(volumes=[PodVolume(name="disk", image=ImageVolume(reference="disk:1"))])
    images = {"busybox": None, "disk:1": ImageProblem("ImagePullBackOff", "Back-off")}

    assert _waiting(made, StatusFacts({}, images=images)) == ("ImagePullBackOff", "Back-off")


def test_containers_behind_init_containers_wait_for_them() -> None:
    made = pod("c", init=("i",))

    assert _waiting(made, StatusFacts({"i": RUNNING})) == ("PodInitializing", "")
    assert _waiting(made, StatusFacts({}), "i") == ("ContainerCreating", "")


def test_a_probe_that_has_not_said_yes_keeps_a_container_from_being_ready() -> None:
    made = pod()
    made.spec.containers[0].readiness_probe = {"tcpSocket": {"port": 1}}

    assert not pod_status(made, StatusFacts({"c": RUNNING}), _NOW).container_statuses[0].ready
    assert pod_status(made, StatusFacts({"c": RUNNING}, probed={"c": True}), _NOW).container_statuses[0].ready


def test_a_rejected_pod_fails_with_the_reason() -> None:
    status = pod_status(pod(), StatusFacts({}, rejection=Rejection("SysctlForbidden", "no")), _NOW)

    assert (status.phase, status.reason, status.message) == ("Failed", "SysctlForbidden", "Pod was rejected: no")


def test_a_message_of_any_length_is_cut() -> None:
    found = _waiting(pod(), StatusFacts({}, problem=ImageProblem("CreateContainerError", "x" * 100_000)))

    assert len(found[1]) == 4096
