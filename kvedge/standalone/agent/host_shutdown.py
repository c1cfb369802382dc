"""Shutting all guests down because the host goes down: they come back with it.

Called by `kvedge host-shutdown`, which a systemd unit runs after the node agent has stopped and before the network
goes. Pods are ended within their own grace periods, all at once, and marked as the kubelet marks them at a graceful
node shutdown: Failed, not Succeeded, so that a VM with RerunOnFailure runs again after the next boot.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kvedge.handler.last_word import HOST_SHUTDOWN_MESSAGE, end_by_host
from kvedge.resources.core import Pod
from kvedge.standalone.agent.agent_removal import no_progress
from kvedge.standalone.agent.container_files import PodFiles
from kvedge.standalone.agent.container_state import (
    Ended,
    ExitRecord,
    Running,
    Starting,
    record_exit,
    seen_state,
    signal_container,
    this_boot,
)
from kvedge.standalone.agent.pod_plan import grace_seconds
from kvedge.standalone.agent.pod_record import recorded_pods

# As the kubelet has it (pkg/kubelet/nodeshutdown).
REASON: Final = "Terminated"
# 128 and SIGTERM.
_EXIT_CODE: Final = 143
_POLL_SECONDS: Final = 0.1
_KILL_SECONDS: Final = 10.0


def shut_down_pods(kubelet: Path, longest: float, progress: Callable[[str], None] = no_progress) -> list[str]:
    """End every container of the Pods in this kubelet directory; returns what had to be killed, by namespace/name.

    `longest` bounds each Pod's own grace period, in seconds. The agent must not run: it would start Pods anew.

    Raises:
        PodRecordError: for a damaged record.
        OSError: when an exit cannot be recorded.
    """
    boot_id = this_boot()
    now = time.monotonic()
    waiting: dict[tuple[str, str], _Waiting] = {}
    for files, record in recorded_pods(kubelet / "pods"):
        pod = record.decoded() if record else None
        grace = min(longest, float(grace_seconds(pod)) if pod else 0.0)
        for name in _alive(files, boot_id):
            progress(f"shutting down {_title(files, pod)}")
            signal_container(files.container(name), signal.SIGTERM, boot_id)
            waiting[files.uid, name] = _Waiting(files, name, _title(files, pod), now + grace)
    killed = []
    while waiting:
        for key, item in list(waiting.items()):
            if not isinstance(seen_state(item.files.container(item.container), boot_id), Running | Starting):
                _mark(item.files, item.container, boot_id)
                progress(f"{item.title} is down{end_by_host(kubelet, item.files.uid)}")
                del waiting[key]
            elif time.monotonic() >= item.deadline:
                killed += [] if item.title in killed else [item.title]
                progress(f"{item.title} does not shut down in its time and is killed")
                signal_container(item.files.container(item.container), signal.SIGKILL, boot_id)
                item.deadline = time.monotonic() + _KILL_SECONDS
        time.sleep(_POLL_SECONDS if waiting else 0)
    return killed


class _Waiting:
    """A container that has been told to end, and when it is killed."""

    def __init__(self, files: PodFiles, container: str, title: str, deadline: float) -> None:
        self.files = files
        self.container = container
        self.title = title
        self.deadline = deadline


def _title(files: PodFiles, pod: Pod | None) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}" if pod else files.uid


def _alive(files: PodFiles, boot_id: str) -> list[str]:
    names = sorted(path.stem for path in (files.path / "containers").glob("*.json"))
    return [name for name in names if isinstance(seen_state(files.container(name), boot_id), Running | Starting)]


def _mark(files: PodFiles, container: str, boot_id: str) -> None:
    state = seen_state(files.container(container), boot_id)
    finished = state.exit.finished_at if isinstance(state, Ended) else time.time()
    marked = ExitRecord(exit_code=_EXIT_CODE, reason=REASON, message=HOST_SHUTDOWN_MESSAGE, finished_at=finished)
    record_exit(files.container(container), marked)
