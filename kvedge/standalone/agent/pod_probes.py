"""Asks the probes of running containers when they are due.

Called by the Pod loop at the end of a pass, in its worker: a probe that hangs costs one worker its timeout.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

from kvedge.kube.events import EventRecorder
from kvedge.resources.codec import JsonObject
from kvedge.resources.core import Container
from kvedge.standalone.agent.container_state import ContainerState, Running, signal_container
from kvedge.standalone.agent.local_pods import LocalPod
from kvedge.standalone.agent.probe_rules import ProbeHistory, ask_probe, probe_settings, take_answer

_READINESS = "Readiness"
_LIVENESS = "Liveness"


class PodProbes:
    """The probes of all Pods of this node."""

    def __init__(self, events: EventRecorder, boot_id: str) -> None:
        self._events = events
        self._boot_id = boot_id

    def verdicts(self, local: LocalPod) -> dict[str, bool]:
        """By container: whether its readiness probe says yes; containers without one are missing."""
        return {
            item.name: local.probes[f"{_READINESS}/{item.name}"].passed is True
            for item in local.pod.spec.containers
            if f"{_READINESS}/{item.name}" in local.probes
        }

    def ask(self, local: LocalPod, states: Mapping[str, ContainerState]) -> list[float]:
        """Ask what is due; in how many seconds the next ones are, 0 when a verdict has changed."""
        waits: list[float] = []
        for container in local.pod.spec.containers:
            state = states.get(container.name)
            if not isinstance(state, Running):
                continue
            for kind, probe in ((_READINESS, container.readiness_probe), (_LIVENESS, container.liveness_probe)):
                if probe is not None:
                    waits.append(self._ask_one(local, container, kind, probe, state.started_at))
        return waits

    def _ask_one(self, local: LocalPod, container: Container, kind: str, probe: JsonObject, started: float) -> float:
        settings = probe_settings(probe)
        first = time.monotonic() + max(0.0, started + settings.initial_delay - time.time())
        history = local.probes.setdefault(f"{kind}/{container.name}", ProbeHistory(due=first))
        now = time.monotonic()
        if now < history.due:
            return history.due - now
        before = history.passed
        passed = ask_probe(probe, local.record.address)
        take_answer(history, settings, passed, time.monotonic())
        if not passed:
            self._events.record(local.pod, "Warning", "Unhealthy", f"{kind} probe failed: no good answer in time")
        if kind == _LIVENESS and history.passed is False and before is not False:
            message = f"Container {container.name} failed liveness probe, will be killed"
            self._events.record(local.pod, "Normal", "Killing", message)
            signal_container(local.files.container(container.name), signal.SIGTERM, self._boot_id)
        if kind == _LIVENESS and history.passed is False and history.failures >= 2 * settings.failures:
            # It had its time to end by itself.
            signal_container(local.files.container(container.name), signal.SIGKILL, self._boot_id)
        return 0.0 if before != history.passed else settings.period
