"""Conditions of snapshots and restores: their words are reasons, as KubeVirt has them.

Called by both plans. Pure. What it waits for beside KubeVirt's words is in the condition's message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.resources.meta import Condition
from kvedge.runtime.clock import rfc3339

# A reason is part of each answer that lists; what a claim's provisioner says may be long.
_LONGEST: Final = 1000


def set_states(
    conditions: Sequence[Condition], now: datetime, *states: tuple[str, str, str], message: str = ""
) -> list[Condition]:
    """The conditions with these: type, status and reason of each. The message belongs to Progressing.

    An entry changes only with its status, reason or message.
    """
    made = list(conditions)
    for type_, status, reason in states:
        told = message[:_LONGEST] if type_ == "Progressing" else ""
        found = next((item for item in made if item.type == type_), None)
        if found is not None and (found.status, found.reason, found.message) == (status, reason[:_LONGEST], told):
            continue
        wanted = Condition(
            type=type_,
            status=status,
            reason=reason[:_LONGEST],
            message=told,
            last_transition_time=rfc3339(now),
        )
        made = with_condition(made, wanted, now)
    return made
