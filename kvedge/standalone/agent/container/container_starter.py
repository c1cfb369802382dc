"""Starts containers; a small process of its own beside the agent, from which each container's processes are forked.

Run by the node agent's `ContainerStarter`: it reads one :class:`ContainerSpec` per line (JSON) from standard input
and forks a child for each. The child answers on the FIFO that the spec names, and then becomes what holds the
container: a `sleep` that never ends and never reaps, so that the first process' exit status stays readable in /proc
for whoever comes by, however often the agent has been killed meanwhile. It takes 0.1 MB. A line may also be an
:class:`ExecSpec` or a :class:`SessionSpec`, whose children are what `container_exec` and `container_session` describe.

The order makes a second start impossible and a kill at any step harmless: the lock is taken first and lives as long
as the holder; the record is written before the command may run; the container's process runs nothing without the word
of its parent. Forking from here costs a millisecond, where starting a program costs ten, or a hundred in the bundle.
Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvedge.runtime.linux import namespaces
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.runtime.linux.process_stat import read_stat
from kvedge.standalone.agent.container.container_exec import ExecError, execute
from kvedge.standalone.agent.container.container_privileges import (
    become_user,
    last_capability,
    reset_signals,
    set_limits,
    set_sysctls,
)
from kvedge.standalone.agent.container.container_root import build_root
from kvedge.standalone.agent.container.container_session import converse
from kvedge.standalone.agent.container.seccomp_filter import refuse_unusual_calls

if TYPE_CHECKING:
    from kvedge.standalone.agent.container.container_spec import ContainerSpec, ExecSpec, SessionSpec, StartedRecord

_READY = b"+"
_GO = b"!"
# A shell's exit code for a command that it cannot run.
_NOT_FOUND = 127


class Program:
    """What the container's first process runs: the command of the spec, by exec(2)."""

    def announce(self, spec: ContainerSpec) -> None:
        """Called as root, in the container's namespaces, before its root is built."""

    def run(self, spec: ContainerSpec) -> None:
        """Become the command; what is printed and read is set, and the rights are given up.

        Raises:
            OSError: when there is no such command.
        """
        # Every other descriptor is close-on-exec: Python makes them so.
        try:
            os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
        except OSError as error:
            raise OSError(error.errno, f"cannot run the command: {error.strerror}", spec["argv"][0]) from error


class StartError(Exception):
    """The container cannot be started; the text is for the user."""


def main() -> int:
    """Start a container for each order, until the agent is gone."""
    # A terminal's Ctrl-C is for the agent.
    os.setsid()
    # Descriptors that the agent itself was started with.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # This process does not wait for holders: they vanish when they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for order in _read_orders():
        if os.fork() == 0:
            os._exit(start_and_hold(order, Program()))
    return 0


def _read_orders() -> Iterator[bytes]:
    """The lines of standard input; an agent that is killed while it writes leaves one without an end, which is none."""
    rest = b""
    while part := os.read(0, 1 << 16):
        *whole, rest = (rest + part).split(b"\n")
        yield from whole


def start_and_hold(order: bytes, program: Program) -> int:
    """One container, in the process that becomes its holder; returns only when something failed."""
    os.setsid()
    # An open end of the orders' pipe here would keep the agent from noticing that the starter is gone.
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    spec = json.loads(order)
    answer = _open_answer(spec["answer"])
    if "record" not in spec:
        return _execute(spec, answer)
    return _start_one(spec, answer, program)


def _execute(spec: ExecSpec | SessionSpec, answer: int) -> int:
    try:
        # The type checker cannot tell the two apart by a key.
        if "streams" in spec:
            _answer(answer, converse(spec, answer))  # type: ignore[arg-type]
        else:
            _answer(answer, execute(spec))
    except (ExecError, OSError) as error:
        _answer(answer, {"error": _explain(error)})
    return 0


def _start_one(spec: ContainerSpec, answer: int, program: Program) -> int:
    lock = -1
    try:
        lock = _lock(spec)
        record = _start(spec, program)
    except (StartError, OSError) as error:
        if lock >= 0:
            # Before the agent hears of it: it may start the container again before this process has ended.
            os.close(lock)
        _answer(answer, {"error": _explain(error)})
        return 1
    _answer(answer, {"record": record})
    _hold(spec, lock)
    return 1


def _open_answer(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        # The agent is gone: the container is what matters.
        return os.open("/dev/null", os.O_WRONLY)


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def _answer(answer: int, document: object) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(answer, json.dumps(document).encode())
    os.close(answer)


def _lock(spec: ContainerSpec) -> int:
    lock = os.open(spec["lock"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StartError(f"container {spec['id']} runs already") from error
    if os.path.exists(spec["record"]):
        raise StartError(f"container {spec['id']} was started before")
    return lock


def _start(spec: ContainerSpec, program: Program) -> StartedRecord:
    for path in spec["cgroups"]:
        with open(path, "w") as stream:
            stream.write(str(os.getpid()))
    log = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchown(log, spec["uid"], spec["gid"])
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    namespaces.unshare(namespaces.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        os.close(from_child)
        os.close(to_child)
        _run_child(spec, program, log, (from_parent, to_parent))
    os.close(to_parent)
    os.close(from_parent)
    os.close(log)
    first = os.read(from_child, 1)
    if first != _READY:
        problem = (first + _read_all(from_child)).decode(errors="replace")
        os.waitpid(pid, 0)
        raise StartError(problem or "the container's first process ended before its command ran")
    record = _record(pid)
    _write_record(spec["record"], record)
    os.write(to_child, _GO)
    os.close(to_child)
    # Empty once the command runs: exec closes the other end.
    problem = _read_all(from_child).decode(errors="replace")
    os.close(from_child)
    if problem:
        record["failed"] = problem
        _write_record(spec["record"], record)
    return record


def _run_child(spec: ContainerSpec, program: Program, log: int, parent: tuple[int, int]) -> None:
    """The container's first process; never returns."""
    from_parent, to_parent = parent
    try:
        _enter_namespaces(spec)
        program.announce(spec)
        set_limits(spec)
        set_sysctls(spec["sysctls"])
        # Nothing is read from the image's file system once it is the root: it may be made to deceive.
        last, null = last_capability(), os.open("/dev/null", os.O_RDWR)
        build_root(spec)
        if spec["seccomp"]:
            refuse_unusual_calls()
        become_user(spec, last)
        os.write(to_parent, _READY)
        if os.read(from_parent, 1) == _GO:
            _run_command(spec, program, null, log)
    except (OSError, ValueError, KeyError) as error:
        with contextlib.suppress(OSError):
            os.write(to_parent, _explain(error).encode())
    finally:
        os._exit(_NOT_FOUND)


def _enter_namespaces(spec: ContainerSpec) -> None:
    os.setsid()
    if spec["netns"]:
        namespace = os.open(spec["netns"], os.O_RDONLY | os.O_CLOEXEC)
        namespaces.setns(namespace, namespaces.CLONE_NEWNET)
        os.close(namespace)
    namespaces.unshare(
        namespaces.CLONE_NEWNS | namespaces.CLONE_NEWUTS | namespaces.CLONE_NEWIPC | namespaces.CLONE_NEWCGROUP
    )
    if spec["netns"]:
        namespaces.set_host_name(spec["hostname"])
    os.umask(0o022)


def _run_command(spec: ContainerSpec, program: Program, null: int, log: int) -> None:
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        os.chdir(spec["working_dir"] or "/")
    except OSError as error:
        raise OSError(error.errno, f"working directory: {error.strerror}", spec["working_dir"]) from error
    reset_signals()
    program.run(spec)


def _record(pid: int) -> StartedRecord:
    holder = os.getpid()
    return {
        "boot_id": read_boot_id(),
        "pid": pid,
        "start_time": read_stat(pid).start_time,
        "holder": holder,
        "holder_start_time": read_stat(holder).start_time,
        "started_at": time.time(),
        "failed": "",
    }


def _write_record(path: str, record: StartedRecord) -> None:
    # Not synced: it outlives every process, and after a power cut there is nothing to find by it.
    temporary = f"{path}.new"
    with open(temporary, "w") as stream:
        json.dump(record, stream)
    os.replace(temporary, path)


def _hold(spec: ContainerSpec, lock: int) -> None:
    """Become the holder. The lock stays open in it and nowhere else."""
    program = shutil.which("sleep", path="/usr/bin:/bin")
    if program is None:
        # Without coreutils: this interpreter does the same, for more memory.
        while True:
            time.sleep(3600)
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.set_inheritable(lock, True)
    os.chdir("/")
    os.execve(program, ["sleep", "infinity"], {"KVEDGE_HOLDS": spec["id"]})


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        what = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{what}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
