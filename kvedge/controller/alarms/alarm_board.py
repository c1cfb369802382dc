"""The present alarms, for those who tell them: which are news for a receiver, and which it has been told.

Filled by the checker; read by the tellers, each in a thread of its own. Touches nothing but its own memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from kvedge.resources.alarms.alarm_state import Alarm, Key


class AlarmBoard:
    """What is raised and what is over; it is the bounded queue of all tellers at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alarms: dict[Key, Alarm] = {}
        # By receiver: what it was told, until the checker has taken it over.
        self._told: dict[str, dict[Key, str]] = {}
        self._on_told: Callable[[], None] = lambda: None

    def on_told(self, callback: Callable[[], None]) -> None:
        """Call when a receiver was told something: that is to be written down."""
        self._on_told = callback

    def publish(self, alarms: Sequence[Alarm]) -> None:
        """These are the alarms from now on."""
        with self._changed:
            self._alarms = {alarm.key: alarm for alarm in alarms}
            self._changed.notify_all()

    def news_for(self, receiver: str) -> list[Alarm]:
        """What a receiver has to be told, the beginnings first."""
        with self._changed:
            told = self._told.get(receiver, {})
            news = [each for each in self._alarms.values() if _with_told(each, receiver, told).is_news_for(receiver)]
        return sorted(news, key=lambda each: (each.state, each.since, each.key))

    def mark_told(self, receiver: str, alarms: Sequence[Alarm]) -> None:
        """The receiver has taken them."""
        with self._changed:
            self._told.setdefault(receiver, {}).update({each.key: str(each.state) for each in alarms})
        self._on_told()

    def take_told(self, alarms: Sequence[Alarm]) -> list[Alarm]:
        """The same alarms, with what receivers have been told since; for the checker, before it writes them down."""
        with self._changed:
            told, self._told = self._told, {}
            # What is told meanwhile is news no more, also before the checker has published it.
            self._alarms = {key: _with_all_told(alarm, told) for key, alarm in self._alarms.items()}
        return [_with_all_told(alarm, told) for alarm in alarms]

    def wait(self, seconds: float) -> None:
        """Return when alarms were published, after so many seconds at the latest."""
        with self._changed:
            self._changed.wait(seconds)

    def wake(self) -> None:
        """Have all that wait look again, because they are to end."""
        with self._changed:
            self._changed.notify_all()


def _with_all_told(alarm: Alarm, told: dict[str, dict[Key, str]]) -> Alarm:
    for receiver, states in told.items():
        alarm = _with_told(alarm, receiver, states)
    return alarm


def _with_told(alarm: Alarm, receiver: str, states: dict[Key, str]) -> Alarm:
    state = states.get(alarm.key)
    return alarm if state is None else msgspec.structs.replace(alarm, told={**alarm.told, receiver: state})
