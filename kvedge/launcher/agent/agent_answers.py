"""The answers of a guest's agent, kept: no caller waits for a guest, but for one that has just come.

Kept by `guest_agent`; read by the run for the domain's status, and by the gRPC server's threads. Asks nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.agent_state import NOT_CONNECTED
from kvedge.launcher.agent.guest_agent_message import AgentFacts
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import Unanswered, WrongState
from kvedge.rpc.launcher_pb2 import DomainStatus, GuestAddress, GuestFilesystem, GuestFilesystems, GuestInfo, GuestUsers

# An agent that has just come is given so long to say the first thing.
FIRST_SECONDS: Final = 5.0
# An agent is asked for the load three times in that time.
FRESH_LOAD_SECONDS: Final = 60.0
# Calls that wait for that; the threads are for others as well.
MOST_WAITING: Final = 3

T = TypeVar("T")


class AgentAnswers:
    """One agent's answers; every method may be called from any thread."""

    def __init__(self, line: AgentLine) -> None:
        self._changed, self._state = line.changed, line.state
        self._waiting = 0

    def fill(self, status: DomainStatus) -> None:
        """Put what the agent has said into the domain's status."""
        with self._changed:
            facts = self._state.facts
            status.agent_trouble, status.agent_connected = self._state.trouble, self._state.is_connected
        facts.fill(status)

    def addresses(self, names: Mapping[str, str]) -> list[GuestAddress]:
        """The guest's NICs; `names` maps a MAC in lower case to the name of the VMI's interface."""
        with self._changed:
            found = self._state.facts.interfaces
        named = []
        for entry in found:
            copy = GuestAddress()
            copy.CopyFrom(entry)
            copy.interface = names.get(entry.mac, "")
            named.append(copy)
        return named

    def info(self) -> GuestInfo:
        """All that the agent has said, in short.

        Raises:
            LauncherError: when there is no agent, or one that has not answered yet.
        """
        try:
            return self._await(lambda facts: None if self._state.schedule.is_first_round else facts).info()
        except Unanswered:
            with self._changed:
                facts = self._state.facts
            if facts.system is None:
                raise
            return facts.info()

    def users(self) -> GuestUsers:
        """The users that are logged in. Raises LauncherError as :meth:`info`."""
        return GuestUsers(users=self._await(lambda facts: facts.users))

    def filesystems(self) -> GuestFilesystems:
        """What is mounted. Raises LauncherError as :meth:`info`."""
        return GuestFilesystems(filesystems=self._await(lambda facts: facts.filesystems))

    def known_filesystems(self) -> tuple[GuestFilesystem, ...]:
        """What is mounted, as an agent that is there has said last; nothing when none has. Never waits."""
        with self._changed:
            return (self._state.facts.filesystems or ()) if self._state.is_connected else ()

    def known_load(self) -> Mapping[str, int]:
        """How busy the guest is, as an agent that is there has said lately; nothing when none has. Never waits."""
        with self._changed:
            state = self._state
            is_fresh = state.is_connected and now() - state.load_told <= FRESH_LOAD_SECONDS
            return state.facts.load if is_fresh else {}

    def _await(self, what: Callable[[AgentFacts], T | None]) -> T:
        with self._changed:
            while (found := what(self._state.facts)) is None:
                if not self._state.is_connected:
                    raise WrongState(NOT_CONNECTED)
                left = self._state.since + FIRST_SECONDS - now()
                if left <= 0 or self._waiting >= MOST_WAITING:
                    raise Unanswered("the guest agent has not answered")
                self._waiting += 1
                self._changed.wait(left)
                self._waiting -= 1
            return found
