"""The series of kvedge's own processes: their queues, their calls to the API server, what they use of their hosts.

Called by role_collector.py. Pure. Names, types, labels and bounds are KubeVirt's and those of Prometheus' clients, with
`node` beside them. A node's word of itself is shown under its own name alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.api.metrics.exposition import Metric
from kvedge.api.metrics.series_table import Table, counter, gauge, histogram
from kvedge.kube.figures.process_figures import CONTROLLER_LEADS, CONTROLLER_READY
from kvedge.kube.figures.vmi_figures import BETWEEN, FROM_CREATION, FROM_DELETION, MIGRATION
from kvedge.resources.usage.role_stats import QueueStats, RoleStats, Times

_QUEUE: Final = "kubevirt_workqueue_"
_REST: Final = "kubevirt_rest_client_"
_HANDLER_READY: Final = "kubevirt_virt_handler_ready_status"
# By what a process calls its states.
_STATES: Final = {
    CONTROLLER_READY: "kubevirt_virt_controller_ready_status",
    CONTROLLER_LEADS: "kubevirt_virt_controller_leading_status",
}
_SYNCS: Final = "kubevirt_vmi_sync_total"
_PANICS: Final = "kubevirt_vmi_guest_os_panic_total"
_MACHINES: Final = "kubevirt_node_deprecated_machine_types"
# By what a process calls the moment from which on it counts.
_TRANSITIONS: Final = {
    BETWEEN: "kubevirt_vmi_phase_transition_time_seconds",
    FROM_CREATION: "kubevirt_vmi_phase_transition_time_from_creation_seconds",
    FROM_DELETION: "kubevirt_vmi_phase_transition_time_from_deletion_seconds",
    MIGRATION: "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds",
}
_PROCESS: Final[Table] = {
    "process_cpu_seconds_total": counter("CPU time of the process."),
    "process_resident_memory_bytes": gauge("Memory of the process that is in RAM."),
    "process_virtual_memory_bytes": gauge("Address space of the process."),
    "process_open_fds": gauge("Open file descriptors."),
    "process_max_fds": gauge("How many there may be."),
    "process_start_time_seconds": gauge("When the process began."),
}
TABLE: Final[Table] = {
    **_PROCESS,
    _HANDLER_READY: gauge("Whether the handler of a node answers."),
    "kubevirt_virt_controller_ready_status": gauge("Whether a controller works, or stands by for one that does."),
    "kubevirt_virt_controller_leading_status": gauge("Whether a controller is the one that works."),
    f"{_QUEUE}depth": gauge("Objects that wait for work."),
    f"{_QUEUE}adds_total": counter("Objects that needed work."),
    f"{_QUEUE}retries_total": counter("Work that failed and is tried again."),
    f"{_QUEUE}longest_running_processor_seconds": gauge("How long the oldest work takes by now."),
    f"{_QUEUE}unfinished_work_seconds": gauge("How long all work that goes on takes by now."),
    f"{_QUEUE}queue_duration_seconds": histogram("How long objects waited for work."),
    f"{_QUEUE}work_duration_seconds": histogram("How long work took."),
    "kubevirt_vmi_phase_transition_time_seconds": histogram("How long VMIs took from one phase to the next."),
    "kubevirt_vmi_phase_transition_time_from_creation_seconds": histogram("How long VMIs took to a phase."),
    "kubevirt_vmi_phase_transition_time_from_deletion_seconds": histogram(
        "How long VMIs that were deleted took to end."
    ),
    "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds": histogram(
        "How long migrations took to a phase."
    ),
    _SYNCS: counter("How often a VMI was seen to."),
    _MACHINES: gauge("A machine type that the QEMU of a node means to give up: VMs of it should get another one."),
    _PANICS: counter("How often the system of a guest has panicked."),
    f"{_REST}requests_total": counter("Calls to the API server."),
    f"{_REST}request_latency_seconds": histogram("How long the API server took to answer."),
}


def build_role_metrics(found: Sequence[tuple[str, RoleStats]], handlers: Mapping[str, bool]) -> list[Metric]:
    """The metrics of processes, each with the node that it is on; `handlers` says of each whether it answered.

    A process that was asked in two ways is told of once, as what it was asked first.
    """
    metrics = {name: Metric(name, row.kind, row.help) for name, row in TABLE.items()}
    for node, answers in handlers.items():
        metrics[_HANDLER_READY].add({"node": node}, int(answers))
    processes = {stats.process: (node, stats) for node, stats in reversed(found)}
    for node, stats in processes.values():
        _add_process(metrics, node, stats)
    return list(metrics.values())


def _add_process(metrics: Mapping[str, Metric], node: str, stats: RoleStats) -> None:
    base = {"node": node}
    for name, value in stats.figures.items():
        if name in _PROCESS:
            metrics[name].add(base, value)
    for state, name in _STATES.items():
        if state in stats.states:
            metrics[name].add(base, int(stats.states[state]))
    _add_vmis(metrics, base, stats)
    for machine in stats.deprecated_machines:
        metrics[_MACHINES].add({**base, "machine_type": machine}, 1)
    for queue in stats.queues:
        _add_queue(metrics, {**base, "name": queue.name}, queue)
    for call in stats.calls:
        labels = {"code": call.code, "method": call.method, "host": call.host}
        labels |= {"resource": call.resource, "verb": call.verb}
        metrics[f"{_REST}requests_total"].add(base | labels, call.count)
    for latency in stats.latencies:
        labels = {"verb": latency.verb, "url": latency.url}
        _add_times(metrics[f"{_REST}request_latency_seconds"], base | labels, latency.times)


def _add_vmis(metrics: Mapping[str, Metric], base: Mapping[str, str], stats: RoleStats) -> None:
    for transition in stats.transitions:
        name = _TRANSITIONS.get(transition.kind)
        if name is not None:
            labels = {**base, "phase": transition.phase}
            if transition.kind == BETWEEN:
                labels["last_phase"] = transition.last_phase
            _add_times(metrics[name], labels, transition.times)
    for sync in stats.syncs:
        metrics[_SYNCS].add({**base, "namespace": sync.namespace, "name": sync.name}, sync.count)
    for panic in stats.panics:
        # libvirt tells of no more than that it was one.
        why = {"type": "unknown", "bugcheck_code": "unknown"}
        metrics[_PANICS].add({**base, "namespace": panic.namespace, "name": panic.name, **why}, panic.count)


def _add_queue(metrics: Mapping[str, Metric], labels: Mapping[str, str], queue: QueueStats) -> None:
    metrics[f"{_QUEUE}depth"].add(labels, queue.depth)
    metrics[f"{_QUEUE}adds_total"].add(labels, queue.adds)
    metrics[f"{_QUEUE}retries_total"].add(labels, queue.retries)
    metrics[f"{_QUEUE}longest_running_processor_seconds"].add(labels, queue.longest)
    metrics[f"{_QUEUE}unfinished_work_seconds"].add(labels, queue.unfinished)
    _add_times(metrics[f"{_QUEUE}queue_duration_seconds"], labels, queue.waited)
    _add_times(metrics[f"{_QUEUE}work_duration_seconds"], labels, queue.worked)


def _add_times(metric: Metric, labels: Mapping[str, str], times: Times) -> None:
    metric.add_times(labels, times.bounds, times.counts, times.total)
