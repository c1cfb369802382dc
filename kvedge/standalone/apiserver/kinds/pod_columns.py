"""The columns of Pods: above all STATUS, which sums up phase, containers, init containers and deletion in one word.

Called by the row of Pods and by table_manifest. Pure. The order of the questions is that of kubectl's printer, which
people know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, NONE, Column, at, text
from kvedge.standalone.apiserver.wire.human_ages import age


@dataclass
class PodSummary:
    """What the columns say of one Pod; `last_restart` is the time at which a container last ended, or empty."""

    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""
    _sidecar_restarts: int = field(default=0, repr=False)
    _sidecar_restart_time: str = field(default="", repr=False)

    def restarts_text(self, now: datetime) -> str:
        """`3 (5m ago)`, or the bare number when nothing is known of the time."""
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({age(self.last_restart, now)} ago)"
        return str(self.restarts)


def summarize(pod: JsonObject) -> PodSummary:
    """Sum up a Pod for its row."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    sidecars = {item.get("name") for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"}
    reason = status.get("reason") or status.get("phase") or ""
    scheduled = _condition(status, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    summary = PodSummary(reason, len(spec.get("containers") or []) + len(sidecars))
    initializing = _read_init_containers(summary, status, sidecars, len(spec.get("initContainers") or []))
    if not initializing or _is_true(status, "Initialized"):
        _read_containers(summary, status)
    if at(pod, "metadata.deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif status.get("phase") not in FINAL_POD_PHASES:
            summary.reason = "Terminating"
    return summary


def _read_init_containers(summary: PodSummary, status: JsonObject, sidecars: set[Any], count: int) -> bool:
    """Take the init containers in; True while one of them is not done."""
    for index, container in enumerate(status.get("initContainerStatuses") or []):
        sidecar = container.get("name") in sidecars
        summary.restarts += container.get("restartCount") or 0
        summary.last_restart = max(summary.last_restart, _last_end(container))
        if sidecar:
            summary._sidecar_restarts += container.get("restartCount") or 0
            summary._sidecar_restart_time = max(summary._sidecar_restart_time, _last_end(container))
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            summary.ready += 1 if container.get("ready") else 0
            continue
        if terminated:
            summary.reason = f"Init:{_end_word(terminated)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = f"Init:{waiting['reason']}"
        else:
            summary.reason = f"Init:{index}/{count}"
        return True
    return False


def _read_containers(summary: PodSummary, status: JsonObject) -> None:
    summary.restarts, summary.last_restart = summary._sidecar_restarts, summary._sidecar_restart_time
    running = False
    for container in reversed(status.get("containerStatuses") or []):
        summary.restarts += container.get("restartCount") or 0
        summary.last_restart = max(summary.last_restart, _last_end(container))
        state = container.get("state") or {}
        if at(state, "waiting.reason"):
            summary.reason = state["waiting"]["reason"]
        elif state.get("terminated"):
            summary.reason = _end_word(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        # One container is done, another one is still at it.
        summary.reason = "Running" if _is_true(status, "Ready") else "NotReady"


def _end_word(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _last_end(container: JsonObject) -> str:
    return str(at(container, "lastState.terminated.finishedAt", ""))


def _condition(status: JsonObject, kind: str) -> JsonObject | None:
    found: Iterator[JsonObject] = (item for item in status.get("conditions") or [] if item.get("type") == kind)
    return next(found, None)


def _is_true(status: JsonObject, kind: str) -> bool:
    condition = _condition(status, kind)
    return condition is not None and condition.get("status") == "True"


def _gates(pod: JsonObject, now: datetime) -> str:
    gates = at(pod, "spec.readinessGates", [])
    met = sum(_is_true(pod.get("status") or {}, gate.get("conditionType")) for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def _ready(pod: JsonObject, now: datetime) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.total}"


POD_COLUMNS: Final = (
    NAME,
    Column("Ready", _ready, description="How many of the containers are ready."),
    Column("Status", lambda pod, now: summarize(pod).reason, description="The state of the containers in one word."),
    Column(
        "Restarts",
        lambda pod, now: summarize(pod).restarts_text(now),
        description="How often containers have been restarted, and when last.",
    ),
    AGE,
    text("IP", "status.podIP", NONE, 1, "Address of the Pod."),
    text("Node", "spec.nodeName", NONE, 1, "Node on which the Pod runs."),
    text("Nominated Node", "status.nominatedNodeName", NONE, 1, "Node that is being freed for the Pod."),
    Column("Readiness Gates", _gates, description="How many of the readiness gates are met.", priority=1),
)


def completion_conditions(pod: JsonObject) -> list[JsonObject]:
    """The conditions of a row that tell kubectl that a Pod is over."""
    done = {
        "Succeeded": "The pod has completed successfully.",
        "Failed": "The pod failed.",
    }
    phase = at(pod, "status.phase", "")
    if phase not in done:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": done[phase]}]
