"""The probes that a guest's agent answers: a ping, a program that it runs.

Kept by `guest_agent`; called by the gRPC server's threads. A guest that is frozen by request fails no probe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.guest_exec import GuestExec
from kvedge.launcher.agent.guest_freeze import GuestFreeze, now
from kvedge.launcher.agent.ping_failures import PingFailures
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.rpc.launcher_pb2 import DomainStatus, GuestExecReply


class AgentProbes:
    """The probes of one guest; methods may be called from any thread."""

    def __init__(self, line: AgentLine, freeze: GuestFreeze, on_failure: Callable[[], None]) -> None:
        """`on_failure()` is called in any thread when one more failure is to be told of."""
        self._line = line
        self._on_failure = on_failure
        self._failures = PingFailures()
        self._freeze = freeze
        self._exec = GuestExec(line.ask)

    def forget(self) -> None:
        """The agent is another one: it knows nothing of the programs before."""
        self._exec.forget()

    def ping(self, seconds: int) -> None:
        """Whether the agent answers in time; while it freezes or thaws it is taken to.

        Raises:
            LauncherError: when it does not.
        """
        with self._line.changed:
            busy = self._line.state.is_requested
        if busy:
            return
        try:
            self._line.ask("guest-ping", {}, now() + seconds)
        except LauncherError:
            if self._failures.note_failure(now()):
                self._on_failure()
            raise

    def fill(self, status: DomainStatus) -> None:
        """Put what is told of failed pings into the domain's status."""
        status.failed_pings = self._failures.told

    def execute(self, command: Sequence[str], seconds: int, is_wanted: Callable[[], bool]) -> GuestExecReply:
        """Have the agent run a program, and wait for its end, as long as `is_wanted()`.

        While file systems are frozen by request, nothing is run: that is no failure of the guest.

        Raises:
            LauncherError: when it does not end in time, or does not begin.
        """
        with self._line.changed:
            busy = self._line.state.is_requested or self._freeze.is_on
        if busy:
            return GuestExecReply(output="not asked: the guest's file systems are frozen")
        return self._exec.run(command, now() + seconds, is_wanted)
