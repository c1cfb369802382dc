"""Shutting all guests down because the host goes down: they come back with it.

Called by `kvedge host-shutdown`, which a systemd unit runs after the node agent has stopped and before the network
goes. Pods are ended within their own grace periods, all at once, and marked as the kubelet marks them at a graceful
node shutdown: Failed, not Succeeded, so that a VM with RerunOnFailure runs again after the next boot.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvedge.handler.guest.last_word import HOST_SHUTDOWN_MESSAGE, end_by_host
from kvedge.resources.types.core import Pod
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.standalone.agent.agent_removal import ignore_progress
from kvedge.standalone.agent.container.container_files import ContainerFiles, PodFiles
from kvedge.standalone.agent.container.container_state import (
    Ended,
    ExitRecord,
    Running,
    Starting,
    look_at_container,
    record_exit,
    signal_container,
)
from kvedge.standalone.agent.pod.pod_plan import grace_seconds
from kvedge.standalone.agent.pod.pod_record import PodRecordError, pod_directories, read_record

# As the kubelet has it (pkg/kubelet/nodeshutdown).
REASON: Final = "Terminated"
# 128 and SIGTERM.
_EXIT_CODE: Final = 143
_POLL_SECONDS: Final = 0.1
_KILL_SECONDS: Final = 10.0


def shut_down_pods(kubelet: Path, longest: float, progress: Callable[[str], None] = ignore_progress) -> list[str]:
    """End every container of the Pods in this kubelet directory; returns what had to be killed, by namespace/name.

    `longest` bounds each Pod's own grace period, in seconds. The agent must not run: it would start Pods anew. What
    goes wrong with one container, as everything does on a full disk, is told, and the others are ended all the same;
    one whose record is damaged has all of `longest`, as nobody knows its own.
    """
    boot_id = read_boot_id()
    now = time.monotonic()
    told: list[_Waiting] = []
    for files in pod_directories(kubelet / "pods"):
        pod, grace = _pod_and_grace(files, longest, progress)
        for name in _find_alive(files, boot_id):
            item = _Waiting(files.uid, files.container(name), _title(files, pod), now + grace)
            progress(f"shutting down {item.title}{_send_signal(item, signal.SIGTERM, boot_id)}")
            told.append(item)
    waiting = told
    while waiting:
        waiting = [item for item in waiting if not _is_over(item, kubelet, boot_id, progress)]
        time.sleep(_POLL_SECONDS if waiting else 0)
    return list(dict.fromkeys(item.title for item in told if item.is_killed))


def _pod_and_grace(files: PodFiles, longest: float, progress: Callable[[str], None]) -> tuple[Pod | None, float]:
    try:
        record = read_record(files)
    except PodRecordError as error:
        progress(str(error))
        return None, longest
    pod = record.decode_pod() if record else None
    return pod, min(longest, float(grace_seconds(pod)) if pod else 0.0)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A container that has been told to end, and when it is killed, or given up."""

    uid: str
    files: ContainerFiles
    title: str
    deadline: float
    is_killed: bool = False


def _is_over(item: _Waiting, kubelet: Path, boot_id: str, progress: Callable[[str], None]) -> bool:
    """Look at one, and kill it when its time is over; whether it need not be waited for any more."""
    if not isinstance(look_at_container(item.files, boot_id), Running | Starting):
        progress(f"{item.title} is down{_record_end(item, boot_id)}{end_by_host(kubelet, item.uid)}")
        return True
    is_late = time.monotonic() >= item.deadline
    if is_late and item.is_killed:
        progress(f"{item.title} does not end, and is left to the host")
        return True
    if is_late:
        told = _send_signal(item, signal.SIGKILL, boot_id)
        progress(f"{item.title} does not shut down in its time and is killed{told}")
        item.is_killed, item.deadline = True, time.monotonic() + _KILL_SECONDS
    elif item.is_killed:
        # A container that was just starting may have had nothing to kill before.
        _send_signal(item, signal.SIGKILL, boot_id)
    return False


def _send_signal(item: _Waiting, number: signal.Signals, boot_id: str) -> str:
    """Signal a container, and return the end of the line that tells of it: empty, or the fault."""
    try:
        signal_container(item.files, number, boot_id)
    except OSError as error:
        return f", which cannot be told: {error.strerror}"
    return ""


def _record_end(item: _Waiting, boot_id: str) -> str:
    """Record that a container ended with its host; the answer is as that of `_send_signal`."""
    state = look_at_container(item.files, boot_id)
    finished = state.exit.finished_at if isinstance(state, Ended) else time.time()
    marked = ExitRecord(exit_code=_EXIT_CODE, reason=REASON, message=HOST_SHUTDOWN_MESSAGE, finished_at=finished)
    try:
        record_exit(item.files, marked)
    except OSError as error:
        return f", and how cannot be recorded: {error.strerror}"
    return ""


def _title(files: PodFiles, pod: Pod | None) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}" if pod else files.uid


def _find_alive(files: PodFiles, boot_id: str) -> list[str]:
    names = sorted(path.stem for path in (files.path / "containers").glob("*.json"))
    return [name for name in names if isinstance(look_at_container(files.container(name), boot_id), Running | Starting)]
