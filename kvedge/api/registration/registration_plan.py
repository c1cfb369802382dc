"""Whether a document that should be there has to be written, and how it then looks.

Called by registration_loop.py. Pure. Level-triggered: what is there is compared with what should be, members that the
server or somebody else has added are left alone. Roles of several releases serve one cluster while it is upgraded: the
newest one's documents count as long as it serves, and the older ones' again when the upgrade has been taken back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import VERSION
from kvedge.resources.values.whole_numbers import whole_number

# The document to write, from the wanted and the present one; None when nothing is to be done.
Plan: TypeAlias = Callable[[JsonObject, "JsonObject | None"], "JsonObject | None"]


def plan_write(wanted: JsonObject, there: JsonObject | None) -> JsonObject | None:
    """The document to write: the whole one to create, a merged one to replace; None when nothing is to be done."""
    if there is None:
        return wanted
    if covers(there, wanted):
        return None
    merged: JsonObject = _merge(there, wanted)
    return merged


def plan_beside_newer(wanted: JsonObject, there: JsonObject | None) -> JsonObject | None:
    """As :func:`plan_write`, where a newer release serves too: what is there is its own, but for whom to trust.

    All releases share one authority. Should the newer one be gone for good, calls must not fail for that.
    """
    if there is None:
        return wanted
    bundle = next((str(holder["caBundle"]) for holder in _find_trusting(wanted)), "")
    trusted: JsonObject = copy.deepcopy(there)
    for holder in _find_trusting(trusted):
        holder["caBundle"] = bundle
    return None if trusted == there else trusted


def plan_forward(wanted: JsonObject, there: JsonObject | None) -> JsonObject | None:
    """As :func:`plan_write`, but what a later release has written stays, whether that release serves or not."""
    if there is not None and release_of(there) > release_of(wanted):
        return None
    return plan_write(wanted, there)


def newer_serves(others: Iterable[JsonObject], own: JsonObject) -> bool:
    """Whether another instance of a newer release serves beside us, by the slices that all have written, or by Pods."""
    name = own["metadata"]["name"]
    return any(item["metadata"]["name"] != name and release_of(item) > release_of(own) for item in others)


def is_ready(pod: JsonObject) -> bool:
    """Whether a Pod takes calls, and will."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    leaves = "deletionTimestamp" in pod["metadata"]
    return not leaves and any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def release_of(document: JsonObject) -> tuple[int, ...]:
    """The release that has written a document; the lowest of all when it does not say."""
    text = (document["metadata"].get("annotations") or {}).get(VERSION, "")
    parts = [whole_number(part) for part in text.split(".")]
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else ()


def _find_trusting(document: JsonObject) -> Iterator[JsonObject]:
    """The members that say whom the API server is to trust."""
    for webhook in document.get("webhooks") or ():
        yield webhook["clientConfig"]
    if "caBundle" in (document.get("spec") or {}):
        yield document["spec"]


def covers(there: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; members beyond it do not count, items of lists do."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(covers(there.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        if not wanted:
            return not there  # A server may leave an empty list out.
        return (
            isinstance(there, list)
            and len(there) == len(wanted)
            and all(covers(one, other) for one, other in zip(there, wanted, strict=True))
        )
    return bool(there == wanted)


def _merge(there: Any, wanted: Any) -> Any:
    if isinstance(there, dict) and isinstance(wanted, dict):
        return {**there, **{name: _merge(there.get(name), value) for name, value in wanted.items()}}
    return wanted
