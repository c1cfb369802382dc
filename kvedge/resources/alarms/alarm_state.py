"""How alarms are raised and cleared: what is kept and what is seen now goes in, what is kept from now on comes out.

Called by the controller's checker. Pure. An alarm that is over is kept until all receivers have heard of it, for a
week at most; and what receivers have been told is kept with it, so that a restart tells nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from kvedge.resources.alarms.alarm_rules import RULES, Severity
from kvedge.runtime.clock import rfc3339, seconds_since

# Of all rules together. What is more is counted, and raised when there is room.
MOST_ALARMS: Final = 200
LONGEST_MESSAGE: Final = 300
# A link may be down for days.
_LONGEST_UNTOLD_SECONDS: Final = 7 * 86400.0
# A message that has changed, such as a percentage, is written again after so long.
_SAME_WORDS_SECONDS: Final = 600.0
_SEVERITIES: Final = tuple(Severity)


class State(StrEnum):
    """What an alarm is: not yet told of, raised, or over."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Target(NamedTuple):
    """The object that an alarm is about; `part` is a part of it, such as a file system, and mostly empty."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    part: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


class Key(NamedTuple):
    """By which an alarm is known again. Another UID is another object, of which nothing is known."""

    rule: str
    kind: str
    namespace: str
    name: str
    part: str


class Sighting(Struct, frozen=True):
    """What one rule sees of one object now; `level` is None when nobody can tell now, and then nothing changes."""

    rule: str
    target: Target
    level: float | None
    message: str = ""
    # A word for machines, where the rule's name is not enough.
    reason: str = ""

    @property
    def key(self) -> Key:
        """By which its alarm is known."""
        return Key(self.rule, self.target.kind, self.target.namespace, self.target.name, self.target.part)


class Alarm(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One alarm, as it is kept; times are RFC 3339 text."""

    rule: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    state: State
    # Since when it is in this state.
    since: str
    message: str = ""
    reason: str = ""
    part: str = ""
    raised: str = ""
    # While it fires: since when the object is well again.
    well_since: str = ""
    # The state that each receiver was told last.
    told: Mapping[str, str] = {}
    written: str = ""

    @property
    def key(self) -> Key:
        """By which it is known again."""
        return Key(self.rule, self.kind, self.namespace, self.name, self.part)

    @property
    def target(self) -> Target:
        """What it is about."""
        return Target(self.api_version, self.kind, self.namespace, self.name, self.uid, self.part)

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return RULES[self.rule].severity

    def is_news_for(self, receiver: str) -> bool:
        """Whether that receiver has not heard of this state; one that never heard of an alarm needs no end of it."""
        last = self.told.get(receiver, "")
        return (self.state == State.FIRING and last != State.FIRING) or (
            self.state == State.RESOLVED and last == State.FIRING
        )


class Turn(Struct, frozen=True):
    """What is kept from now on, which alarms have begun or ended with it, and how many had no room."""

    alarms: tuple[Alarm, ...]
    raised: tuple[Alarm, ...] = ()
    resolved: tuple[Alarm, ...] = ()
    left_out: int = 0


def next_turn(kept: Sequence[Alarm], seen: Iterable[Sighting], receivers: Collection[str], now: datetime) -> Turn:
    """One look. An object that is no longer among what is seen has gone, and its alarms with it."""
    before = {alarm.key: alarm for alarm in kept if alarm.rule in RULES}
    after: list[Alarm] = []
    gone = dict(before)
    for sighting in seen:
        alarm = gone.pop(sighting.key, None)
        if alarm is not None and alarm.uid != sighting.target.uid:
            alarm = _resolve(alarm, now)
        if (judged := _judge(alarm, sighting, now)) is not None:
            after.append(judged)
    after += [over for alarm in gone.values() if (over := _resolve(alarm, now)) is not None]
    after = [alarm for alarm in after if not _is_done_with(alarm, receivers, now)]
    # Where there is no room for all, ends go first. Those that are known stay, and of the new ones the worst come in.
    after.sort(
        key=lambda each: (
            each.state == State.RESOLVED,
            each.key not in before,
            _SEVERITIES.index(each.severity),
            each.key,
        )
    )
    left_out = max(0, len(after) - MOST_ALARMS)
    alarms = tuple(sorted(after[:MOST_ALARMS], key=lambda each: each.key))
    states = {key: alarm.state for key, alarm in before.items()}
    raised = [each for each in alarms if each.state == State.FIRING != states.get(each.key)]
    firing = _firing(alarms)
    resolved = [each for each in before.values() if each.state == State.FIRING and each.key not in firing]
    return Turn(alarms, tuple(raised), tuple(resolved), left_out)


def _firing(alarms: Iterable[Alarm]) -> set[Key]:
    return {alarm.key for alarm in alarms if alarm.state == State.FIRING}


def _judge(alarm: Alarm | None, seen: Sighting, now: datetime) -> Alarm | None:
    """What one alarm is after one sighting; None for none."""
    rule = RULES[seen.rule]
    if seen.level is None:
        return alarm
    stamp = rfc3339(now)
    if not rule.is_bad(seen.level, was_bad=alarm is not None and alarm.state != State.RESOLVED):
        return None if alarm is None else _calm(alarm, rule.rest, now)
    if alarm is None or alarm.state == State.RESOLVED:
        told = {} if alarm is None else alarm.told
        alarm = Alarm(*_name(seen), state=State.PENDING, since=stamp, part=seen.target.part, told=told)
        alarm = _with_words(alarm, seen, now)
    if alarm.state == State.PENDING:
        if _seconds(alarm.since, now) < rule.hold:
            return alarm
        return _with_words(msgspec.structs.replace(alarm, state=State.FIRING, since=stamp, raised=stamp), seen, now)
    if seen.message != alarm.message and _seconds(alarm.written, now) >= _SAME_WORDS_SECONDS:
        alarm = _with_words(alarm, seen, now)
    return msgspec.structs.replace(alarm, well_since="") if alarm.well_since else alarm


def _calm(alarm: Alarm, rest: float, now: datetime) -> Alarm | None:
    """Nothing is bad now."""
    if alarm.state != State.FIRING:
        return alarm if alarm.state == State.RESOLVED else _told_only(alarm, now)
    if rest == 0:
        return _resolve(alarm, now)
    if not alarm.well_since:
        return msgspec.structs.replace(alarm, well_since=rfc3339(now))
    return _resolve(alarm, now) if _seconds(alarm.well_since, now) >= rest else alarm


def _resolve(alarm: Alarm, now: datetime) -> Alarm | None:
    if alarm.state == State.PENDING:
        return _told_only(alarm, now)
    if alarm.state == State.RESOLVED:
        return alarm
    return msgspec.structs.replace(alarm, state=State.RESOLVED, since=rfc3339(now), well_since="")


def _told_only(alarm: Alarm, now: datetime) -> Alarm | None:
    """What is left of an alarm that was pending: that it is over, where a receiver still believes that it fires."""
    if State.FIRING not in alarm.told.values():
        return None
    return msgspec.structs.replace(alarm, state=State.RESOLVED, since=rfc3339(now))


def _is_done_with(alarm: Alarm, receivers: Collection[str], now: datetime) -> bool:
    if alarm.state != State.RESOLVED:
        return False
    waits = any(alarm.is_news_for(receiver) for receiver in receivers)
    return not waits or _seconds(alarm.since, now) >= _LONGEST_UNTOLD_SECONDS


def _name(seen: Sighting) -> tuple[str, str, str, str, str, str]:
    target = seen.target
    return seen.rule, target.api_version, target.kind, target.namespace, target.name, target.uid


def _with_words(alarm: Alarm, seen: Sighting, now: datetime) -> Alarm:
    words = seen.message or RULES[seen.rule].summary
    if len(words) > LONGEST_MESSAGE:
        words = f"{words[: LONGEST_MESSAGE - 1]}…"
    return msgspec.structs.replace(alarm, message=words, reason=seen.reason or seen.rule, written=rfc3339(now))


def _seconds(since: str, now: datetime) -> float:
    # A clock that was set back makes an alarm late, and never wrong.
    return max(0.0, seconds_since(since, now) or 0.0)
