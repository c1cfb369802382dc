"""What a clone reports: its phase and conditions in KubeVirt's words, what it waits for, and why it has failed.

Called by `clone_plan`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from kvedge.controller.clones.clone_view import CloneView
from kvedge.controller.snapshots.snapshot_actions import Patch, SnapshotAction, SnapshotPlan, Told
from kvedge.controller.snapshots.snapshot_status import set_states
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import encode
from kvedge.resources.meta import Condition, condition

_PROCESSING: Final = "Still processing"
_READY: Final = "Ready"


def wait_for_source(view: CloneView, now: datetime, reason: str, why: str) -> SnapshotPlan:
    """Say what the clone cannot begin without."""
    return _report(view, now, ("False", "Pending"), ("False", why), told=(Told("Normal", reason, why),))


def go_on(
    view: CloneView,
    now: datetime,
    actions: Sequence[SnapshotAction] = (),
    *,
    told: Sequence[Told] = (),
    message: str = "",
    again: float | None = None,
    **status: Any,
) -> SnapshotPlan:
    """Do something, and say how far the clone is by what its status gets."""
    states = ("True", _PROCESSING), ("False", _PROCESSING)
    plan = _report(view, now, *states, message=message, told=told, again=again, **status)
    return SnapshotPlan((*actions, *plan.actions), plan.told, plan.again_after)


def succeed(view: CloneView, now: datetime, *, told: Sequence[Told] = (), **status: Any) -> SnapshotPlan:
    """Its VM is there."""
    return _report(view, now, ("False", _READY), ("True", _READY), told=told, phase="Succeeded", **status)


def fail(view: CloneView, now: datetime, reason: str, why: str) -> SnapshotPlan:
    """It ends here; what it has made goes in the next pass."""
    told = (Told("Warning", reason, why),)
    return _report(view, now, ("False", "Failed"), ("False", why), told=told, phase="Failed")


def describe_progress(conditions: Sequence[Condition]) -> str:
    """What a snapshot or a restore waits for."""
    found = condition(list(conditions), "Progressing")
    if found is None:
        return ""
    return f"{found.reason}: {found.message}" if found.message else found.reason


def _report(
    view: CloneView,
    now: datetime,
    progressing: tuple[str, str],
    ready: tuple[str, str],
    *,
    message: str = "",
    told: Sequence[Told] = (),
    again: float | None = None,
    **status: Any,
) -> SnapshotPlan:
    old = view.clone.status
    states = set_states(old.conditions, now, ("Progressing", *progressing), ("Ready", *ready), message=message)
    wanted = msgspec.structs.replace(old, conditions=states, **status)
    body = merge_difference(encode(old), encode(wanted))
    if not body:
        return SnapshotPlan(again_after=again)
    return SnapshotPlan((Patch(view.clone, {"status": body}, "status"),), tuple(told), again)
