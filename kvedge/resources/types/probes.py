"""Probes of a guest: whether it serves, and whether it lives (kubevirt.io/v1 Probe).

The controller makes probes of the launcher's container of them; a kubelet, or the node agent of one box, asks them.
Touches nothing.
"""

from __future__ import annotations

from kvedge.resources.codec import KubeStruct


class ExecAction(KubeStruct, kw_only=True):
    """A program that the guest's agent runs in the guest; its exit code 0 is a yes."""

    command: list[str] = []


class GuestAgentPing(KubeStruct, kw_only=True):
    """Whether the guest's agent answers."""


class HttpHeader(KubeStruct, kw_only=True):
    """One header of a request."""

    name: str
    value: str


class HttpGetAction(KubeStruct, kw_only=True):
    """A web page of the guest; an answer of 200 to 399 is a yes."""

    port: str | int
    path: str = ""
    host: str = ""
    scheme: str = ""
    http_headers: list[HttpHeader] = []


class TcpSocketAction(KubeStruct, kw_only=True):
    """A port of the guest; a connection is a yes."""

    port: str | int
    host: str = ""


class Probe(KubeStruct, kw_only=True):
    """What the guest is asked, and how often; exactly one question is set."""

    exec: ExecAction | None = None
    guest_agent_ping: GuestAgentPing | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    failure_threshold: int = 0

    @property
    def asks_agent(self) -> bool:
        """Whether a program in the launcher asks, by the guest's agent, and not the kubelet itself."""
        return self.exec is not None or self.guest_agent_ping is not None
