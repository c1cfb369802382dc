"""A DataVolume's status, its claim's annotations, and what its user is told, from where it is.

Called by data_volume_plan.py. Pure. Phases, reasons and texts are CDI's, as its users' tools compare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from kvedge.controller.datavolumes.cdi_conditions import with_condition
from kvedge.resources.types.data_volumes import CdiCondition, DataVolume, DataVolumeStatus, data_volume_condition

BOUND: Final = "Bound"
RUNNING: Final = "Running"
READY: Final = "Ready"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
PENDING: Final = "Pending"
WAITING: Final = "WaitForFirstConsumer"
# Its claim is filled by its driver or by a populator, as soon as a Pod uses it.
PENDING_POPULATION: Final = "PendingPopulation"
# There is nothing to copy yet.
WITHOUT_SOURCE: Final = "CloneWithoutSource"
NO_PROGRESS: Final = "N/A"
DONE: Final = "100.0%"


class Told(Struct, frozen=True):
    """An event of a DataVolume."""

    reason: str
    message: str
    warning: bool = False


class State(Struct, frozen=True):
    """One condition without its times."""

    status: str
    reason: str = ""
    message: str = ""


class Outlook(Struct, frozen=True):
    """Where a DataVolume is."""

    phase: str
    bound: State
    running: State
    progress: str = ""
    restarts: int = 0


def next_status(dv: DataVolume, outlook: Outlook, now: datetime) -> DataVolumeStatus:
    """The whole status."""
    progress = outlook.progress or dv.status.progress or NO_PROGRESS
    if outlook.phase == SUCCEEDED:
        progress = DONE
    ready = State("True") if outlook.phase == SUCCEEDED else _say_unready(outlook)
    conditions = list(dv.status.conditions)
    for type_, state in ((BOUND, outlook.bound), (READY, ready), (RUNNING, outlook.running)):
        made = CdiCondition(type=type_, status=state.status, reason=state.reason, message=state.message)
        conditions = with_condition(conditions, made, now)
    return DataVolumeStatus(
        claim_name=dv.metadata.name,
        phase=outlook.phase,
        progress=progress,
        restart_count=outlook.restarts,
        conditions=conditions,
    )


def tell_changes(dv: DataVolume, outlook: Outlook) -> list[Told]:
    """Events for what is new: a phase, or a condition's reason."""
    told = []
    if outlook.phase != dv.status.phase and (found := phase_event(dv, outlook.phase)) is not None:
        told.append(found)
    for type_, state in ((BOUND, outlook.bound), (RUNNING, outlook.running)):
        old = data_volume_condition(dv.status.conditions, type_)
        before = ("", "") if old is None else (old.reason, old.message)
        if state.reason and (state.reason, state.message) != before:
            warning = state.reason.startswith("Err") or state.reason in _WARNINGS
            told.append(Told(state.reason, state.message or f"{type_} is {state.status}", warning))
    return told


# What keeps a claim from being made, which CDI says of Ready, too.
_SAID_TWICE: Final = frozenset({WITHOUT_SOURCE, "ErrExceededQuota"})
_WARNINGS: Final = frozenset(
    {"Error", "ClaimLost", "ImagePullFailed", "ChecksumError", "CloneValidationFailed", "Unschedulable"}
)


def running_phase(dv: DataVolume, *, begun: bool, ready: bool) -> str:
    """The phase while a worker is there; `ready` is an upload's that takes data."""
    source = dv.spec.source
    if source is not None and source.upload is not None:
        return "UploadReady" if ready else "UploadScheduled"
    kind = "Clone" if source is not None and source.pvc is not None else "Import"
    if dv.spec.source_ref is not None:
        kind = "Clone"
    return f"{kind}InProgress" if begun else f"{kind}Scheduled"


def complete_message(dv: DataVolume) -> str:
    """What Running says when the data is there."""
    return f"{_word(dv)} Complete"


def phase_event(dv: DataVolume, phase: str) -> Told | None:
    """The event of a phase that begins."""
    name = dv.metadata.name
    word = _word(dv)
    if word == "Clone":
        source = _clone_text(dv)
        texts = {
            "CloneScheduled": f"Cloning from {source} scheduled",
            "CloneInProgress": f"Cloning from {source} in progress",
            SUCCEEDED: f"Successfully cloned from {source}",
            FAILED: f"Cloning from {source} failed",
        }
    elif word == "Population":
        done = f"PVC {name} successfully populated by {_populator(dv)}"
        return Told("ExternalPopulationSucceeded", done) if phase == SUCCEEDED else None
    elif word == "Upload":
        texts = {
            "UploadScheduled": f"Upload into {name} scheduled",
            "UploadReady": f"Upload into {name} ready",
            SUCCEEDED: f"Successfully uploaded into {name}",
            FAILED: f"Upload into {name} failed",
        }
    else:
        texts = {
            "ImportScheduled": f"Import into {name} scheduled",
            "ImportInProgress": f"Import into {name} in progress",
            SUCCEEDED: f"Successfully imported into PVC {name}",
            FAILED: f"Failed to import into PVC {name}",
        }
    text = texts.get(phase)
    if text is None:
        return None
    reason = f"{word}{phase}" if phase in (SUCCEEDED, FAILED) else phase
    return Told(reason, text, warning=phase == FAILED)


def running_annotations(names: Sequence[str], state: State) -> Mapping[str, str]:
    """The condition Running as a claim carries it, under the three names for status, reason and message."""
    status, reason, message = names
    return {status: state.status.lower(), reason: state.reason, message: state.message}


def _word(dv: DataVolume) -> str:
    source = dv.spec.source
    if source is not None and source.upload is not None:
        return "Upload"
    if source is None and dv.spec.source_ref is None and _populator(dv):
        return "Population"
    copies = source is not None and (source.pvc is not None or source.snapshot is not None)
    return "Clone" if copies or dv.spec.source_ref is not None else "Import"


def _populator(dv: DataVolume) -> str:
    """The name of what somebody else fills the claim from; empty where its worker fills it."""
    target = dv.spec.storage or dv.spec.pvc
    named = None if target is None else target.data_source_ref or target.data_source
    return "" if named is None else str(named.get("name", ""))


def _clone_text(dv: DataVolume) -> str:
    named = None if dv.spec.source is None else dv.spec.source.pvc or dv.spec.source.snapshot
    own = dv.metadata.namespace
    if named is not None:
        source = f"{named.namespace or own}/{named.name}"
    else:
        reference = dv.spec.source_ref
        assert reference is not None
        source = f"{reference.namespace or own}/{reference.name}"
    return f"{source} into {own}/{dv.metadata.name}"


def _say_unready(outlook: Outlook) -> State:
    if outlook.running.status == "True":
        return State("False", "TransferRunning")
    if outlook.bound.status == "False" and outlook.bound.reason in _SAID_TWICE:
        return outlook.bound
    return State("False")
