"""The guest agent: one thread asks it what is due, and its parts answer, probe, order, freeze and set the clock.

Kept by `domain_run`. An agent may take its time or never answer, so what is asked regularly is asked by that thread
alone. What the agent says goes through `guest_agent_message` before anyone sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvedge.launcher.agent.agent_answers import AgentAnswers
from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.agent_orders import AgentOrders
from kvedge.launcher.agent.agent_probes import AgentProbes
from kvedge.launcher.agent.agent_schedule import Question
from kvedge.launcher.agent.agent_state import Answer, Task
from kvedge.launcher.agent.guest_agent_message import BadAnswer, surplus, take
from kvedge.launcher.agent.guest_clock import GuestClock
from kvedge.launcher.agent.guest_freeze import FreezeRecord, GuestFreeze, now
from kvedge.launcher.agent.guest_freezer import GuestFreezer
from kvedge.launcher.launcher_errors import LauncherError, Unanswered, Unreadable, WrongState
from kvedge.runtime.background import BackgroundThread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


class GuestAgent:
    """The agent of one guest; every method, and those of its parts, may be called from any thread."""

    def __init__(self, session: LibvirtSession, record: FreezeRecord, on_change: Callable[[], None]) -> None:
        """`on_change()` is called in any thread when what belongs to the domain's status has changed."""
        self._on_change = on_change
        self._freeze = GuestFreeze(record)
        self.line = AgentLine(session)
        self.answers = AgentAnswers(self.line)
        self.probes = AgentProbes(self.line, self._freeze, on_change)
        self.orders = AgentOrders(self.line, self._freeze)
        self.freezer = GuestFreezer(session, self.line, self._freeze, on_change)
        self.clock = GuestClock(self.line)
        self._thread: BackgroundThread | None = None

    def follow(self, *, connected: bool, running: bool) -> None:
        """Whether an agent is there now, and whether the guest's CPUs run, without which it cannot answer."""
        with self.line.changed:
            arrival = self.line.state.follow(connected=connected, running=running, now=now())
            if arrival.is_another:
                self.probes.forget()
            if arrival.came and self._thread is None:
                self._thread = BackgroundThread("guest-agent", self._ask_on)
                self._thread.start()
            if arrival.came or arrival.woke:
                self.line.changed.notify_all()
        self.clock.follow(arrival, can_answer=connected and running)

    def _ask_on(self) -> None:
        while True:
            task = self._await_next()
            with self.line.talking:
                if task.question is None:
                    self.freezer.thaw_in_time()
                else:
                    self._conclude(self._ask(task.question, task.visit))

    def _await_next(self) -> Task:
        """Wait until there is something to do."""
        with self.line.changed:
            while True:
                moment = now()
                task, pause = self.line.state.next_task(moment, self._freeze.wait(moment), promised=self._freeze.is_on)
                if task is not None:
                    return task
                self.line.changed.wait(pause)

    def _ask(self, question: Question, visit: int) -> Answer:
        facts = self.line.state.facts
        try:
            value = self.line.hear(question.value)
            trouble = surplus(question, value)
            return Answer(question, visit, take(facts, question, value), _describe_trouble(question, trouble))
        except (BadAnswer, Unreadable) as error:
            # As good as none, but for what it costs to read the next one.
            return Answer(question, visit, facts, _describe_trouble(question, str(error)), is_silent=True)
        except (Unanswered, WrongState) as error:
            log.debug("the guest agent did not answer", extra={"facts": {"to": question.value, "why": str(error)}})
            return Answer(question, visit, facts, is_silent=True)
        except LauncherError as error:
            # It does not know the command, or does not obey it now.
            log.debug("the guest agent refused", extra={"facts": {"what": question.value, "why": str(error)}})
            return Answer(question, visit, facts, is_refused=True)

    def _conclude(self, answer: Answer) -> None:
        state = self.line.state
        with self.line.changed:
            if answer.visit != state.visit:
                return
            if answer.says_thawed:
                # While it is being frozen nothing is asked.
                self._freeze.note_thaw()
            outcome = state.conclude(answer, now(), promised=self._freeze.is_on)
            self.line.changed.notify_all()
        if outcome.trouble:
            log.warning("the guest agent misbehaves", extra={"facts": {"how": outcome.trouble}})
        if outcome.tell:
            self._on_change()


def _describe_trouble(question: Question, trouble: str) -> str:
    return f"its answer to {question.value} {trouble}" if trouble else ""
