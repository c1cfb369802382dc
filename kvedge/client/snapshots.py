"""Snapshots of VMs as their users see them: made, listed, put back, and how far each is.

Called by the verbs of `kvedge snapshot`. Reads and writes the API; the functions that judge are pure.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from kvedge.client.clones import describe_clone
from kvedge.client.errors import NotFoundError, RefusedError, TimedOutError
from kvedge.client.session import Session, check_name
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import NotFound, Unavailable
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.disks.snapshot_names import CLAIM_COPIES, MEMORY_CLASS, METHOD, RESTORE_MEMORY, SNAPSHOT_MEMORY
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.nearest_names import or_nearest

T = TypeVar("T", VirtualMachineSnapshot, VirtualMachineRestore, VirtualMachineClone)
_WORDS: Final = {VirtualMachineSnapshot: "snapshot", VirtualMachineRestore: "restore", VirtualMachineClone: "clone"}


HEADER: Final = ["NAME", "VM", "PHASE", "READY", "TAKEN", "VOLUMES", "MEMORY", "WAITS FOR OR FAILED BY"]
_FIRST_LOOK: Final = 0.1
_LONGEST_LOOK: Final = 1.0


def name_snapshot(vm: str, now: datetime) -> str:
    """The name of a snapshot that nobody has named: they sort by time.

    >>> from datetime import UTC
    >>> name_snapshot("web", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    'web-20260102-030405'
    """
    return f"{vm}-{now:%Y%m%d-%H%M%S}"


def take_snapshot(
    session: Session,
    vm: str,
    name: str,
    *,
    retain: bool = False,
    deadline: str | None = None,
    copies: bool = False,
    memory: bool = False,
    memory_class: str | None = None,
) -> VirtualMachineSnapshot:
    """Ask for a snapshot of a VM that is there; with `copies` its disks are claims, whatever storage drivers can do,
    with `memory` it has the guest's memory, in a claim of the class `memory_class`.

    Raises:
        KubeError: when the server refuses, or there is no such VM.
    """
    session.client.get(VirtualMachine, session.namespace, check_name(vm))
    spec: JsonObject = {"source": _refer(vm)}
    if retain:
        spec["deletionPolicy"] = "Retain"
    if deadline is not None:
        spec["failureDeadline"] = deadline
    metadata: JsonObject = {"name": check_name(name), "namespace": session.namespace}
    annotations = {METHOD: CLAIM_COPIES} if copies else {}
    if memory:
        annotations[SNAPSHOT_MEMORY] = "true"
    if memory_class is not None:
        annotations[MEMORY_CLASS] = memory_class
    if annotations:
        metadata["annotations"] = annotations
    return session.client.create(decode(VirtualMachineSnapshot, {"metadata": metadata, "spec": spec}))


def is_running(session: Session, vm: str) -> bool:
    """Whether a guest of the VM may write its disks."""
    try:
        return not session.client.get(VirtualMachineInstance, session.namespace, vm).is_final
    except NotFound:
        return False


def restore_snapshot(
    session: Session,
    snapshot: VirtualMachineSnapshot,
    target: str,
    now: datetime,
    *,
    stop: bool = False,
    in_place: bool = False,
    memory: bool = True,
) -> VirtualMachineRestore:
    """Ask for a snapshot to be put back into its VM, or into a new one of another name; without `memory` it boots.

    Raises:
        KubeError: when the server refuses.
    """
    spec: JsonObject = {"target": _refer(check_name(target)), "virtualMachineSnapshotName": snapshot.metadata.name}
    if stop:
        spec["targetReadinessPolicy"] = "StopTarget"
    if in_place:
        spec["volumeRestorePolicy"] = "InPlace"
    metadata: JsonObject = {"name": f"{target}-{now:%Y%m%d-%H%M%S}", "namespace": session.namespace}
    if not memory:
        metadata["annotations"] = {RESTORE_MEMORY: "false"}
    return session.client.create(decode(VirtualMachineRestore, {"metadata": metadata, "spec": spec}))


def list_snapshots(session: Session, vm: str | None, namespace: str | None) -> list[VirtualMachineSnapshot]:
    """All snapshots of a namespace, or those of one VM, the oldest first."""
    found = session.client.list(VirtualMachineSnapshot, namespace)
    chosen = [each for each in found if vm is None or each.spec.source.name == vm]
    return sorted(chosen, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))


def find_snapshot(session: Session, vm: str, name: str) -> VirtualMachineSnapshot:
    """A snapshot of that VM.

    Raises:
        NotFoundError: when there is none of that name.
    """
    known = {each.metadata.name: each for each in list_snapshots(session, check_name(vm), session.namespace)}
    if name not in known:
        raise NotFoundError(f'snapshot "{name}" of VM {vm} not found.{or_nearest(name, sorted(known))}')
    return known[name]


def describe_snapshot(snapshot: VirtualMachineSnapshot) -> str:
    """What it waits for, or why it failed; empty when it is ready."""
    status = snapshot.status
    if status.error is not None and status.error.message and not status.ready_to_use:
        return status.error.message
    return "" if status.ready_to_use else _describe_progress(status.conditions)


def describe_restore(restore: VirtualMachineRestore) -> str:
    """What it waits for, or why it failed; empty when it is complete."""
    failure = condition(restore.status.conditions, "Failure")
    if failure is not None and failure.status == "True":
        return failure.reason
    return "" if restore.status.complete else _describe_progress(restore.status.conditions)


def make_cells(snapshot: VirtualMachineSnapshot, *, with_namespace: bool) -> list[str]:
    """One row of the list."""
    status = snapshot.status
    volumes = status.snapshot_volumes
    cells = [
        snapshot.metadata.name,
        snapshot.spec.source.name,
        status.phase or "-",
        "yes" if status.ready_to_use else "no",
        status.creation_time or "-",
        ",".join(volumes.included_volumes) if volumes is not None and volumes.included_volumes else "-",
        _describe_memory(snapshot),
        describe_snapshot(snapshot) or "-",
    ]
    return [snapshot.metadata.namespace, *cells] if with_namespace else cells


def _describe_memory(snapshot: VirtualMachineSnapshot) -> str:
    """Whether it has the guest's memory, or is to have it."""
    if "Memory" in snapshot.status.indications:
        return "yes"
    is_open = snapshot.metadata.annotations.get(SNAPSHOT_MEMORY) == "true" and not snapshot.is_final
    return "wanted" if is_open else "no"


class SnapshotWait:
    """Waits until a snapshot can be restored, or a restore or a clone is complete."""

    def __init__(self, session: Session, timeout: float, progress: Callable[[], Progress]) -> None:
        self._session = session
        self._timeout = timeout
        self._progress = progress

    def wait_until_ready(self, snapshot: VirtualMachineSnapshot) -> None:
        """Until it is ready.

        Raises:
            RefusedError: when it failed; with the reason.
            TimedOutError: with what it waits for.
        """
        self._wait(snapshot, lambda seen: bool(seen.status.ready_to_use), describe_snapshot, "be ready")

    def wait_until_restored(self, restore: VirtualMachineRestore) -> None:
        """Until the VM has what the snapshot holds.

        Raises:
            RefusedError: when it failed; with the reason.
            TimedOutError: with what it waits for.
        """
        self._wait(restore, lambda seen: bool(seen.status.complete), describe_restore, "be complete")

    def wait_until_cloned(self, clone: VirtualMachineClone) -> None:
        """Until its VM is there.

        Raises:
            RefusedError: when it failed; with the reason.
            TimedOutError: with what it waits for.
        """
        self._wait(clone, lambda seen: seen.status.phase == "Succeeded", describe_clone, "make its VM")

    def _wait(self, item: T, is_done: Callable[[T], bool], describe: Callable[[T], str], what: str) -> None:
        deadline, pause = time.monotonic() + self._timeout, _FIRST_LOOK
        name, word = item.metadata.name, _WORDS[type(item)]
        with self._progress() as progress:
            while True:
                # A server that restarts is waited for as well.
                with contextlib.suppress(Unavailable):
                    try:
                        item = self._session.client.get(type(item), self._session.namespace, name)
                    except NotFound as error:
                        raise RefusedError(f"{word} {name} is gone: somebody has deleted it") from error
                    if is_done(item):
                        return
                    if item.is_final:
                        raise RefusedError(f"{word} {name} failed: {describe(item)}")
                progress.show(f"{name}: {describe(item)}")
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"timed out after {self._timeout:g} s waiting for {word} {name} to {what}: {describe(item)}"
                    )
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(_LONGEST_LOOK, pause * 1.5)


def _describe_progress(conditions: Sequence[Condition]) -> str:
    found = condition(list(conditions), "Progressing")
    if found is None:
        return "not seen by the controller yet"
    return f"{found.reason}: {found.message}" if found.message else found.reason


def _refer(vm: str) -> dict[str, Any]:
    kind = VirtualMachine.KIND
    return {"apiGroup": kind.group, "kind": kind.kind, "name": vm}
