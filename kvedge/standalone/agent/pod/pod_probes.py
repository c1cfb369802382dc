"""Has the probes of running containers asked when they are due, and knows what they have said.

Followed by the Pod loop at each pass, which this calls when a verdict changes, and only then. One thread keeps the
time; each question is asked in a thread of its own, which ends with the answer, so that a guest that hangs holds up
neither the loop nor the probes of others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Struct, field

from kvedge.kube.events import EventRecorder
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Container, Pod
from kvedge.runtime.background import BackgroundThread, passing_thread
from kvedge.standalone.agent.container.container_state import ContainerState, Running
from kvedge.standalone.agent.container.probe_questions import Asked
from kvedge.standalone.agent.container.probe_rules import (
    LIVENESS,
    READINESS,
    Answer,
    ProbeHistory,
    failure_text,
    probe_settings,
    take_answer,
)
from kvedge.standalone.agent.pod.local_pods import LocalPod

log = logging.getLogger(__name__)

# Questions that are under way at once; more wait for one that ends.
MOST_ASKED: Final = 64
_STOP_SECONDS: Final = 2.0

Ask = Callable[[JsonObject, Asked], Answer]


@dataclass(slots=True, eq=False)
class _Entry:
    """One probe of one container that runs; its name is the Pod's UID, the container's name, and the kind."""

    name: tuple[str, str, str]
    key: Key
    pod: Pod
    probe: JsonObject
    asked: Asked
    history: ProbeHistory
    under_way: bool = False


class PodProbes(Struct):
    """The probes of all Pods of this node; methods may be called from any thread."""

    events: EventRecorder
    ask: Ask
    on_verdict: Callable[[Key], None]
    most_asked: int = MOST_ASKED
    _entries: dict[tuple[str, str, str], _Entry] = field(default_factory=dict)
    # Guards the entries and what is in them.
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _under_way: int = 0
    _stopping: bool = False
    _thread: BackgroundThread | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._thread = BackgroundThread("probes", self._keep_time)
        self._thread.start()

    def stop(self) -> None:
        """Ask nothing more; what is being asked ends by its own time, unheard."""
        with self._changed:
            self._stopping = True
            self._entries.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def failure(self) -> str | None:
        """Why nothing is asked any more, or None."""
        return None if self._thread is None or self._stopping else self._thread.failure()

    def follow(self, local: LocalPod, states: Mapping[str, ContainerState]) -> None:
        """What a Pod is like now: its containers that run are asked from here on, and no others."""
        wanted = {
            (local.files.uid, container.name, kind): (container, probe, state)
            for container in local.pod.spec.containers
            if isinstance(state := states.get(container.name), Running)
            for kind, probe in _probes(container)
            if kind == READINESS or local.pod.metadata.deletion_timestamp is None
        }
        with self._changed:
            for gone in [name for name in self._entries if name[0] == local.files.uid and name not in wanted]:
                del self._entries[gone]
            for name, (container, probe, state) in wanted.items():
                known = self._entries.get(name)
                if known is not None:
                    known.pod = local.pod
                    continue
                asked = Asked(local.files.container(container.name), state, local.record.address, name[2])
                begin = state.started_at + probe_settings(probe).initial_delay - time.time()
                history = ProbeHistory(due=time.monotonic() + max(0.0, begin))
                self._entries[name] = _Entry(name, local.key, local.pod, probe, asked, history)
                self._changed.notify_all()

    def forget(self, uid: str) -> None:
        """Nothing of that Pod runs any more."""
        with self._changed:
            for gone in [name for name in self._entries if name[0] == uid]:
                del self._entries[gone]

    def verdicts(self, local: LocalPod) -> dict[str, bool]:
        """By container: whether its readiness probe says yes; containers without one are missing.

        A probe that has not been asked yet keeps its state, as after a restart of the agent.
        """
        was = {status.name: status.ready for status in local.pod.status.container_statuses}
        found = {}
        with self._changed:
            for container in local.pod.spec.containers:
                if container.readiness_probe is not None:
                    entry = self._entries.get((local.files.uid, container.name, READINESS))
                    passed = None if entry is None else entry.history.passed
                    found[container.name] = was.get(container.name, False) if passed is None else passed
        return found

    def unhealthy(self, local: LocalPod) -> dict[str, float | None]:
        """By container whose liveness probe says no: how long it may take to end, None for as long as the Pod may."""
        with self._changed:
            return {
                name[1]: probe_settings(entry.probe).grace
                for name, entry in self._entries.items()
                if name[0] == local.files.uid and name[2] == LIVENESS and entry.history.passed is False
            }

    def _keep_time(self) -> None:
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                waiting = [entry for entry in self._entries.values() if not entry.under_way and not _is_over(entry)]
                due = sorted((e for e in waiting if e.history.due <= now), key=lambda e: e.history.due)
                for entry in due[: self.most_asked - self._under_way]:
                    self._begin(entry)
                # A probe that finds no free thread gets one when another probe ends, which wakes this wait.
                later = [entry.history.due - now for entry in waiting if entry.history.due > now]
                self._changed.wait(min(later, default=None))

    def _begin(self, entry: _Entry) -> None:
        entry.under_way = True
        self._under_way += 1
        try:
            passing_thread("probe", self._ask, entry)
        except RuntimeError:
            # No more threads on this host: the next round tries again.
            self._conclude(entry)
            entry.history.due = time.monotonic() + 1.0

    def _ask(self, entry: _Entry) -> None:
        try:
            answer = self.ask(entry.probe, entry.asked)
        except Exception:
            # A defect that one probe triggers must neither stop the others nor look like a guest that fails.
            log.exception("a probe could not be asked", extra={"facts": {"pod": str(entry.key)}})
            answer = None
        kind, settings = entry.asked.kind, probe_settings(entry.probe)
        with self._changed:
            self._conclude(entry)
            if answer is None:
                entry.history.due = time.monotonic() + settings.period
                return
            if self._entries.get(entry.name) is not entry:
                # Its container has ended meanwhile.
                return
            changed = take_answer(entry.history, settings, answer.passed, time.monotonic())
            text = "" if answer.passed else failure_text(entry.history, kind, answer.words)
        if text:
            self.events.record(entry.pod, "Warning", "Unhealthy", text)
        if changed:
            self.on_verdict(entry.key)

    def _conclude(self, entry: _Entry) -> None:
        entry.under_way = False
        self._under_way -= 1
        self._changed.notify_all()


def _probes(container: Container) -> list[tuple[str, JsonObject]]:
    both = ((READINESS, container.readiness_probe), (LIVENESS, container.liveness_probe))
    return [(kind, probe) for kind, probe in both if probe is not None]


def _is_over(entry: _Entry) -> bool:
    """A container that is not alive is being ended: there is nothing more to ask."""
    return entry.asked.kind == LIVENESS and entry.history.passed is False
