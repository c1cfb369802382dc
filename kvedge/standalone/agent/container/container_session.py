"""One more process in a container that runs, with a person or a program at the other end: what `kubectl exec` wants.

Called by the container starter in a child of its own, which stays outside of the container. The process' other ends of
its streams go to the agent over a socket: three pipes, or the master of a terminal that was made in the container's own
/dev/pts. The child waits for the process' end and tells it; it kills the process when the agent lets go of the answer,
as whoever started it has gone then. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import termios
from typing import TYPE_CHECKING

from kvedge.runtime.linux import namespaces, privileges
from kvedge.standalone.agent.container.container_exec import (
    ExecError,
    become_one_of_it,
    enter_container,
    open_first_process,
    run_command,
    tell_problems,
)

if TYPE_CHECKING:
    from kvedge.standalone.agent.container.container_spec import ExecAnswer, SessionSpec

_SIGNALLED = 128
# Gives the other side of a terminal without going by its name, which in a container may name anything (linux/tty.h).
_TIOCGPTPEER = 0x5441
_TIOCSPTLCK = 0x40045431
_PTMX = os.makedev(5, 2)
_LONGEST_PROBLEM = 4096


def converse(spec: SessionSpec, answer: int) -> ExecAnswer:
    """Run the process until it ends, or until nobody reads `answer` any more.

    Raises:
        ExecError: when it could not be started.
        OSError: as the system has it.
    """
    container = open_first_process(spec)
    agent = _connect(spec["streams"])
    problem, to_problem = os.pipe()
    # From here on a child is visible in the container: nobody there may look into it.
    privileges.set_undumpable()
    namespaces.setns(container, namespaces.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        _run_child(spec, container, agent, to_problem)
    os.close(to_problem)
    agent.close()
    status = _wait(pid, answer)
    words = os.read(problem, _LONGEST_PROBLEM).decode(errors="replace")
    if words:
        raise ExecError(f"cannot run the command: {words}")
    code = os.waitstatus_to_exitcode(status)
    return {"exit_code": code if code >= 0 else _SIGNALLED - code}


def _connect(path: str) -> socket.socket:
    """Connect the agent's end, by the descriptor of its directory: the name of a socket has at most 107 bytes."""
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    os.close(directory)
    return connection


def _run_child(spec: SessionSpec, container: int, agent: socket.socket, problem: int) -> None:
    """The process itself; never returns."""
    with tell_problems(problem):
        last, null = enter_container(spec, container)
        inside, outside = (
            _open_terminal(spec["uid"]) if spec["terminal"] else _open_pipes(null, wants_stdin=spec["stdin"])
        )
        socket.send_fds(agent, [b"+"], outside)
        for descriptor in outside:
            os.close(descriptor)
        become_one_of_it(spec, last)
        for number, descriptor in enumerate(inside):
            os.dup2(descriptor, number)
        run_command(spec)


def _open_pipes(null: int, *, wants_stdin: bool) -> tuple[list[int], list[int]]:
    """Standard input, output and errors, and the other ends of output, errors and, where there is one, input."""
    output, to_output = os.pipe()
    errors, to_errors = os.pipe()
    if not wants_stdin:
        return [null, to_output, to_errors], [output, errors]
    given, giving = os.pipe()
    return [given, to_output, to_errors], [output, errors, giving]


def _open_terminal(uid: int) -> tuple[list[int], list[int]]:
    """A terminal of the container's own: its side three times, and its master."""
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    facts = os.fstat(master)
    if not stat.S_ISCHR(facts.st_mode) or facts.st_rdev != _PTMX:
        # Root in the container may have put anything there.
        raise ValueError("the container's /dev/ptmx makes no terminals")
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    side = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    os.fchown(side, uid, -1)
    os.fchmod(side, 0o620)
    fcntl.ioctl(side, termios.TIOCSCTTY, 0)
    return [side, side, side], [master]


def _wait(pid: int, answer: int) -> int:
    """The process' wait status; it is killed once nobody wants the answer."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    # Only ever tells that the other side is closed.
    poll.register(answer, 0)
    while ended not in {found for found, _ in poll.poll()}:
        poll.unregister(answer)
        # All of its session that has not gone its own way.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        # The process may not have a session of its own yet.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(ended, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return status
