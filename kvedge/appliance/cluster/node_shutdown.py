"""Shutting down the guests of a cluster's node because the host goes down: they run again by their run strategies.

Called by `kvedge host-shutdown`, which a systemd unit runs after kvedge has stopped and before the node's Kubernetes
does. Launchers are told to end as the kubelet would tell them, all at once, and both their exit codes and what they
leave say that it was the host: such a run has failed, so that a VM with RerunOnFailure runs again. The kernel's cgroup
of a process tells its Pod; the name that a process gives itself only tells which processes to look at.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.appliance.host.running_launchers import launcher_title
from kvedge.handler.guest.last_word import announce_host_shutdown, end_by_host
from kvedge.handler.launchers.launcher_socket import volume_directory
from kvedge.runtime.process_facts import pods_of, process_status

_POLL_SECONDS: Final = 0.5
_KILL_SECONDS: Final = 10.0


class PodLauncher(Struct, frozen=True):
    """A launcher in a Pod of a kubelet: `pid` is of the first process of its container."""

    title: str
    pid: int
    pod_uid: str


def pod_launchers(kubelet: Path, proc: Path = Path("/proc")) -> list[PodLauncher]:
    """All launchers on this host that run in Pods of the kubelet with this directory."""
    found = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                title = launcher_title(entry)
                pod = _launcher_pod_of(entry, kubelet) if title else ""
                if title and pod:
                    first = _first_of_container(proc, int(entry.name))
                    found[first] = PodLauncher(title, first, pod)
    return sorted(found.values(), key=lambda item: item.title)


def shut_down_launchers(
    launchers: Sequence[PodLauncher],
    kubelet: Path,
    longest: float,
    progress: Callable[[str], None],
    proc: Path = Path("/proc"),
) -> list[str]:
    """Tell all of them to end and wait for them; returns the titles of those that had to be killed.

    A launcher gives its guest the grace period of its VM; `longest`, in seconds, bounds them all.
    """
    with ExitStack() as stack:
        waiting = dict(_open(launchers, stack, proc))
        for descriptor, launcher in waiting.items():
            progress(f"shutting down {launcher.title}{_read_announced(kubelet, launcher.pod_uid)}")
            _send(descriptor, signal.SIGTERM)
        _wait(waiting, longest, kubelet, progress)
        killed = sorted(launcher.title for launcher in waiting.values())
        for descriptor, launcher in waiting.items():
            progress(f"{launcher.title} does not shut down in its time and is killed")
            _send(descriptor, signal.SIGKILL)
        _wait(waiting, _KILL_SECONDS, kubelet, progress)
    return killed


def _open(launchers: Sequence[PodLauncher], stack: ExitStack, proc: Path) -> Iterator[tuple[int, PodLauncher]]:
    for launcher in launchers:
        # The process has ended. A thread may have its number now, and a thread cannot be held.
        with suppress(OSError):
            descriptor = os.pidfd_open(launcher.pid)
            stack.callback(os.close, descriptor)
            # By its number another process could be meant by now. Once it is held, what is seen by the number is the
            # held one's, or that one has ended and gets no signal.
            if launcher.pod_uid in pods_of(proc / str(launcher.pid)):
                yield descriptor, launcher


def _launcher_pod_of(process: Path, kubelet: Path) -> str:
    """The Pod of this kubelet whose cgroup a process is in, if it has what only a launcher's has; empty otherwise."""
    return next((uid for uid in sorted(pods_of(process)) if volume_directory(kubelet, uid, "public").is_dir()), "")


def _send(descriptor: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)


def _wait(waiting: dict[int, PodLauncher], seconds: float, kubelet: Path, progress: Callable[[str], None]) -> None:
    """Until all have ended or the time is over; those that have are taken out."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting and time.monotonic() < deadline:
        for descriptor, _ in poll.poll(_POLL_SECONDS * 1000):
            poll.unregister(descriptor)
            launcher = waiting.pop(descriptor)
            progress(f"{launcher.title} is down{end_by_host(kubelet, launcher.pod_uid)}")


def _read_announced(kubelet: Path, pod_uid: str) -> str:
    try:
        announce_host_shutdown(kubelet, pod_uid)
    except OSError as error:
        # A disk may be full; guests are shut down all the same.
        return f", which cannot be told why: {error.strerror}"
    return ""


def _first_of_container(proc: Path, pid: int) -> int:
    """The process that is number 1 in the PID namespace of this one: its monitor, which the launcher is a child of."""
    while (parent := _parent(proc, pid)) > 1 and _is_contained(proc, parent):
        pid = parent
    return pid


def _parent(proc: Path, pid: int) -> int:
    return int(process_status(proc / str(pid))["PPid"])


def _is_contained(proc: Path, pid: int) -> bool:
    """Whether a process has a number of its own in a PID namespace below ours."""
    return len(process_status(proc / str(pid))["NSpid"].split()) > 1
