"""Pods whose records are damaged or lost: known again from the API's objects, or shut down when there is none.

Called by the node agent at its start, once the API is known and before anything is started. A guest that runs is never
started a second time: its Pod is taken up as it is. A Pod that the API does not have either may be any VM's, so no VM
begins before it has ended.
"""

from __future__ import annotations

import logging
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kvedge.network.errors import AddressesExhaustedError
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Container, Pod, PodSpec
from kvedge.resources.values.quantities import QuantityError
from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import sync
from kvedge.standalone.agent.container.cgroups import Cgroups
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_state import (
    Running,
    Starting,
    look_at_container,
    make_lost_exit,
    record_exit,
)
from kvedge.standalone.agent.pod.damage_notes import DamageNotes
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.place.cpu_pool import exclusive_cpus
from kvedge.standalone.agent.pod.pod_loop import PodLoop
from kvedge.standalone.agent.pod.pod_record import PodRecord, new_record, write_pod_record

log = logging.getLogger(__name__)

# So long a Pod of which nothing is known has to end: a VM has 180 s unless it says otherwise.
UNKNOWN_GRACE_SECONDS: Final = 210.0


def something_runs(cgroups: Cgroups, boot_id: str, files: PodFiles) -> bool:
    """Whether any process of a Pod is left, by its cgroup and by what its containers' files say."""
    if cgroups.processes(files.uid):
        return True
    states = (look_at_container(files.container(name), boot_id) for name in container_names(files))
    return any(isinstance(state, Running | Starting) for state in states)


def container_names(files: PodFiles) -> list[str]:
    """The containers that were begun."""
    folder = files.path / "containers"
    return sorted({path.stem for pattern in ("*.json", "*.lock") for path in folder.glob(pattern)})


def lose_containers(local: LocalPod) -> None:
    """The machine was started anew: what ran is gone, and what had not begun does not begin in the middle."""
    for container in (*local.pod.spec.init_containers, *local.pod.spec.containers):
        files = local.files.container(container.name)
        if not files.exit.exists():
            record_exit(files, make_lost_exit(time.time()))


class DamagedPods:
    """Finds out what the Pods with damaged records are."""

    def __init__(self, pods: LocalPods, boot_id: str, cgroups: Cgroups, loop: PodLoop, notes: DamageNotes) -> None:
        self._pods = pods
        self._boot_id = boot_id
        self._cgroups = cgroups
        self._loop = loop
        self._notes = notes

    def make_known(self) -> list[LocalPod]:
        """All of them, as far as anything is left to look after.

        Raises:
            KubeError: when the API cannot be asked.
            OSError: when what is left of one cannot be kept.
        """
        damaged = self._pods.list_damaged()
        if not damaged:
            return []
        objects = {pod.metadata.uid: pod for pod in self._loop.informer.list()}
        return [self._adopt(files, why, objects.get(files.uid)) for files, why in damaged.items()]

    def _adopt(self, files: PodFiles, why: str, pod: Pod | None) -> LocalPod:
        runs = something_runs(self._cgroups, self._boot_id, files)
        if pod is None:
            return self._make_unknown(files, why, runs=runs)
        record = self._record_of(pod)
        record.boot_id = self._boot_id if runs else ""
        self._find_cpus(record, pod)
        _replace(files, record)
        local = self._pods.make_known(files, record)
        if not runs:
            lose_containers(local)
        self._tell(f"{why}; the record of pod {local.key} was made anew from its object", pod)
        return local

    def _find_cpus(self, record: PodRecord, pod: Pod) -> None:
        """Those that it has for itself are those that the kernel keeps it to."""
        if _is_exclusive(pod):
            record.cpus = sorted(self._cgroups.cpus_of(pod.metadata.uid))
            self._loop.steps.places.cpus.adopt(pod.metadata.uid, record.cpus)

    def _record_of(self, pod: Pod) -> PodRecord:
        record = new_record(pod)
        self._loop.history.note(record)
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        record.image_ids = {status.name: status.image_id for status in statuses if status.image_id}
        if pod.spec.host_network:
            return record
        owner = self._loop.addresses.owner_of(pod)
        record.owner, record.address = owner.uid, pod.status.pod_ip
        record.ipv6_address = next((each.ip for each in pod.status.pod_ips if ":" in each.ip), "")
        if not record.address:
            try:
                record.address = self._loop.addresses.address_for(owner)
            except AddressesExhaustedError as error:
                # It has one, or it never began; the network tells when the Pod is placed.
                log.warning("%s", error)
        return record

    def _make_unknown(self, files: PodFiles, why: str, *, runs: bool) -> LocalPod:
        """A damaged Pod that the API does not have: it ends within its grace period, and its data is kept."""
        names = container_names(files)
        pod = Pod(
            metadata=ObjectMeta(name=files.uid, uid=files.uid),
            spec=PodSpec(
                containers=[Container(name=name) for name in names],
                termination_grace_period_seconds=int(UNKNOWN_GRACE_SECONDS),
            ),
        )
        record = new_record(pod)
        record.boot_id, record.forgotten = self._boot_id, True
        local = self._pods.make_known(files, record)
        local.is_unknown = True
        how = "it is shut down, and no VM begins before it has ended" if runs else "nothing of it runs"
        self._tell(f"{why}; the API has no such pod either: {how}; its data is kept in {files.kept}")
        return local

    def _tell(self, text: str, pod: Pod | None = None) -> None:
        log.error("%s", text)
        self._notes.tell(text)
        if pod is not None:
            self._loop.steps.events.record(pod, "Warning", "DamagedRecord", text)


def _is_exclusive(pod: Pod) -> bool:
    try:
        return exclusive_cpus(pod) > 0
    except QuantityError:
        # It never began.
        return False


def _replace(files: PodFiles, record: PodRecord) -> None:
    """Copy the damaged record to another name, then write the new one over it.

    The record's name is never without a file: an agent that started at such a moment would take the directory for a Pod
    that never began.
    """
    try:
        if files.record.is_dir():
            put_aside(files.record, "a directory stands in its place")
        elif files.record.exists():
            moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            shutil.copyfile(files.record, Path(f"{files.record}.damaged-{moment}"))
            sync(files.path)
        write_pod_record(files, record)
    except OSError as error:
        # A full disk: this agent goes by what it has in memory.
        log.warning("%s was not written: %s", files.record, error)
