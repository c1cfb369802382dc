"""What a plan says of a DataVolume and notes on its claim: all that must outlive the controller stands there.

Called by the plans of DataVolumes and of their workers. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.datavolumes.data_volume_status import Outlook, State, next_status, tell_changes
from kvedge.controller.datavolumes.data_volume_view import (
    Action,
    DataVolumePlan,
    DataVolumeView,
    PatchClaim,
    PatchStatus,
)
from kvedge.kube.patches import merge_difference
from kvedge.resources import data_volume_names as names
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.values.whole_numbers import whole_number

# No worker, and nothing to say of it.
IDLE: Final = State("False")
RUNNING_NAMES: Final = (names.RUNNING, names.RUNNING_REASON, names.RUNNING_MESSAGE)


def judge_bound(claim: PersistentVolumeClaim) -> State:
    name = claim.metadata.name
    if claim.status.phase == "Bound":
        return State("True", "Bound", f"PVC {name} Bound")
    return State("False", "Pending", f"PVC {name} Pending")


def running_of(claim: PersistentVolumeClaim) -> State:
    said = claim.metadata.annotations
    return State("False", said.get(names.RUNNING_REASON, ""), said.get(names.RUNNING_MESSAGE, ""))


def restarts_of(claim: PersistentVolumeClaim) -> int:
    return whole_number(claim.metadata.annotations.get(names.POD_RESTARTS, "")) or 0


def goes(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def annotate(
    claim: PersistentVolumeClaim, wanted: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> PatchClaim:
    metadata: JsonObject = {"annotations": dict(wanted)}
    new = {key: value for key, value in (labels or {}).items() if claim.metadata.labels.get(key) != value}
    return PatchClaim(claim, {"metadata": {**metadata, "labels": new} if new else metadata})


def annotate_changed(claim: PersistentVolumeClaim, wanted: Mapping[str, str]) -> tuple[PatchClaim, ...]:
    said = claim.metadata.annotations
    changed = {key: value for key, value in wanted.items() if said.get(key) != value}
    return (annotate(claim, changed),) if changed else ()


def report(
    view: DataVolumeView,
    outlook: Outlook,
    now: datetime,
    actions: Sequence[Action] = (),
    again_after: float | None = None,
) -> DataVolumePlan:
    """The status first: what is seen is said before it changes."""
    dv = view.dv
    status = next_status(dv, outlook, now)
    body = merge_difference(encode(dv.status), encode(status))
    written: tuple[Action, ...] = (PatchStatus({"status": body}),) if body else ()
    told = tuple(tell_changes(dv, outlook)) if body else ()
    return DataVolumePlan((*written, *actions), told, again_after)
