"""How lists of conditions change: an entry's time of transition moves only when its status does.

Called by the planners of VMs and VMIs. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from kvedge.resources.meta import Condition, condition
from kvedge.runtime.clock import rfc3339


def with_condition(conditions: Sequence[Condition], wanted: Condition, now: datetime) -> list[Condition]:
    """`conditions` with `wanted` at its old place or at the end; a transition time that it brings along is kept."""
    old = condition(list(conditions), wanted.type)
    moved = wanted.last_transition_time or rfc3339(now)
    if old is not None and old.status == wanted.status:
        moved = old.last_transition_time or moved
    made = Condition(
        type=wanted.type,
        status=wanted.status,
        reason=wanted.reason,
        message=wanted.message,
        last_probe_time=None if old is None else old.last_probe_time,
        last_transition_time=moved,
    )
    if old is None:
        return [*conditions, made]
    return [made if item.type == wanted.type else item for item in conditions]


def without_conditions(conditions: Sequence[Condition], types: Collection[str]) -> list[Condition]:
    """`conditions` without those of the given types."""
    return [item for item in conditions if item.type not in types]
