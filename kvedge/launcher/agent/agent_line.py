"""The line to a guest's agent: whose turn it is to talk.

Kept by `guest_agent`, used by all that talks to the agent. libvirt lets one call at a time talk to an agent and makes
the others wait, so everybody takes a turn here first.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kvedge.launcher.agent.agent_state import AgentState
from kvedge.launcher.agent.guest_agent_message import BadAnswer, read_answer
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import LibvirtFailed, Unanswered, Unreadable, WrongState

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

# How long an agent may take for an answer.
ANSWER_SECONDS: Final = 5
# So long a freeze waits for the end of the question that is just being asked.
TURN_SECONDS: Final = 10.0


class AgentLine:
    """The way to one guest's agent; methods may be called from any thread."""

    def __init__(self, session: LibvirtSession) -> None:
        self._session = session
        # Held by the thread that talks to the agent.
        self.talking = threading.Lock()
        # Guards the state; told of each change of it that somebody may wait for.
        self.changed = threading.Condition()
        self.state = AgentState()

    def wake(self) -> None:
        """Have those who wait look again."""
        with self.changed:
            self.changed.notify_all()

    @contextlib.contextmanager
    def take_turn(self) -> Iterator[None]:
        """The right to talk to an agent that is there, for a request; of these, one at a time.

        Raises:
            LauncherError: when it cannot be had in time.
        """
        with self.changed:
            self.state.check()
            if self.state.is_requested:
                raise Unanswered("the guest agent is freezing or thawing already")
            self.state.is_requested = True
        try:
            if not self.talking.acquire(timeout=TURN_SECONDS):
                raise Unanswered("the guest agent is busy")
            try:
                yield
            finally:
                self.talking.release()
        finally:
            with self.changed:
                self.state.is_requested = False
                self.changed.notify_all()

    def hear(self, command: str) -> Any:
        """The agent's answer to a command; the caller has the turn.

        Raises:
            BadAnswer: when it makes no sense.
            LauncherError: when the agent refuses or does not answer.
        """
        return read_answer(self._session.ask_agent(command, ANSWER_SECONDS))

    def ask(self, command: str, arguments: dict[str, Any] | Callable[[], dict[str, Any]], until: float) -> Any:
        """What the agent answers between the questions of others, `until` a time of `guest_freeze.now`.

        `arguments()` are those of the moment in which it is asked.

        Raises:
            LauncherError: when the agent refuses or does not answer in time.
        """
        with self.changed:
            self.state.check()
        if not self.talking.acquire(timeout=max(0.0, until - now())):
            raise Unanswered("the guest agent is busy")
        try:
            # libvirt counts in whole seconds.
            left = math.ceil(until - now())
            if left <= 0:
                raise Unanswered("the guest agent did not answer in time")
            given = arguments() if callable(arguments) else arguments
            return read_answer(self._session.ask_agent(command, left, given))
        except (BadAnswer, Unreadable) as error:
            raise Unanswered(f"the guest agent's answer {error}") from error
        except LibvirtFailed as error:
            # It does not know the command, or must not obey it: the guest's own affair, and no defect of ours.
            raise WrongState(f"the guest agent refuses: {error.detail}") from error
        finally:
            self.talking.release()
