"""One more process in a container that runs, as probes want it: started, watched, and killed in time.

Called by the container starter in a child of its own, which stays outside of the container and reports how the process
ended; `container_session` takes the same steps. The process gets the container's namespaces, cgroups, user, limits and
system calls before it runs anything. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvedge.runtime.linux import namespaces, privileges
from kvedge.runtime.linux.process_stat import read_stat
from kvedge.standalone.agent.container.container_privileges import (
    become_user,
    last_capability,
    reset_signals,
    set_limits,
)
from kvedge.standalone.agent.container.seccomp_filter import refuse_unusual_calls

if TYPE_CHECKING:
    from kvedge.standalone.agent.container.container_spec import ExecAnswer, ExecSpec, SessionSpec

# So much of the output is kept, as the kubelet keeps of a probe's.
LONGEST_OUTPUT = 10 << 10
_SIGNALLED = 128
_NOT_RUN = 127
_NAMESPACES = (
    namespaces.CLONE_NEWNS
    | namespaces.CLONE_NEWUTS
    | namespaces.CLONE_NEWIPC
    | namespaces.CLONE_NEWNET
    | namespaces.CLONE_NEWCGROUP
)


class ExecError(Exception):
    """The process could not be started; the text is for the user."""


def execute(spec: ExecSpec) -> ExecAnswer:
    """Run the process to its end, or to the end of its time.

    Raises:
        ExecError: when it could not be started.
        OSError: as the system has it.
    """
    deadline = time.monotonic() + spec["seconds"]
    container = open_first_process(spec)
    output, to_output = os.pipe()
    problem, to_problem = os.pipe()
    # From here on a child is visible in the container: nobody there may look into it.
    privileges.set_undumpable()
    namespaces.setns(container, namespaces.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        _run_child(spec, container, to_output, to_problem)
    os.close(to_output)
    os.close(to_problem)
    return _watch(pid, output, problem, deadline)


def open_first_process(spec: ExecSpec | SessionSpec) -> int:
    """A descriptor of the container's first process, which has all its namespaces.

    Raises:
        ExecError: it does not run any more.
    """
    try:
        descriptor = os.pidfd_open(spec["pid"])
        stat = read_stat(spec["pid"])
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ExecError(f"container {spec['id']} does not run") from error
    if stat.start_time != spec["start_time"] or stat.has_ended:
        raise ExecError(f"container {spec['id']} does not run")
    return descriptor


def _run_child(spec: ExecSpec, container: int, output: int, problem: int) -> None:
    """The process itself; never returns."""
    with tell_problems(problem):
        last, null = enter_container(spec, container)
        become_one_of_it(spec, last)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        run_command(spec)


@contextlib.contextmanager
def tell_problems(problem: int) -> Iterator[None]:
    """Around what a child does: it never comes back from there, and tells why it could not run the command."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        what = f"{error.strerror} ({error.filename})" if isinstance(error, OSError) else str(error)
        with contextlib.suppress(OSError):
            os.write(problem, what.encode())
    finally:
        os._exit(_NOT_RUN)


def enter_container(spec: ExecSpec | SessionSpec, container: int) -> tuple[int, int]:
    """Join the container's cgroups and namespaces; the highest capability, and a descriptor of /dev/null."""
    os.setsid()
    for path in spec["cgroups"]:
        with open(path, "w") as stream:
            # 0 is the process that writes.
            stream.write("0")
    set_limits(spec)
    # Nothing is read from the container's file system once it is the root: it may be made to deceive.
    last, null = last_capability(), os.open("/dev/null", os.O_RDWR)
    namespaces.setns(container, _NAMESPACES)
    os.umask(0o022)
    return last, null


def become_one_of_it(spec: ExecSpec | SessionSpec, last: int) -> None:
    """Give up what the container's processes do not have."""
    if spec["seccomp"]:
        refuse_unusual_calls()
    become_user(spec, last)


def run_command(spec: ExecSpec | SessionSpec) -> None:
    """Become the command.

    Raises:
        OSError: it cannot be run.
    """
    os.chdir(spec["working_dir"] or "/")
    reset_signals()
    command = spec["argv"][0] if spec["argv"] else ""
    try:
        os.execvpe(command, spec["argv"], spec["env"])
    except OSError as error:
        # Of the places that were tried, the last would be named.
        raise OSError(error.errno, error.strerror, command) from error


def _watch(pid: int, output: int, problem: int, deadline: float) -> ExecAnswer:
    """Wait for the process, keep the first of what it prints, and kill it when its time is over."""
    ended = os.pidfd_open(pid)
    kept = {output: b"", problem: b""}
    poll = select.poll()
    for descriptor in (ended, output, problem):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {found for found, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)}
        for descriptor in ready & kept.keys():
            part = os.read(descriptor, 1 << 16)
            if not part:
                poll.unregister(descriptor)
            kept[descriptor] += part[: LONGEST_OUTPUT - len(kept[descriptor])]
        # Processes that it has left behind may hold the pipes open; they are not waited for.
        if ended in ready and (not ready & kept.keys() or time.monotonic() >= deadline):
            break
        if ended not in ready and time.monotonic() >= deadline:
            # All of its session that has not gone its own way.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            # The process may not have a session of its own yet.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(ended, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"late": True, "output": _text(kept[output])}
    _, status = os.waitpid(pid, 0)
    if kept[problem]:
        raise ExecError(f"cannot run the command: {_text(kept[problem])}")
    code = os.waitstatus_to_exitcode(status)
    return {"exit_code": code if code >= 0 else _SIGNALLED - code, "output": _text(kept[output])}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
