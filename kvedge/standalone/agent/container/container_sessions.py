"""Commands that users run in containers by `kubectl exec`: the node agent's side of the API server's `ExecSource`.

Called from the API server's threads. Reads the records of containers, orders processes from the starter, and leaves no
file behind. A command gets what the container's own processes have, and no more.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import msgspec

from kvedge.resources.names import CAPABILITIES_DIRECTORY, COMPUTE_CONTAINER, LAUNCHER_APP, TOOLS_FOLDER
from kvedge.standalone.agent.container.container_files import ContainerFiles, PodFiles
from kvedge.standalone.agent.container.container_spec import SessionSpec
from kvedge.standalone.agent.container.container_start import ContainerStarter, ContainerStartError, answer_of
from kvedge.standalone.agent.container.container_state import Running, look_at_container
from kvedge.standalone.agent.container.probe_questions import read_process_spec
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest, ExecSession, NoExec

# A process is there within milliseconds; this is for a machine that is badly overloaded.
_START_SECONDS: Final = 20.0
# How a message of a socket holds them.
_DESCRIPTOR: Final = struct.Struct("i")
_TERMINAL_NAME: Final = "xterm"
# Where launchers have it.
_TOOLS: Final = f"{CAPABILITIES_DIRECTORY}/{TOOLS_FOLDER}"
# An earlier launcher has no virsh of kvedge's. The host's virsh would ask another libvirt than the guest's, or none.
_NO_VIRSH: Final = (
    "virsh has nobody to talk to here: an older kvedge started this launcher, which has one after its VM's restart."
    " Until then ask kvedge: `kubectl get vmi NAME -o yaml` for the state, `kubectl describe vmi NAME` for its events,"
    " `kubectl logs POD` for what launcher and QEMU say, `virtctl` (or `kvedge`) for console, vnc, pause, unpause,"
    " restart, stop, guestosinfo, fslist and userlist. `ps`, `ls` and the like do run in this container"
)


class ContainerSessions:
    """Starts commands in the containers of all Pods below a directory."""

    def __init__(self, pods: Path, boot_id: str, starter: ContainerStarter) -> None:
        self._pods = pods
        self._boot_id = boot_id
        self._starter = starter

    def begin_exec(self, request: ExecRequest) -> ExecSession:
        """Have the command run; see `ExecSource`.

        Raises:
            NoExec: it cannot be run.
        """
        if os.sep in request.pod_uid or os.sep in request.container:
            raise NoExec(f'container "{request.container}" of pod "{request.pod}" is not on this box')
        files = PodFiles(self._pods / request.pod_uid).container(request.container)
        state = look_at_container(files, self._boot_id)
        if not isinstance(state, Running):
            raise NoExec(f'container "{request.container}" of pod "{request.pod}" does not run')
        spec = _session_spec(request, files, state)
        if _lacks_virsh(request, spec["env"]):
            raise NoExec(_NO_VIRSH)
        try:
            with _listen(Path(spec["streams"])) as listener:
                answer = self._starter.begin_session(spec)
                try:
                    return _await_session(request, listener, answer)
                except BaseException:
                    os.close(answer)
                    raise
        except (ContainerStartError, OSError) as error:
            raise NoExec(f"the command could not be started: {error}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(spec["answer"])


def _lacks_virsh(request: ExecRequest, environment: Mapping[str, str]) -> bool:
    """Whether somebody looks for the guest's libvirt in a launcher that has no virsh of kvedge's."""
    command = request.command
    is_launcher = request.container == COMPUTE_CONTAINER and request.pod.startswith(LAUNCHER_APP)
    # With a connection of their own they know what they do.
    named = any(word.startswith(("-c", "--connect")) for word in command[1:])
    has_one = _TOOLS in environment.get("PATH", "")
    return is_launcher and os.path.basename(command[0]) == "virsh" and not named and not has_one


def _session_spec(request: ExecRequest, files: ContainerFiles, state: Running) -> SessionSpec:
    try:
        kept = read_process_spec(files)
    except (OSError, msgspec.DecodeError) as error:
        why = "was started by an older kvedge" if isinstance(error, FileNotFoundError) else "has a damaged record"
        raise NoExec(f'container "{request.container}" {why}: restart its VM to use exec') from error
    if request.terminal:
        kept["env"] = {"TERM": _TERMINAL_NAME, **kept["env"]}
    answer = str(files.session(secrets.token_hex(4)))
    spec = {
        **kept,
        "id": f"{files.pod.name}/{files.name}",
        "answer": answer,
        "pid": state.pid,
        "start_time": state.start_time,
        "argv": list(request.command),
        "streams": f"{answer}.streams",
        "terminal": request.terminal,
        "stdin": request.stdin,
    }
    return cast("SessionSpec", spec)


@contextmanager
def _listen(path: Path) -> Iterator[socket.socket]:
    """A socket at this path; the directory is root's alone, so nobody else comes by."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # By the directory's descriptor: a socket's own name may have 107 bytes only.
        listener.bind(f"/proc/self/fd/{directory}/{path.name}")
        listener.listen(1)
        yield listener
    finally:
        listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=directory)
        os.close(directory)


def _await_session(request: ExecRequest, listener: socket.socket, answer: int) -> ExecSession:
    """Wait for the process' streams.

    Raises:
        NoExec: there is no process, and why.
    """
    deadline = time.monotonic() + _START_SECONDS
    descriptors = _receive_descriptors(listener, answer, deadline)
    for descriptor in descriptors:
        os.set_blocking(descriptor, False)
    if request.terminal:
        return ExecSession(descriptors[0], None, descriptors[0] if request.stdin else None, answer, is_terminal=True)
    output, errors, *giving = descriptors
    return ExecSession(output, errors, giving[0] if giving else None, answer)


def _receive_descriptors(listener: socket.socket, answer: int, deadline: float) -> Sequence[int]:
    listener.settimeout(0.05)
    while True:
        try:
            connection, _ = listener.accept()
            break
        except TimeoutError:
            _check_alive(answer, deadline)
    with connection:
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        # Closed at an exec from the first moment: another thread may start a process right now.
        # `socket.recv_fds` does not hand such flags on.
        _, messages, _, _ = connection.recvmsg(1, socket.CMSG_LEN(3 * _DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC)
    descriptors = [
        number
        for level, kind, data in messages
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        for (number,) in _DESCRIPTOR.iter_unpack(data[: len(data) - len(data) % _DESCRIPTOR.size])
    ]
    if not descriptors:
        # It ended before it had streams; why is on its way.
        while True:
            _check_alive(answer, deadline)
            time.sleep(0.01)
    return descriptors


def _check_alive(answer: int, deadline: float) -> None:
    with contextlib.suppress(BlockingIOError):
        told = os.read(answer, 1 << 16)
        if told:
            raise NoExec(str(answer_of(told).get("error") or "the command ended before it began"))
    if time.monotonic() >= deadline:
        raise NoExec(f"the command did not start within {_START_SECONDS:.0f} s: the machine is overloaded")
