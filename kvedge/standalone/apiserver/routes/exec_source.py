"""Commands in containers for `kubectl exec`: the protocol between the API server and the node agent.

The node agent implements `ExecSource`; the API server calls it from a worker thread and moves the bytes by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import termios
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct


class ExecRequest(Struct, frozen=True):
    """What is to be run, and where; `terminal` asks for one instead of pipes."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    command: Sequence[str]
    stdin: bool = False
    terminal: bool = False


class NoExec(Exception):
    """Nothing was run; the message says why, as the user reads it."""


class ExecSession(Struct):
    """A process that runs, by the descriptors of its streams, which do not block; `close` ends it if it still runs.

    With a terminal `output` is its master, which takes the input as well, and there are no `errors`. `answer` is
    readable when the process has ended, and then has its JSON.
    """

    output: int
    errors: int | None
    input: int | None
    answer: int
    is_terminal: bool = False

    def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal how large its window is."""
        if self.is_terminal:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.output, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end_input(self) -> None:
        """The process reads an end of file; a terminal's input ends with its session."""
        if self.input is not None and not self.is_terminal:
            os.close(self.input)
            self.input = None

    def close(self) -> None:
        """Let go of everything."""
        for descriptor in {self.output, self.errors, self.input, self.answer} - {None}:
            assert descriptor is not None
            os.close(descriptor)
        self.errors = self.input = None


def read_ending(told: bytes) -> dict[str, Any]:
    """What an answer says: an `exit_code`, or an `error`."""
    try:
        document = json.loads(told)
    except ValueError:
        return {"error": "the process' starter has ended"}
    return document if isinstance(document, dict) else {"error": "the process' starter has said nothing of use"}


class ExecSource(Protocol):
    """Runs commands in containers."""

    def begin_exec(self, request: ExecRequest) -> ExecSession:
        """Have the command run.

        Raises:
            NoExec: it cannot be run.
        """
