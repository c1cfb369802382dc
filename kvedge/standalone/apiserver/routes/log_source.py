"""Where `kubectl logs` gets a container's output from: the protocol between the API server and the node agent.

The node agent implements `LogSource`; the API server calls it from worker threads, so it may block.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class LogRequest(Struct, frozen=True):
    """The container of a log request, and the part of its output.

    `tail_lines` and `limit_bytes` are None for all; `since` leaves out earlier lines. `timestamps` asks for RFC
    3339 times in front of the lines. `previous` means the container's run before the present one.
    """

    namespace: str
    pod: str
    pod_uid: str
    container: str
    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    previous: bool = False


class NoLog(Exception):
    """There is no such output; the message says why, as the user reads it."""


class LogSource(Protocol):
    """Gives out what containers said."""

    def read_log(self, request: LogRequest, stopped: threading.Event) -> Iterator[bytes]:
        """The output in pieces, in order.

        With `follow` the iterator waits for more until the container has ended or `stopped` is set; it should look at
        `stopped` at least every second.

        Raises:
            NoLog: before the first piece, when there is nothing to read from.
        """
