"""How long to leave an object alone whose creation the server refused.

Used by the loops of VMs and VMIs. A queue's back-off is not enough for that: recording the refusal is a change of the
owner, which would have the loop try again at once. Touches the monotonic clock only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from kvedge.kube.reconcile_loop import backoff


@dataclass(slots=True)
class _Refusals:
    generation: int
    count: int
    not_before: float


class CreatePatience:
    """Refusals by the owner's UID; a changed spec is worth a try at once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._refusals: dict[str, _Refusals] = {}

    def seconds_left(self, uid: str, generation: int = 0) -> float:
        """How long not to try; `generation` is that of the spec, or 0 for an owner whose spec never changes."""
        refusals = self._refusals.get(uid)
        if refusals is None or refusals.generation != generation:
            return 0.0
        return max(0.0, refusals.not_before - self._monotonic())

    def refused(self, uid: str, generation: int = 0) -> float:
        """Note a refusal; how long not to try."""
        old = self._refusals.get(uid)
        count = old.count + 1 if old is not None and old.generation == generation else 1
        # The first wait is a second: what was refused a moment ago will hardly be accepted in the next.
        wait = min(60.0, 1.0 + 20 * backoff(count, random.random()))
        self._refusals[uid] = _Refusals(generation, count, self._monotonic() + wait)
        return wait

    def forget(self, uid: str) -> None:
        """The object was created, or its owner has gone."""
        self._refusals.pop(uid, None)
