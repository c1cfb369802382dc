"""The series of processes: KubeVirt's and Prometheus' names, one process told of once."""

from __future__ import annotations

from typing import Any, Final

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.role_series import TABLE, build_role_metrics
from kvedge.kube.figures.vmi_figures import BETWEEN, FROM_CREATION
from kvedge.resources.usage.role_stats import (
    CallStats,
    LatencyStats,
    QueueStats,
    RoleStats,
    Times,
    TransitionStats,
    VmiCount,
)
from tests.unit.api.metrics.test_exposition import read_back

# Of docs/observability/metrics.md of KubeVirt 1.9: all that each of its programs tells of itself.
KUBEVIRTS: Final = """
rest_client_rate_limiter_duration_seconds rest_client_request_latency_seconds rest_client_requests_total
virt_controller_leading_status virt_controller_ready_status virt_handler_ready_status virt_operator_leading_status
virt_operator_ready_status vmi_migration_phase_transition_time_from_creation_seconds
vmi_phase_transition_time_from_creation_seconds vmi_phase_transition_time_from_deletion_seconds
node_deprecated_machine_types
vmi_phase_transition_time_seconds vmi_guest_os_panic_total vmi_sync_total workqueue_adds_total
workqueue_depth workqueue_longest_running_processor_seconds
workqueue_queue_duration_seconds workqueue_retries_total workqueue_unfinished_work_seconds
workqueue_work_duration_seconds
"""
NOT_THERE: Final = {
    "kubevirt_rest_client_rate_limiter_duration_seconds": "our client has no limit of its own: the server has one",
    "kubevirt_virt_operator_leading_status": "there is no operator",
    "kubevirt_virt_operator_ready_status": "there is no operator",
}
TIMES: Final = Times(bounds=[0.1, 1.0], counts=[1, 2, 3], total=9.5)


def stats(process: str = "p", **given: Any) -> RoleStats:
    return RoleStats(process=process, **given)


def read(*found: tuple[str, RoleStats], handlers: dict[str, bool] | None = None) -> dict[str, Any]:
    return read_back(render(build_role_metrics(found, handlers or {})))


def test_names_are_kubevirts_and_those_that_are_absent_have_a_reason() -> None:
    theirs = {f"kubevirt_{name}" for name in KUBEVIRTS.split()}
    assert {name for name in TABLE if name.startswith("kubevirt_")} == theirs - NOT_THERE.keys()
    assert NOT_THERE.keys() <= theirs


def test_figures_states_and_handlers_are_told_of_by_node() -> None:
    one = stats(figures={"process_open_fds": 7, "made_up": 1}, states={"controller-leads": True, "made-up": True})
    found = read(("n1", one), handlers={"n1": True, "n2": False})
    assert found == {
        "process_open_fds": [({"node": "n1"}, 7.0)],
        "kubevirt_virt_controller_leading_status": [({"node": "n1"}, 1.0)],
        "kubevirt_virt_handler_ready_status": [({"node": "n1"}, 1.0), ({"node": "n2"}, 0.0)],
    }


def test_a_process_that_was_asked_in_two_ways_is_told_of_once() -> None:
    one = stats(figures={"process_open_fds": 7})
    other = stats("other", figures={"process_open_fds": 8})
    found = read(("n1", one), ("n2", other), ("host", one))
    assert sorted(found["process_open_fds"], key=str) == [({"node": "n1"}, 7.0), ({"node": "n2"}, 8.0)]


def test_machines_that_qemu_means_to_give_up_are_told_of_by_node() -> None:
    found = read(("n1", stats(deprecated_machines=["pc-i440fx-2.0"])), ("n2", stats("other")))
    assert found["kubevirt_node_deprecated_machine_types"] == [({"node": "n1", "machine_type": "pc-i440fx-2.0"}, 1.0)]


def test_queues_and_calls_have_kubevirts_labels() -> None:
    queue = QueueStats(name="vm", depth=1, adds=2, retries=3, longest=4.5, unfinished=5.5, waited=TIMES, worked=TIMES)
    call = CallStats(code="200", method="GET", host="h", resource="nodes", verb="list", count=6)
    latency = LatencyStats(verb="list", url="/api/v1/nodes", times=TIMES)
    found = read(("n1", stats(queues=[queue], calls=[call], latencies=[latency])))
    where = {"node": "n1", "name": "vm"}
    assert found["kubevirt_workqueue_depth"] == [(where, 1.0)]
    assert found["kubevirt_workqueue_adds_total"] == [(where, 2.0)]
    assert found["kubevirt_workqueue_unfinished_work_seconds"] == [(where, 5.5)]
    buckets = found["kubevirt_workqueue_queue_duration_seconds_bucket"]
    assert [(labels["le"], value) for labels, value in buckets] == [("0.1", 1.0), ("1.0", 3.0), ("+Inf", 6.0)]
    assert found["kubevirt_workqueue_work_duration_seconds_count"] == [(where, 6.0)]
    assert found["kubevirt_workqueue_work_duration_seconds_sum"] == [(where, 9.5)]
    labels = {"node": "n1", "code": "200", "method": "GET", "host": "h", "resource": "nodes", "verb": "list"}
    assert found["kubevirt_rest_client_requests_total"] == [(labels, 6.0)]
    assert found["kubevirt_rest_client_request_latency_seconds_count"] == [
        ({"node": "n1", "verb": "list", "url": "/api/v1/nodes"}, 6.0)
    ]


def test_phases_and_rounds_of_vmis_have_kubevirts_labels() -> None:
    told = [
        TransitionStats(kind=BETWEEN, phase="Running", last_phase="Scheduled", times=TIMES),
        TransitionStats(kind=FROM_CREATION, phase="Running", times=TIMES),
        TransitionStats(kind="made up", phase="Running", times=TIMES),
    ]
    count = VmiCount(namespace="shop", name="web", count=3)
    found = read(("n1", stats(transitions=told, syncs=[count], panics=[count])))
    labels, web = {"node": "n1", "phase": "Running"}, {"node": "n1", "namespace": "shop", "name": "web"}
    assert found["kubevirt_vmi_phase_transition_time_seconds_count"] == [({**labels, "last_phase": "Scheduled"}, 6.0)]
    assert found["kubevirt_vmi_phase_transition_time_from_creation_seconds_sum"] == [(labels, 9.5)]
    assert found["kubevirt_vmi_sync_total"] == [(web, 3.0)]
    why = {"type": "unknown", "bugcheck_code": "unknown"}
    assert found["kubevirt_vmi_guest_os_panic_total"] == [({**web, **why}, 3.0)]
    assert "kubevirt_vmi_phase_transition_time_from_deletion_seconds_count" not in found


def test_a_node_that_says_two_things_of_one_queue_spoils_nothing() -> None:
    queues = [QueueStats(name="vm", depth=1), QueueStats(name="vm", depth=2), QueueStats(name='"\n', depth=3)]
    found = read(("n1", stats(queues=queues)))["kubevirt_workqueue_depth"]
    assert [(labels["name"], value) for labels, value in found] == [("vm", 1.0), ('"\n', 3.0)]
