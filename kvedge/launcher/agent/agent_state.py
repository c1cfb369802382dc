"""What is known of a guest's agent, and what follows: whether it can be asked, what comes next, what is worth telling.

Kept by `agent_line`, under its lock. Pure: times are seconds of any clock that only goes forward.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvedge.launcher.agent.agent_schedule import AgentSchedule, Question
from kvedge.launcher.agent.guest_agent_message import AgentFacts, take
from kvedge.launcher.launcher_errors import WrongState

# libvirt calls it so, and with it KubeVirt and those who look for these words.
NOT_CONNECTED: Final = "the QEMU guest agent is not connected"
# So many questions without answer are worth a word.
_SILENCES: Final = 3


class Arrival(NamedTuple):
    """What is different now: an agent came, it is not the one before (or gone), the guest's CPUs run again, and for how
    many seconds they had stood, as far as that was seen.
    """

    came: bool
    is_another: bool
    woke: bool
    slept: float = 0.0


class Task(NamedTuple):
    """What to do next with the agent of a visit: to ask a question, or with None to thaw."""

    question: Question | None
    visit: int


class Answer(NamedTuple):
    """What came of a question: the facts as they are with it, what is wrong with it, whether it is as good as none."""

    question: Question
    visit: int
    facts: AgentFacts
    trouble: str = ""
    is_silent: bool = False
    is_refused: bool = False

    @property
    def says_thawed(self) -> bool:
        """Whether the agent itself says that nothing is frozen, as after a reboot."""
        return self.question is Question.FREEZE_STATUS and self.facts.freeze_status == "thawed" and not self.is_silent


class Outcome(NamedTuple):
    """What to tell: the log, of a new trouble; everybody, of news."""

    trouble: str
    tell: bool


class AgentState:
    """One guest's agent, whichever it is at present."""

    def __init__(self) -> None:
        self.facts = AgentFacts()
        self.trouble = ""
        self.is_connected = False
        # The guest's CPUs run, without which an agent cannot answer.
        self.is_running = False
        # When they were seen to stand.
        self._stood_at: float | None = None
        # When the agent of now came.
        self.since = 0.0
        # Changes with each agent that connects, so that the answers of one are never taken for the next one's.
        self.visit = 0
        # A request to freeze or thaw is under way: nothing else is asked meanwhile, as a lock has no queue.
        self.is_requested = False
        self.schedule = AgentSchedule()
        # When the agent said last how busy the guest is.
        self.load_told = 0.0
        self._news = False

    def follow(self, *, connected: bool, running: bool, now: float) -> Arrival:
        """Take over what libvirt says of the agent and of the guest's CPUs."""
        came, woke = connected and not self.is_connected, running and not self.is_running
        is_another = came or (self.is_connected and not connected)
        if is_another:
            self.visit += 1
            self.facts, self.trouble, self.since = AgentFacts(), "", now
            self.schedule.restart(now)
        elif woke:
            self.schedule.resume(now)
        slept = now - self._stood_at if woke and self._stood_at is not None else 0.0
        if running:
            self._stood_at = None
        elif self._stood_at is None:
            self._stood_at = now
        self.is_connected, self.is_running = connected, running
        return Arrival(came, is_another, woke, slept)

    def check(self) -> None:
        """Raises WrongState when nothing can be asked at present."""
        if not self.is_connected:
            raise WrongState(NOT_CONNECTED)
        if not self.is_running:
            raise WrongState("the guest is paused, so that its agent cannot answer")

    def takes_orders(self, *, promised: bool) -> bool:
        """Whether an order to the agent makes sense; `promised` as for `next_task`."""
        able = self.is_connected and self.is_running and self.schedule.silences == 0
        return able and not self._is_frozen(promised)

    def next_task(self, now: float, thaw: float, *, promised: bool) -> tuple[Task | None, float | None]:
        """What to do now, or None and for how many seconds there is nothing, None for until something changes.

        `thaw` is in how many seconds the guest is to thaw; `promised` says that the launcher has frozen it.
        """
        if not self.is_connected or not self.is_running or self.is_requested:
            return None, None
        if thaw <= 0:
            return Task(None, self.visit), 0.0
        question, pause = self.schedule.next(now, frozen=self._is_frozen(promised))
        if question is not None:
            return Task(question, self.visit), 0.0
        return None, min(pause, thaw)

    def conclude(self, answer: Answer, now: float, *, promised: bool) -> Outcome:
        """Take an answer of this visit in."""
        trouble = answer.trouble
        if answer.is_silent:
            self.schedule.note_silence(answer.question, now)
            trouble = trouble or ("it does not answer" if self.schedule.silences == _SILENCES else "")
        else:
            self.schedule.note_answer(answer.question, now, refused=answer.is_refused)
            if answer.question is Question.LOAD:
                self.load_told = now
        is_worse = bool(trouble) and trouble != self.trouble
        self._news = self._news or is_worse or answer.facts != self.facts
        self.facts, self.trouble = answer.facts, trouble or self.trouble
        # The first answers of an agent that has come are told together, not one by one: each is a write to the API.
        tell = self._news and self.schedule.next(now, frozen=self._is_frozen(promised))[0] is None
        self._news = self._news and not tell
        return Outcome(trouble if is_worse else "", tell)

    def note_freeze(self, status: str, now: float) -> None:
        """The launcher has frozen or thawed the guest, which the agent is soon asked to confirm."""
        self.facts = take(self.facts, Question.FREEZE_STATUS, status)
        self.schedule.hasten(Question.FREEZE_STATUS, now)

    def _is_frozen(self, promised: bool) -> bool:
        return promised or self.facts.freeze_status == "frozen"
