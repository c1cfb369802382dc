"""Sockets in Pods' networks for `kubectl port-forward`: the protocol between the API server and the node agent.

The node agent implements `ForwardSource`; the API server calls it from a worker thread and connects by itself.
"""

from __future__ import annotations

import socket
from typing import Protocol


class NoForward(Exception):
    """There is no such socket; the message says why, as the user reads it."""


class ForwardSource(Protocol):
    """Makes sockets in Pods' networks."""

    def open_socket(self, pod_uid: str, family: socket.AddressFamily) -> socket.socket:
        """A TCP socket in a Pod's network that does not block and is not connected.

        Raises:
            NoForward: the Pod has no network here.
        """
