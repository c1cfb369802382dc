"""The Pods of this node as the agent keeps them in memory: rebuilt from the records at each start.

Called by the Pod loop. Each entry is touched only by the worker that has its key; what others look at is one flag.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from kvedge.kube.work_queue import Key
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_plan import PodPlace
from kvedge.standalone.agent.pod.place.pod_remains import explain_remains, foreign_part, remove_pod_directory
from kvedge.standalone.agent.pod.pod_plan import ImageProblem
from kvedge.standalone.agent.pod.pod_record import DamagedRecord, PodRecord, pod_directories, read_record

log = logging.getLogger(__name__)


class LocalPod(Struct):
    """One Pod; times in seconds since the epoch unless said otherwise."""

    key: Key
    pod: Pod
    files: PodFiles
    record: PodRecord
    # This agent has made the things that its containers need.
    place: PodPlace | None = None
    # This agent has set the limit of its CPU time.
    cpu_is_limited: bool = False
    # Why the Pod has not got the size that it asks for.
    resize: Condition | None = None
    # Network and cgroup are gone, or were never made.
    released: bool = False
    # Anything of it may still run: no other Pod of its VM may begin.
    in_the_way: bool = True
    # Its record is damaged and its object is gone: its VM may be any.
    is_unknown: bool = False
    stop_asked_at: float | None = None
    gone_since: float | None = None
    problem: ImageProblem | None = None
    failures: int = 0
    # On the monotonic clock.
    next_try: float = 0.0
    # When containers were asked to end because their liveness probe says no.
    unhealthy_since: dict[str, float] = field(default_factory=dict)
    # The networks that the Pod's annotation named when they were last joined (None: not yet by this agent); the text
    # that is told of them; and the time of the next try on the monotonic clock, after so many failures.
    joined_for: str | None = None
    network_status: str = ""
    network_failures: int = 0
    next_network_try: float = 0.0


def _sweep(files: PodFiles) -> None:
    """Remove what was left of a Pod whose record had not been written yet, or was gone already."""
    if part := foreign_part(files):
        log.warning("a Pod's directory is not ours", extra={"facts": {"note": explain_remains(files, part)}})
        return
    remove_pod_directory(files)


class LocalPods:
    """All of them, by UID and by name."""

    def __init__(self, directory: Path, is_running: Callable[[PodFiles], bool] = lambda files: False) -> None:
        """`is_running(files)` tells whether anything of a Pod still runs, without its record."""
        self._directory = directory
        self._is_running = is_running
        self._lock = threading.Lock()
        self._pods: dict[str, LocalPod] = {}
        # Why the record of a Pod cannot be used.
        self._damaged: dict[PodFiles, str] = {}

    def adopt(self) -> list[LocalPod]:
        """Read what earlier agents have written down, before anything else is asked or done.

        Raises:
            PodRecordError: for a record of a newer kvedge.
            OSError: as the file system has it.
        """
        for files in pod_directories(self._directory):
            try:
                record = read_record(files)
            except DamagedRecord as error:
                self._damaged[files] = str(error)
                continue
            if record is not None:
                self._add(files, record)
            elif self._is_running(files):
                self._damaged[files] = f"{files.record} is missing"
            else:
                _sweep(files)
        return list(self._pods.values())

    def list_damaged(self) -> dict[PodFiles, str]:
        """The Pods with damaged records, and why, until they are known again or forgotten."""
        with self._lock:
            return dict(self._damaged)

    def make_known(self, files: PodFiles, record: PodRecord) -> LocalPod:
        """A Pod whose record was damaged is known again."""
        with self._lock:
            self._damaged.pop(files, None)
            return self._add(files, record)

    def _add(self, files: PodFiles, record: PodRecord) -> LocalPod:
        pod = record.decode_pod()
        local = LocalPod(Key(pod.metadata.namespace, pod.metadata.name), pod, files, record)
        self._pods[files.uid] = local
        return local

    def take_on(self, pod: Pod, record: PodRecord) -> LocalPod:
        """Begin with a Pod; nothing of it is on this host yet, not even its record."""
        files = PodFiles(self._directory / pod.metadata.uid)
        key = Key(pod.metadata.namespace, pod.metadata.name)
        local = LocalPod(key, pod, files, record, released=True)
        with self._lock:
            self._pods[files.uid] = local
        return local

    def forget(self, uid: str) -> None:
        """Nothing of that Pod is left."""
        with self._lock:
            self._pods.pop(uid, None)
            for files in [files for files in self._damaged if files.uid == uid]:
                del self._damaged[files]

    def get(self, uid: str) -> LocalPod | None:
        """The Pod with that UID, or None."""
        with self._lock:
            return self._pods.get(uid)

    def find(self, key: Key) -> list[LocalPod]:
        """The Pods of this name: more than one after a Pod was made anew."""
        with self._lock:
            return [local for local in self._pods.values() if local.key == key]

    def uids(self) -> frozenset[str]:
        """All UIDs."""
        with self._lock:
            return frozenset(self._pods) | {files.uid for files in self._damaged}

    def addresses(self) -> frozenset[str]:
        """Addresses that Pods of this node have, whoever they belong to by now."""
        with self._lock:
            return frozenset(local.record.address for local in self._pods.values() if local.record.address)

    def count_others(self, local: LocalPod, image: str) -> int:
        """How many other Pods with a container of this image have begun here and may still run."""
        with self._lock:
            return sum(
                other is not local
                and not other.released
                and any(item.image == image for item in other.pod.spec.containers)
                for other in self._pods.values()
            )

    def predecessor(self, local: LocalPod) -> str:
        """A Pod of the same VM of which something may still run, by name; empty when there is none."""
        with self._lock:
            return self._predecessor(local)

    def claim(self, local: LocalPod) -> str:
        """As :meth:`predecessor`; when there is none, from now on no other Pod of this VM can begin."""
        with self._lock:
            found = self._predecessor(local)
            if not found:
                local.released = False
            return found

    def _predecessor(self, local: LocalPod) -> str:
        if not local.record.owner:
            return ""
        others = (
            other
            for other in self._pods.values()
            if other is not local and other.in_the_way and _are_of_one_vm(other, local)
        )
        # Of two Pods that both only wait, the first in order begins. A Pod that has begun waits for no waiting Pod.
        blocking = (
            other for other in others if not other.released or (local.released and other.files.uid < local.files.uid)
        )
        return next((str(other.key) for other in blocking), "")


def _are_of_one_vm(one: LocalPod, other: LocalPod) -> bool:
    if one.is_unknown or other.is_unknown:
        return True
    if one.record.owner and one.record.owner == other.record.owner:
        return True
    # Of a VM that was made anew, under another UID, after the object store forgot it.
    names = [_vmi_name(item.pod) for item in (one, other)]
    return bool(names[0]) and names[0] == names[1] and one.key.namespace == other.key.namespace


def _vmi_name(pod: Pod) -> str:
    reference = pod.metadata.controller_reference()
    return reference.name if reference is not None and reference.kind == "VirtualMachineInstance" else ""
