"""Applies a namespace's LimitRanges to what is made in it: defaults before webhooks, bounds after them.

Called by `builtin_admission`. Reads the cache, changes only the object of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.admission_protocol import Review
from kvedge.standalone.apiserver.kinds.rules.limit_rules import add_defaults, claim_faults, pod_faults
from kvedge.standalone.apiserver.requests.write_rules import target_of
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored_bounds import LIMIT_RANGES, spec_of
from kvedge.standalone.apiserver.wire.api_errors import Forbidden

# A Pod of many containers has a fault for each; so many are told.
_MOST_FAULTS = 20


class LimitRanger:
    """Completes and checks Pods and claims."""

    def __init__(self, hub: ObjectHub) -> None:
        self._hub = hub

    def complete(self, review: Review) -> None:
        """Give a new Pod what the namespace says for those who say nothing."""
        if review.obj is not None and review.old is None and _is_of(review, "pods"):
            add_defaults(self._limit_ranges(review), review.obj)

    def check(self, review: Review) -> None:
        """Let a write pass.

        Raises:
            Forbidden: the object asks for less or more than the namespace allows.
        """
        obj = review.obj
        if obj is None or (review.old or obj)["metadata"].get("deletionTimestamp"):
            return
        faults: Callable[[JsonObject, JsonObject], list[str]]
        if (_is_of(review, "pods") and review.old is None) or review.context.target.subresource == "resize":
            faults = pod_faults
        elif _is_of(review, "persistentvolumeclaims"):
            faults = claim_faults
        else:
            return
        for limit_range in self._limit_ranges(review):
            found = list(dict.fromkeys(faults(limit_range, obj)))
            if found:
                told = found[0] if len(found) == 1 else f"[{', '.join(found[:_MOST_FAULTS])}]"
                raise Forbidden(target_of(review.context.kind, review.name), told)

    def _limit_ranges(self, review: Review) -> Iterator[JsonObject]:
        for stored in self._hub.cache.in_namespace(LIMIT_RANGES, review.context.namespace):
            yield {"spec": spec_of(stored)}


def _is_of(review: Review, resource: str) -> bool:
    return review.context.kind.storage == resource and not review.context.target.subresource
