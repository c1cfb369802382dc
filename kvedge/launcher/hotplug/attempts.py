"""When a change of a running domain's devices is tried again, and from when on somebody should hear of it.

Called by the keepers of disks and NICs. Pure: no clock, no libvirt.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
# A guest that has heard it needs some seconds; to be asked again while it works does no good.
ASK_AGAIN_SECONDS: Final = 5.0
# From when on a guest that has not released a device is told of.
PATIENCE_SECONDS: Final = 30.0

Step = TypeVar("Step")


class Attempt(NamedTuple, Generic[Step]):
    """How a step has gone: since when and when again, in monotonic seconds; how often; the last error."""

    step: Step
    since: float
    tries: int
    due: float
    error: str = ""

    def is_told(self, now: float) -> bool:
        """Whether somebody should hear of it: an error at once, a guest's silence after a while."""
        return bool(self.error) or now - self.since >= PATIENCE_SECONDS


def note_attempt(before: Attempt[Step] | None, step: Step, now: float, error: str, *, asks: bool) -> Attempt[Step]:
    """What is known after a try, which has asked the guest to release something or not; the pauses double up to a
    minute."""
    tries = 1 if before is None else before.tries + 1
    first = ASK_AGAIN_SECONDS if asks and not error else FIRST_PAUSE
    pause = min(first * 2.0 ** min(tries - 1, 10), LONGEST_PAUSE)
    return Attempt(step, now if before is None else before.since, tries, now + pause, error)
