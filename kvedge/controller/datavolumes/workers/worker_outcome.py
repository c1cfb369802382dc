"""What a worker's Pod says of its work.

Called by worker_plan.py. Pure. The termination message comes from a process that has read hostile data: it is
decoded within bounds, and what does not fit is shown as text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.controller.datavolumes.data_volume_status import State
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.data_volume_names import WORKER_CONTAINER
from kvedge.resources.meta import condition
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import ContainerState, ContainerStateTerminated, Pod
from kvedge.resources.types.import_job import ImportOutcome
from kvedge.resources.values.name_grammar import LABEL_LENGTH

_LONGEST_MESSAGE: Final = 1024
_MOST_LABELS: Final = 16
_LABEL_PREFIX: Final = "instancetype.kubevirt.io/"
_NOTHING: Final = State("False")
_PULL_REASONS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName"})


class WorkerSeen(Struct, frozen=True):
    """A worker: where it is, and how it ended if it has."""

    pod: Pod
    running: bool = False
    ready: bool = False
    # Why it does not run yet.
    waiting: State = _NOTHING
    ended: bool = False
    succeeded: bool = False
    outcome: ImportOutcome | None = None
    finished_at: str | None = None

    @property
    def uid(self) -> str:
        """The Pod's UID."""
        return self.pod.metadata.uid

    @property
    def fatal(self) -> bool:
        """Whether trying again cannot help."""
        return self.outcome is not None and self.outcome.fatal

    @property
    def reason(self) -> str:
        """Why it failed, in one word."""
        return (self.outcome.reason if self.outcome is not None else "") or "Error"

    @property
    def message(self) -> str:
        """Why it failed, in words."""
        text = "" if self.outcome is None else self.outcome.message
        return text or self.pod.status.message or "the worker ended without a word"

    def count_ended_seconds(self, now: datetime) -> float:
        """For how many seconds it has been over; a Pod that does not say counts as over for long."""
        if self.finished_at is None:
            return float("inf")
        return max(0.0, (now - datetime.fromisoformat(self.finished_at)).total_seconds())


def look_at_worker(pod: Pod) -> WorkerSeen:
    """What a worker's Pod says."""
    state = _container_state(pod)
    if pod.status.phase in FINAL_POD_PHASES:
        terminated = None if state is None else state.terminated
        return WorkerSeen(
            pod,
            ended=True,
            succeeded=pod.status.phase == "Succeeded",
            outcome=_outcome(pod, terminated),
            finished_at=None if terminated is None else terminated.finished_at,
        )
    if pod.status.phase == "Running":
        ready = condition(pod.status.conditions, "Ready")
        return WorkerSeen(pod, running=True, ready=ready is not None and ready.status == "True")
    return WorkerSeen(pod, waiting=_why_waiting(pod, state))


def _container_state(pod: Pod) -> ContainerState | None:
    # Others are what somebody else has put into the Pod, such as a mesh's proxy.
    return next((each.state for each in pod.status.container_statuses if each.name == WORKER_CONTAINER), None)


def _why_waiting(pod: Pod, state: ContainerState | None) -> State:
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        reason = scheduled.reason or "Unschedulable"
        return State("False", reason, f"Importer pod cannot be scheduled: {scheduled.message}"[:_LONGEST_MESSAGE])
    waiting = None if state is None else state.waiting
    if waiting is None:
        return State("False", "Pending")
    if waiting.reason in _PULL_REASONS:
        return State("False", "ImagePullFailed", f"failed to pull image: {waiting.message}"[:_LONGEST_MESSAGE])
    return State("False", waiting.reason, waiting.message[:_LONGEST_MESSAGE])


def _outcome(pod: Pod, terminated: ContainerStateTerminated | None) -> ImportOutcome:
    text = "" if terminated is None else terminated.message
    try:
        outcome = decode_json(ImportOutcome, text) if text.startswith("{") else ImportOutcome(message=text)
    except DecodeError:
        outcome = ImportOutcome(message=text)
    if not outcome.message and terminated is not None and terminated.reason not in ("", "Error", "Completed"):
        # Such as OOMKilled.
        outcome.message = f"the worker was ended: {terminated.reason}"
    outcome.message = outcome.message[:_LONGEST_MESSAGE]
    outcome.reason = outcome.reason if outcome.reason.isalnum() else ""
    kept = [(key, value) for key, value in outcome.labels.items() if _is_kept(key, value)]
    outcome.labels = dict(kept[:_MOST_LABELS])
    return outcome


def _is_kept(key: str, value: str) -> bool:
    """An image describes itself; it does not label the claim as it likes."""
    plain = value.replace("-", "").replace(".", "").replace("_", "")
    return key.startswith(_LABEL_PREFIX) and len(value) <= LABEL_LENGTH and plain.isalnum() and value.isascii()
