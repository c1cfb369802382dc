"""When a guest's agent is asked what, and how often a change of what it says is told.

Kept by `agent_state` and `domain_view`. Pure: times are seconds of any clock that only goes forward. An agent that does
not answer is asked ever less often, so that a silent one costs next to nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar


class Question(Enum):
    """What an agent is asked; the values are its commands."""

    INFO = "guest-info"
    SYSTEM = "guest-get-osinfo"
    HOST_NAME = "guest-get-host-name"
    TIME_ZONE = "guest-get-timezone"
    INTERFACES = "guest-network-get-interfaces"
    FILESYSTEMS = "guest-get-fsinfo"
    USERS = "guest-get-users"
    FREEZE_STATUS = "guest-fsfreeze-status"
    # Agents of QEMU 10 know it.
    LOAD = "guest-get-load"


# As often as KubeVirt asks.
SECONDS: Final = {
    Question.INFO: 300.0,
    Question.SYSTEM: 120.0,
    Question.HOST_NAME: 120.0,
    Question.TIME_ZONE: 120.0,
    Question.INTERFACES: 120.0,
    Question.FILESYSTEMS: 300.0,
    Question.USERS: 10.0,
    Question.FREEZE_STATUS: 5.0,
    Question.LOAD: 20.0,
}
# An agent that does not know a question may be replaced by a later one while it stays connected.
REFUSED_SECONDS: Final = 300.0
# Most agents refuse these for good. The others may be refused for a while alone.
_MAY_BE_UNKNOWN: Final = frozenset({Question.LOAD})
# A guest that has just booted gets its addresses one by one.
_EAGER_SECONDS: Final = (2.0, 5.0, 10.0, 30.0)
# After the first silence, and at most; it doubles in between.
_SILENT_SECONDS: Final = 5.0
_LONGEST_SILENCE: Final = 120.0
# An agent in a frozen guest refuses everything else.
_WHILE_FROZEN: Final = frozenset({Question.INFO, Question.FREEZE_STATUS})


# An agent's facts may change so often at once (it comes, then its addresses one by one, and a snapshot freezes it), and
# so often a minute for ever. Each change is a write to the API.
_CHANGES: Final = 40.0
_CHANGES_A_MINUTE: Final = 6.0

T = TypeVar("T")


class Steady(Generic[T]):
    """What is told of something that a guest can change as often as it likes."""

    def __init__(self, first: T) -> None:
        self._told = first
        self._left = _CHANGES
        self._since: float | None = None

    def settle(self, value: T, now: float) -> T:
        """The value to tell now; a caller that goes on looking is told the true one in the end."""
        if self._since is not None:
            self._left = min(_CHANGES, self._left + (now - self._since) * _CHANGES_A_MINUTE / 60)
        self._since = now
        if value != self._told and self._left >= 1:
            self._told = value
            self._left -= 1
        return self._told

    def grant(self) -> None:
        """The next change is not the guest's doing."""
        self._left += 1


class AgentSchedule:
    """Which question is due, for one agent."""

    def __init__(self) -> None:
        self._due: dict[Question, float] = {}
        self._unasked: set[Question] = set()
        self._eager = 0
        self._silences = 0
        self._not_before = 0.0
        self.restart(0.0)

    def restart(self, now: float) -> None:
        """Another agent is there, of which nothing is known: ask everything."""
        self._due = dict.fromkeys(Question, now)
        self._unasked = set(Question)
        self._eager = 0
        self.resume(now)

    def resume(self, now: float) -> None:
        """The agent may answer again, for the guest has been stopped meanwhile."""
        self._silences = 0
        self._not_before = now

    @property
    def is_first_round(self) -> bool:
        """Whether something has not been asked yet."""
        return bool(self._unasked)

    @property
    def silences(self) -> int:
        """How many questions in a row the agent has left unanswered; it stops counting somewhere."""
        return self._silences

    def next(self, now: float, *, frozen: bool) -> tuple[Question | None, float]:
        """The question to ask now, or None and for how many seconds there is none."""
        asked = _WHILE_FROZEN if frozen else frozenset(Question)
        question, due = min(
            ((question, due) for question, due in self._due.items() if question in asked), key=lambda item: item[1]
        )
        wait = max(due, self._not_before) - now
        return (question, 0.0) if wait <= 0 else (None, wait)

    def hasten(self, question: Question, now: float) -> None:
        """Something has happened that changes the answer."""
        self._due[question] = min(self._due[question], now)

    def note_answer(self, question: Question, now: float, *, refused: bool = False) -> None:
        """Note that the agent has answered a question, or refused it."""
        pause = REFUSED_SECONDS if refused and question in _MAY_BE_UNKNOWN else SECONDS[question]
        if question is Question.INTERFACES and self._eager < len(_EAGER_SECONDS):
            pause = _EAGER_SECONDS[self._eager]
            self._eager += 1
        self._due[question] = now + pause
        self._unasked.discard(question)
        self._silences = 0

    def note_silence(self, question: Question, now: float) -> None:
        """Note that the agent has not answered a question in time."""
        self._not_before = now + min(_LONGEST_SILENCE, _SILENT_SECONDS * 2**self._silences)
        # Bounds the exponent.
        self._silences = min(self._silences + 1, 16)
        # Another question comes first next time: perhaps the agent cannot answer this one.
        self._due[question] = now + SECONDS[question]
        self._unasked.discard(question)
