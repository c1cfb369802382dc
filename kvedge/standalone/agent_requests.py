"""Requests for logs, commands in containers and what is used, on their way from the embedded API to the node agent.

Made by `standalone_services` with the server, which starts before the agent is made.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

from kvedge.standalone.agent.agent_service import NodeAgent
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest, ExecSession, NoExec
from kvedge.standalone.apiserver.routes.forwarding.forward_source import NoForward
from kvedge.standalone.apiserver.routes.log_source import LogRequest, NoLog
from kvedge.standalone.apiserver.routes.usage_source import MeasuredUsage, NoUsage


class AgentRequests:
    """Hands requests on to the agent, once there is one."""

    def __init__(self) -> None:
        self.source: NodeAgent | None = None

    def read_log(self, request: LogRequest, stopped: threading.Event) -> Iterator[bytes]:
        """As the agent has it.

        Raises:
            NoLog: when the agent does not run yet, or has nothing.
        """
        if self.source is None:
            raise NoLog("the node agent is still starting; try again")
        return self.source.read_log(request, stopped)

    def begin_exec(self, request: ExecRequest) -> ExecSession:
        """As the agent has it.

        Raises:
            NoExec: when the agent does not run yet, or the command cannot be run.
        """
        if self.source is None:
            raise NoExec("the node agent is still starting; try again")
        return self.source.begin_exec(request)

    def open_socket(self, pod_uid: str, family: socket.AddressFamily) -> socket.socket:
        """As the agent has it.

        Raises:
            NoForward: when the agent does not run yet, or the Pod has no network.
        """
        if self.source is None:
            raise NoForward("the node agent is still starting; try again")
        return self.source.open_socket(pod_uid, family)

    def measure_usage(self) -> MeasuredUsage:
        """As the agent's meter has it.

        Raises:
            NoUsage: when the agent does not run yet.
            OSError: when /proc does not tell.
        """
        if self.source is None:
            raise NoUsage("the node agent is still starting; try again")
        return self.source.usage.measure()
