"""Which api roles are endpoints of their Service: what one writes of itself there, and whose slices it takes out.

Called by presence_loop.py. Pure. Each api role has an EndpointSlice of its own, with a heartbeat in an annotation that
it renews as long as others are there to see it. When a heartbeat stands still, another role that notices takes the
slice out, or calls would go on being sent to it; it needs no more than its next round to be an endpoint again. A slice
without a heartbeat is of nobody who must be heard, and stays, unless it is ours of a name or a release of before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from kvedge.api.registration.registration_manifest import SLICES_KEEPER
from kvedge.api.registration.registration_plan import covers, plan_write
from kvedge.resources.codec import JsonObject

HEARTBEAT: Final = "kvedge.io/heartbeat"
# Several beats: a role that is taken out wrongly is back with its next beat, one that is dead costs calls their time.
SILENT_SECONDS: Final = 20.0


class PresencePlan(Struct, frozen=True):
    """`own` is our slice as it is to be written, if it is; `gone` are slices to delete; `others` those that stay."""

    own: JsonObject | None
    gone: Sequence[JsonObject]
    others: Sequence[JsonObject]


def plan_presence(
    wanted: JsonObject, slices: Sequence[JsonObject], silent: Callable[[str], float | None], beat: str
) -> PresencePlan:
    """One round of one role.

    Args:
        wanted: our slice.
        slices: those of all roles, as they are.
        silent: for how many seconds a slice's heartbeat stands still; None for one that has none.
        beat: our next heartbeat.
    """
    others = other_slices(wanted, slices)
    gone = [item for item in others if _is_dead(item, silent) or _is_former(item, wanted)]
    left = [item for item in others if item not in gone]
    # A list's items do not say of which kind they are.
    kind = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"]}
    there = next(({**kind, **item} for item in slices if name_of(item) == name_of(wanted)), None)
    # Alone, nobody is told anything: one server, or one box, does not write for nothing.
    if there is not None and heartbeat_of(there) and not left and covers(there, wanted):
        return PresencePlan(None, gone, left)
    return PresencePlan(plan_write(_add_heartbeat(wanted, beat), there), gone, left)


def other_slices(own: JsonObject, slices: Sequence[JsonObject]) -> list[JsonObject]:
    """Those of others."""
    return [item for item in slices if name_of(item) != name_of(own)]


def heartbeat_of(document: JsonObject) -> str:
    """What a slice's heartbeat says; empty for none."""
    return str((document["metadata"].get("annotations") or {}).get(HEARTBEAT, ""))


def is_written(document: JsonObject) -> bool:
    """Whether an api role has written a slice, and not the cluster for Pods; the first releases gave no heartbeat."""
    labels = document["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in SLICES_KEEPER.items())


def name_of(document: JsonObject) -> str:
    """A slice's name."""
    return str(document["metadata"]["name"])


def serves(document: JsonObject) -> bool:
    """Whether calls are sent to anybody in a slice."""
    return any((entry.get("conditions") or {}).get("ready", True) for entry in document.get("endpoints") or ())


def _is_dead(document: JsonObject, silent: Callable[[str], float | None]) -> bool:
    seconds = silent(name_of(document)) if heartbeat_of(document) else None
    return seconds is not None and seconds > SILENT_SECONDS


def _is_former(document: JsonObject, wanted: JsonObject) -> bool:
    """Whether it is ours of another name: this host was called otherwise. Two cannot listen at one place."""
    return is_written(document) and _addresses(document) == _addresses(wanted)


def _addresses(document: JsonObject) -> list[Any]:
    addresses = [entry["addresses"] for entry in document.get("endpoints") or ()]
    return [addresses, [entry.get("port") for entry in document.get("ports") or ()]]


def _add_heartbeat(wanted: JsonObject, beat: str) -> JsonObject:
    metadata = wanted["metadata"]
    return {**wanted, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), HEARTBEAT: beat}}}
