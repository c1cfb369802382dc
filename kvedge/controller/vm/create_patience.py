"""How long a loop waits before it creates an object again that the server refused.

Used by the loops of VMs and VMIs. A queue's back-off is not enough: the loop records the refusal on the owner, and that
change alone would make it try again at once. Touches the monotonic clock only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from msgspec import Struct

from kvedge.kube.reconcile_loop import backoff


class _Refusals(Struct):
    generation: int
    count: int
    not_before: float


class CreatePatience:
    """Refusals by the owner's UID. An owner with a changed spec is tried at once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._refusals: dict[str, _Refusals] = {}

    def count_seconds_left(self, uid: str, generation: int = 0) -> float:
        """How long to wait; `generation` is that of the spec, or 0 for an owner whose spec never changes."""
        refusals = self._refusals.get(uid)
        if refusals is None or refusals.generation != generation:
            return 0.0
        return max(0.0, refusals.not_before - self._monotonic())

    def note_refusal(self, uid: str, generation: int = 0) -> float:
        """Note a refusal, and return how long to wait."""
        old = self._refusals.get(uid)
        count = old.count + 1 if old is not None and old.generation == generation else 1
        # The first wait is a second: the server hardly accepts in the next moment what it has just refused.
        wait = min(60.0, 1.0 + 20 * backoff(count, random.random()))
        self._refusals[uid] = _Refusals(generation, count, self._monotonic() + wait)
        return wait

    def forget(self, uid: str) -> None:
        """The object was created, or its owner has gone."""
        self._refusals.pop(uid, None)
