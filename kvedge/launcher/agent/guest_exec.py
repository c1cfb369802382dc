"""Programs that probes have the guest's agent run: started, waited for, and read with suspicion.

Kept by `agent_probes`; each question takes a turn on `agent_line`, and between them others may ask. An agent cannot
end what it has started: a program that outlives its probe is remembered, and until it ends the same one is not started
again, so that a guest that hangs does not fill up with them.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from kvedge.launcher.agent.guest_agent_message import clean_lines
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import LauncherError, Unanswered
from kvedge.rpc.launcher_pb2 import GuestExecReply

# Cuts a program's output: no kubelet takes more.
LONGEST_OUTPUT: Final = 10 << 10
# The first look at whether it has ended, and the longest pause between two; it doubles in between.
_FIRST_LOOK: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
# Programs that hang; a VMI has two probes, and users may call by hand.
_MOST_LEFT: Final = 8
_SIGNALLED: Final = 128
_LARGEST_CODE: Final = 255

# Asks the agent: a command, its arguments, and until when on the clock of `guest_freeze.now`.
Ask = Callable[[str, dict[str, Any], float], Any]


class GuestExec:
    """The programs of one guest; methods may be called from any thread."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        # Programs that outlived their probe, by their command.
        self._left: dict[tuple[str, ...], int] = {}

    def forget(self) -> None:
        """The agent is another one: its numbers of programs mean something else."""
        with self._lock:
            self._left.clear()

    def run(self, command: Sequence[str], until: float, is_wanted: Callable[[], bool]) -> GuestExecReply:
        """Run a program to its end, `until` a time, or as long as somebody wants to know.

        Raises:
            LauncherError: when the agent refuses or does not answer; Unanswered when it has not ended in time.
        """
        words = tuple(command)
        self._finish_left(words, until)
        path, *arguments = words
        started = self._ask("guest-exec", {"path": path, "arg": arguments, "capture-output": True}, until)
        pid = _number(started, "pid")
        pause = _FIRST_LOOK
        waiting = threading.Event()
        while True:
            try:
                reply = self._look(pid, until)
            except LauncherError:
                self._leave(words, pid)
                raise
            if reply is not None:
                return reply
            left = until - now()
            if left <= 0 or not is_wanted():
                self._leave(words, pid)
                raise Unanswered("the program has not ended in time")
            waiting.wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _finish_left(self, words: tuple[str, ...], until: float) -> None:
        with self._lock:
            pid = self._left.get(words)
        if pid is None:
            return
        try:
            ended = self._look(pid, until) is not None
        except Unanswered:
            raise
        except LauncherError:
            # The agent knows no such program any more: it was started anew.
            ended = True
        if not ended:
            raise Unanswered("the program of an earlier probe still runs in the guest")
        with self._lock:
            self._left.pop(words, None)

    def _leave(self, words: tuple[str, ...], pid: int) -> None:
        with self._lock:
            if len(self._left) >= _MOST_LEFT:
                del self._left[next(iter(self._left))]
            self._left[words] = pid

    def _look(self, pid: int, until: float) -> GuestExecReply | None:
        """How a program has ended; None while it runs."""
        found = self._ask("guest-exec-status", {"pid": pid}, until)
        return read_status(found)


def read_status(found: object) -> GuestExecReply | None:
    """An agent's word on a program, cut down to what it may say; None while the program runs.

    Raises:
        Unanswered: when it makes no sense.
    """
    if not isinstance(found, dict) or not isinstance(found.get("exited"), bool):
        raise Unanswered("the guest agent's answer is no status of a program")
    if not found["exited"]:
        return None
    code, signal = _count(found.get("exitcode")), _count(found.get("signal"))
    if signal > 0:
        code = _SIGNALLED + signal
    elif code < 0:
        # Without a number it is still known that it has not succeeded.
        code = _LARGEST_CODE
    printed = _text(found.get("out-data")) + _text(found.get("err-data"))
    return GuestExecReply(exit_code=min(code, _LARGEST_CODE), output=clean_lines(printed, LONGEST_OUTPUT))


def _text(data: object) -> str:
    if not isinstance(data, str):
        return ""
    # Four letters are three bytes.
    cut = data[: LONGEST_OUTPUT // 3 * 4]
    try:
        return base64.b64decode(cut + "=" * (-len(cut) % 4)).decode(errors="replace")
    except ValueError:
        return ""


def _number(found: object, key: str) -> int:
    number = _count(found.get(key)) if isinstance(found, dict) else -1
    if number < 0:
        raise Unanswered(f"the guest agent's answer has no {key}")
    return number


def _count(value: object) -> int:
    """A number that counts something; -1 for what is none."""
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value if fits and isinstance(value, int) else -1
