"""What the statuses of ReplicaSets and of pools have in common.

Called by both. Pure. A failure's condition keeps the words that it began with, as in KubeVirt: a change of the status
wakes the loop, and words that change with each try would have it try without a pause.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Protocol

from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, KubeStruct, encode
from kvedge.resources.meta import Condition, condition
from kvedge.runtime.clock import rfc3339

PAUSED: Final = "ReplicaPaused"
FAILURE: Final = "ReplicaFailure"
_LONGEST_MESSAGE: Final = 1024
# What is owned changes one after the other: so many changes are counted in one pass and one write. A pass looks at all
# of them, so that many are waited for longer: else the work would grow with the square of their number.
_GATHER_SECONDS: Final = 0.2
_GATHER_SECONDS_EACH: Final = 0.002
_LONGEST_GATHER_SECONDS: Final = 2.0


class _Scaled(Protocol):
    status: Any


def gather_seconds(replicas: int | None) -> float:
    """For how long changes of so many replicas are gathered."""
    return min(_LONGEST_GATHER_SECONDS, max(_GATHER_SECONDS, _GATHER_SECONDS_EACH * (replicas or 0)))


def make_conditions(
    known: list[Condition], paused: tuple[str, str] | None, failure: tuple[str, str] | None, now: datetime
) -> list[Condition]:
    """The conditions that follow on those that are known; both are reasons and messages, None for what is not so."""
    return list(_make_conditions(known, {PAUSED: paused, FAILURE: failure}, now))


def _make_conditions(
    known: list[Condition], wanted: dict[str, tuple[str, str] | None], now: datetime
) -> Iterator[Condition]:
    for kind, said in wanted.items():
        if said is None:
            continue
        there = condition(known, kind)
        if there is not None and there.reason == said[0]:
            yield there
        else:
            message = said[1][:_LONGEST_MESSAGE]
            yield Condition(
                type=kind, status="True", reason=said[0], message=message, last_transition_time=rfc3339(now)
            )


def status_body(item: _Scaled, status: KubeStruct) -> JsonObject:
    """The merge patch that brings the status there; empty when it is there."""
    body = merge_difference(encode(item.status), encode(status))
    return {"status": body} if body else {}


def find_pause_change(known: list[Condition], wanted: list[Condition]) -> bool | None:
    """Whether it is paused from now on, or goes on; None when neither."""
    was, is_now = (condition(each, PAUSED) is not None for each in (known, wanted))
    return None if was == is_now else is_now
