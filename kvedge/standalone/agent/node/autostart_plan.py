"""In which order VMs start after their box has been booted. Pure.

Called by the scheduler loop, which binds a launcher Pod only when its turn has come. A VM whose template carries the
annotation `kvedge.io/autostart-order` (a whole number) waits, in the first minutes after kvedge's start, until those
with a smaller one run, and for each of them as long as its `kvedge.io/autostart-delay` (seconds) says. VMs without an
order wait for nobody. A VM that does not get up holds the others only for a while; a delay is ten minutes at most, and
an hour after kvedge's start nobody waits any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from kvedge.resources.names import AUTOSTART_DELAY, AUTOSTART_ORDER, LONGEST_AUTOSTART_DELAY
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.runtime.clock import parse_rfc3339

# A later Pod is started by a user, who does not want to wait for other VMs.
# An older Pod ran before kvedge was restarted, or has waited long enough.
WINDOW: Final = timedelta(seconds=120)
# The controller makes the Pods one after the other: the first one cannot know of all the others.
SETTLE: Final = timedelta(seconds=3)
# So long one that does not get up is waited for.
PATIENCE: Final = timedelta(seconds=300)
# A user may make any number of VMs with orders before all others: the row must end at some time.
LONGEST: Final = timedelta(seconds=3600)


class NotYet(Struct, frozen=True):
    """Why a Pod waits for others, and after how many seconds to look again at the latest."""

    reason: str
    seconds: float


def autostart_turn(pod: Pod, others: Iterable[Pod], began: datetime, now: datetime) -> NotYet | None:
    """None when it is a Pod's turn; `began` is when kvedge started, `others` are all Pods."""
    order = _number(pod, AUTOSTART_ORDER)
    if order is None or not _is_of_the_boot(pod, began) or now >= began + LONGEST:
        return None
    # A busy box may take longer than that until its controller makes the first one.
    settled = max(began, _moment(pod.metadata.creation_timestamp) or began) + SETTLE
    if now < settled:
        return NotYet("others may have to start before it", (settled - now).total_seconds())
    waits = [wait for other in others if (wait := _wait_for(other, order, began, now)) is not None]
    return min(waits, key=lambda wait: wait.seconds, default=None)


def _wait_for(other: Pod, order: int, began: datetime, now: datetime) -> NotYet | None:
    earlier = _number(other, AUTOSTART_ORDER)
    if earlier is None or earlier >= order or not _is_of_the_boot(other, began):
        return None
    if other.metadata.deletion_timestamp is not None or other.status.phase in FINAL_POD_PHASES:
        return None
    name = f"{other.metadata.namespace}/{other.metadata.name}"
    made = _moment(other.metadata.creation_timestamp) or now
    if other.status.phase != "Running":
        left = (made + PATIENCE - now).total_seconds()
        return NotYet(f"waits for {name}, which starts before it", min(left, 5.0)) if left > 0 else None
    # Admission allows no more either; what was there before may ask for days.
    delay = timedelta(seconds=min(_number(other, AUTOSTART_DELAY) or 0, LONGEST_AUTOSTART_DELAY))
    left = (_running_since(other, made) + delay - now).total_seconds()
    return NotYet(f"waits {delay.seconds} s after the start of {name}", left) if left > 0 else None


def _running_since(pod: Pod, made: datetime) -> datetime:
    moments = [
        moment
        for status in pod.status.container_statuses
        if status.state is not None
        and status.state.running is not None
        and (moment := _moment(status.state.running.started_at))
    ]
    return max(moments, default=made)


def _is_of_the_boot(pod: Pod, began: datetime) -> bool:
    made = _moment(pod.metadata.creation_timestamp)
    return made is not None and began - WINDOW <= made <= began + WINDOW


def _moment(text: str | None) -> datetime | None:
    return parse_rfc3339(text) if text else None


def _number(pod: Pod, name: str) -> int | None:
    text = pod.metadata.annotations.get(name, "")
    # Admission has refused anything else; a Pod that was written by hand has no order then.
    return int(text) if text.isdecimal() and len(text) < 10 else None
