"""The agent's side of starting containers, and processes in them: orders to the starter, and its children's answers.

Called by the Pod loop and by probes. Touches processes, and a FIFO per order in the Pod's directory. The starter holds
nothing: killing it, or the agent, does not touch a container, and a new one is started when it is needed.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

import kvedge
from kvedge.runtime.program import is_frozen, program_command
from kvedge.standalone.agent.container.container_spec import ContainerSpec, ExecAnswer, ExecSpec, SessionSpec

log = logging.getLogger(__name__)

# The hidden subcommand of the built program; from a checkout the module is run without the rest of kvedge.
STARTER_VERB: Final = "container-starter"
# A start takes milliseconds; this is for a machine that is badly overloaded.
START_SECONDS: Final = 60.0
# How much longer than it may take a process in a container is waited for.
_EXEC_MARGIN: Final = 10.0


class ContainerStartError(Exception):
    """A container could not be started, and nothing of it runs; the text is for the user."""


class _Starter(Struct, frozen=True):
    """The starter's process, a descriptor that is readable once it has ended, and where it takes its orders."""

    pid: int
    pidfd: int
    orders: int


class StarterGone(Exception):
    """The process that was to start it has ended, and with it maybe the order; the lock keeps a second one harmless."""


def starter_command() -> list[str]:
    """The argv of a starter."""
    if is_frozen():
        return [*program_command(), STARTER_VERB]
    package = str(Path(kvedge.__file__).resolve().parent.parent)
    # Without site and environment: it starts in 10 ms and takes nothing along.
    starter = "kvedge.standalone.agent.container.container_starter"
    code = f"import sys; sys.path.insert(0, sys.argv.pop()); from {starter} import main; sys.exit(main())"
    return [sys.executable, "-I", "-S", "-c", code, package]


class ContainerStarter:
    """Starts containers; safe for several threads."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command or starter_command())
        # Held while an order is written: it may be longer than what a pipe takes at once.
        self._lock = threading.Lock()
        self._starter: _Starter | None = None

    def prepare(self) -> None:
        """Have the starter's process run.

        Raises:
            OSError: when no process can be made.
        """
        with self._lock:
            self._ensure_starter()

    def start(self, spec: ContainerSpec) -> None:
        """Start a container; returns once its command runs, or could not be run: its state tells.

        Raises:
            ContainerStartError: with the reason, when nothing of it runs.
        """
        try:
            problem = self._try(spec, START_SECONDS)
        except StarterGone:
            # Killed, for want of memory most likely. The start that it had begun holds the container's lock.
            log.warning("the container starter was gone", extra={"facts": {"container": spec["id"]}})
            try:
                problem = self._try(spec, START_SECONDS)
            except StarterGone:
                problem = {"error": "the container starter ends by itself: see the log"}
        raise_problem(problem)

    def execute(self, spec: ExecSpec) -> ExecAnswer:
        """Run one more process in a container, to its end or the end of its time.

        Raises:
            ContainerStartError: with the reason, when it did not run.
            OSError: when no process can be made.
        """
        try:
            answer = self._try(spec, spec["seconds"] + _EXEC_MARGIN)
        except StarterGone as error:
            raise ContainerStartError("the container starter was gone") from error
        if "error" in answer:
            raise ContainerStartError(str(answer["error"]))
        return cast("ExecAnswer", answer)

    def begin_session(self, spec: SessionSpec) -> int:
        """Have a process with streams started in a container; a descriptor on which its end will be told.

        The process is killed when the descriptor is closed. `session_answer` reads it.

        Raises:
            ContainerStartError: with the reason, when it was not ordered.
            OSError: when no process can be made.
        """
        path = Path(spec["answer"])
        os.mkfifo(path, 0o600)
        answer = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with self._lock:
                _write_order(self._ensure_starter(), spec)
        except StarterGone as error:
            os.close(answer)
            path.unlink(missing_ok=True)
            raise ContainerStartError("the container starter was gone") from error
        except BaseException:
            os.close(answer)
            path.unlink(missing_ok=True)
            raise
        return answer

    def stop(self) -> None:
        """End the starter's process; containers run on."""
        with self._lock:
            starter, self._starter = self._starter, None
        if starter is not None:
            os.close(starter.orders)
            os.close(starter.pidfd)
            os.waitpid(starter.pid, 0)

    def _try(self, spec: ContainerSpec | ExecSpec, seconds: float) -> dict[str, Any]:
        return await_answer(spec, seconds, lambda: self._order(spec))

    def _order(self, spec: ContainerSpec | ExecSpec) -> int:
        """Write the order down; a descriptor that is readable once the starter has ended."""
        with self._lock:
            starter = self._ensure_starter()
            _write_order(starter, spec)
            # Of its own: the starter may be replaced while its answer is waited for.
            return os.dup(starter.pidfd)

    def _ensure_starter(self) -> _Starter:
        """The starter, a new one when there is none any more; called with the lock held."""
        known = self._starter
        if known is not None:
            if os.waitpid(known.pid, os.WNOHANG) == (0, 0):
                return known
            os.close(known.orders)
            os.close(known.pidfd)
        self._starter = self._spawn()
        return self._starter

    def _spawn(self) -> _Starter:
        orders_in, orders = os.pipe()
        try:
            pid = os.posix_spawn(
                self._command[0],
                self._command,
                {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
                file_actions=[(os.POSIX_SPAWN_DUP2, orders_in, 0)],
            )
        except BaseException:
            os.close(orders)
            raise
        finally:
            os.close(orders_in)
        return _Starter(pid, os.pidfd_open(pid), orders)


def await_answer(spec: ContainerSpec | ExecSpec, seconds: float, order: Callable[[], int]) -> dict[str, Any]:
    """What the child says that `order()` has forked; the call returns a descriptor of the end of whoever forks it.

    Raises:
        StarterGone: when that has ended before there was an answer.
        ContainerStartError: when there is none in time.
    """
    path = Path(spec["answer"])
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    answer = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        pidfd = order()
        try:
            return _read_answer(answer, pidfd, seconds)
        finally:
            os.close(pidfd)
    finally:
        os.close(answer)
        path.unlink(missing_ok=True)


def raise_problem(answer: dict[str, Any]) -> None:
    """Raise the error of an answer, when it is one.

    Raises:
        ContainerStartError: with the reason.
    """
    if answer.get("error"):
        raise ContainerStartError(str(answer["error"]))


def _write_order(starter: _Starter, spec: ContainerSpec | ExecSpec | SessionSpec) -> None:
    view = memoryview(json.dumps(spec).encode() + b"\n")
    try:
        while view:
            view = view[os.write(starter.orders, view) :]
    except BrokenPipeError as error:
        raise StarterGone from error


def _read_answer(answer: int, pidfd: int, seconds: float) -> dict[str, Any]:
    """What the child says; it closes the FIFO when it has answered, or ends."""
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while True:
        ready = dict(poll.poll(seconds * 1000))
        if not ready:
            raise ContainerStartError(f"no answer within {seconds:.0f} s: the machine is overloaded")
        if answer not in ready:
            raise StarterGone
        part = os.read(answer, 1 << 16)
        if not part:
            break
        parts.append(part)
    return answer_of(b"".join(parts))


def answer_of(told: bytes) -> dict[str, Any]:
    """What a child has said."""
    try:
        document = json.loads(told)
    except ValueError:
        return {"error": "the container's starter ended in the middle"}
    return cast("dict[str, Any]", document)
