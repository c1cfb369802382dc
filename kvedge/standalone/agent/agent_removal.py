"""Taking everything of one data directory's Pods off this host: for `packaging/demo --stop` and uninstalling.

Called when the agent does not run (any more): the API is not needed. Works from the records and from what carries our
mark, may be called again, and touches nothing else.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kvedge.network.lan.lan_ports import remove_lan
from kvedge.network.nics.nic_back import give_all_back
from kvedge.network.nics.nic_journal import nics_path
from kvedge.network.pods.pod_network import remove_node_network
from kvedge.resources.types.core import Pod
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.standalone.agent.agent_service import AgentConfig
from kvedge.standalone.agent.container.cgroups import Cgroups, kill_all
from kvedge.standalone.agent.container.container_files import ContainerFiles, PodFiles
from kvedge.standalone.agent.container.container_state import (
    ContainerState,
    Running,
    Starting,
    container_state,
    look_at_container,
    signal_container,
)
from kvedge.standalone.agent.container.systemd_scopes import pod_cgroups
from kvedge.standalone.agent.pod.damaged_pods import UNKNOWN_GRACE_SECONDS
from kvedge.standalone.agent.pod.place.pod_remains import explain_remains, foreign_part, remove_pod_directory
from kvedge.standalone.agent.pod.pod_plan import grace_seconds
from kvedge.standalone.agent.pod.pod_record import read_records
from kvedge.storage.images.image_store import ImageStore

_POLL_SECONDS: Final = 0.1
_KILL_SECONDS: Final = 10.0


class RemovalError(Exception):
    """Something of ours is still there; the text says what, and trying again may help."""


def ignore_progress(text: str) -> None:
    """For callers that show none."""


def remove_everything(
    config: AgentConfig,
    grace: float | None = None,
    progress: Callable[[str], None] = ignore_progress,
    *,
    keeps_nics: bool = False,
) -> None:
    """End all Pods gracefully, then remove namespaces, bridge, tables, cgroups and mounts.

    `grace` bounds each Pod's own grace period, in seconds. With `keeps_nics`, NICs that were moved for good stay ports
    of their bridges. The agent must not run: its lock is the caller's.

    Raises:
        RemovalError: when something could not be ended or removed, or may be somebody else's and was left.
        NetworkError: when a link or a table could not be removed.
        PodRecordError: for a record of a newer kvedge.
    """
    boot_id = read_boot_id()
    cgroups = pod_cgroups(config.instance)
    pods = [(files, record.decode_pod() if record else None) for files, record in read_records(config.pods)]
    _end_all(pods, grace, boot_id, progress)
    _kill_stragglers(cgroups)
    store = ImageStore(config.data_dir / "images")
    left = [text for files, pod in pods if (text := _remove_pod(files, store, is_recorded=pod is not None))]
    remove_lan(config.network)
    remove_node_network(config.network)
    cgroups.remove_all()
    # The host's own way to the world comes last, when nothing else is left that could fail.
    left += give_all_back(nics_path(config.data_dir), keeps_confirmed=keeps_nics)
    if left:
        raise RemovalError("; ".join(left))


def _remove_pod(files: PodFiles, store: ImageStore, *, is_recorded: bool) -> str:
    """Remove a Pod's directory; why it is left, or an empty text."""
    try:
        if not is_recorded and (part := foreign_part(files)):
            return explain_remains(files, part)
        remove_pod_directory(files)
    except OSError as error:
        raise RemovalError(f"{files.path} cannot be removed: {error}") from error
    store.release(files.uid)
    return ""


def running_pods(pods: Path) -> list[str]:
    """The Pods below this directory that have containers which run, as `namespace/name`.

    The agent may run meanwhile: nothing is written.

    Raises:
        PodRecordError: for a record of a newer kvedge.
    """
    boot_id = read_boot_id()
    found = []
    for files, record in read_records(pods):
        if _find_alive(files, boot_id, look_at_container):
            meta = record.decode_pod().metadata if record else None
            found.append(f"{meta.namespace}/{meta.name}" if meta else files.uid)
    return sorted(found)


def _end_all(
    pods: list[tuple[PodFiles, Pod | None]], grace: float | None, boot_id: str, progress: Callable[[str], None]
) -> None:
    longest = 0.0
    for files, pod in pods:
        for name in _find_alive(files, boot_id):
            progress(f"stopping {pod.metadata.namespace}/{pod.metadata.name}" if pod else f"stopping {files.uid}")
            signal_container(files.container(name), signal.SIGTERM, boot_id)
            own = float(grace_seconds(pod)) if pod else UNKNOWN_GRACE_SECONDS
            longest = max(longest, own if grace is None else min(own, grace))
    if _wait_for_end(pods, longest, boot_id):
        return
    for files, _ in pods:
        for name in _find_alive(files, boot_id):
            progress(f"killing {files.uid}/{name}")
            signal_container(files.container(name), signal.SIGKILL, boot_id)
    if not _wait_for_end(pods, _KILL_SECONDS, boot_id):
        left = [str(files.path) for files, _ in pods if _find_alive(files, boot_id)]
        raise RemovalError(f"containers do not end: {', '.join(left)}")


def _wait_for_end(pods: list[tuple[PodFiles, Pod | None]], seconds: float, boot_id: str) -> bool:
    deadline = time.monotonic() + seconds
    while any(_find_alive(files, boot_id) for files, _ in pods):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _find_alive(
    files: PodFiles, boot_id: str, look: Callable[[ContainerFiles, str], ContainerState] = container_state
) -> list[str]:
    """The containers that run, or are being started by somebody who does not know that this is the end."""
    folder = files.path / "containers"
    names = {path.stem for path in folder.glob("*.json")} | {path.stem for path in folder.glob("*.lock")}
    return [name for name in sorted(names) if isinstance(look(files.container(name), boot_id), (Running, Starting))]


def _kill_stragglers(cgroups: Cgroups) -> None:
    """What is left in our cgroups belongs to Pods whose records are gone."""
    deadline = time.monotonic() + _KILL_SECONDS

    def look() -> set[int]:
        return {pid for pod in cgroups.pods() for pid in cgroups.processes(pod)}

    while left := look():
        if time.monotonic() >= deadline:
            raise RemovalError(f"processes do not end: {', '.join(map(str, sorted(left)))}")
        kill_all(look)
        time.sleep(_POLL_SECONDS)
