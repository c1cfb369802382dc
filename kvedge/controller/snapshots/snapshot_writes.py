"""Does what plans of snapshots, restores, clones and backups say, each write against the version that was planned on.

Held by their loops. The answer of each write goes into the cache, so that the next step is planned on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from kvedge.controller.snapshots.guest_freezes import GuestFreezes
from kvedge.controller.snapshots.snapshot_actions import (
    About,
    Create,
    Delete,
    Freeze,
    Patch,
    PatchByOperations,
    SnapshotAction,
    SnapshotPlan,
    Thaw,
)
from kvedge.controller.vm.create_refusal import is_unjudged
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.patches import JsonPatch, at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup
from kvedge.resources.types.storage import PersistentVolume
from kvedge.resources.types.vm import VirtualMachine

# When the cache turned out to be behind: the watch needs a moment.
_CAUGHT_UP_SECONDS: Final = 0.05
# Of what was planned last when a plan does not settle.
_LONGEST_WORDS: Final = 500

log = logging.getLogger(__name__)


S = TypeVar(
    "S",
    VirtualMachineSnapshot,
    VirtualMachineRestore,
    VirtualMachineClone,
    VirtualMachineSnapshotSchedule,
    BackupRun,
    BackupRestore,
    BackupTask,
    BackupTest,
    VirtualMachineBackup,
)


class PassLimits(Struct, frozen=True):
    """How many plans one pass may make, and in how many seconds another one follows: after a refusal, and at the least.

    `refused` is None where a plan says itself what follows on a refusal.

    `rests`: what a plan has written is looked at again when the plan says so, and not at once.
    """

    steps: int
    refused: float | None
    shortest: float = 0.0
    rests: bool = False


class SnapshotWrites:
    """The one way of the loops' workers to write; `informers` are those of the kinds that they write."""

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder,
        informers: Mapping[type, Informer[Any]],
        freezes: GuestFreezes | None = None,
    ) -> None:
        """`freezes` is for those whose plans freeze guests."""
        self._client = client
        self._freezes = freezes
        self._events = events
        self._informers = informers

    def carry_out(self, about: About, plan: SnapshotPlan) -> tuple[str, float | None]:
        """Do all that a plan says, and tell of it.

        The words of a refusal, and a number that ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server does not answer; the pass is repeated.
        """
        refusal = ""
        for action in plan.actions:
            try:
                behind = self._do(action)
            except KubeError as error:
                if isinstance(error, (Conflict, NotFound)) or is_unjudged(error) or not _is_judged(action):
                    raise
                refusal = refusal or str(error)
                continue
            if behind:
                return refusal, _CAUGHT_UP_SECONDS
        for told in plan.told:
            self._events.record(about, told.type, told.reason, told.message)
        return refusal, None

    def settle(
        self,
        find: Callable[[], S | None],
        plan: Callable[[S], SnapshotPlan],
        refusals: dict[str, str],
        limits: PassLimits,
    ) -> Again | None:
        """One pass for an object: plan and write until nothing is left to do; nothing for one that is gone.

        `refusals` has the words of the server's refusals by the object's UID, for the next plan.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        made = SnapshotPlan()
        for _ in range(limits.steps):
            item = find()
            if item is None:
                return None
            made = plan(item)
            again = None if made.again_after is None else Again(max(limits.shortest, made.again_after))
            if not made.actions:
                return again
            try:
                refusal, wait = self.carry_out(item, made)
            except KubeError:
                # What was refused before may be written by now, with the answer lost.
                refusals.pop(item.metadata.uid, None)
                raise
            if refusal:
                refusals[item.metadata.uid] = refusal
                if limits.refused is not None:
                    return Again(limits.refused)
            else:
                refusals.pop(item.metadata.uid, None)
            if wait is not None:
                return Again(wait)
            if limits.rests and again is not None:
                return again
        log.error("a plan does not settle", extra={"facts": {"last": str(made.actions)[:_LONGEST_WORDS]}})
        return Again(5.0)

    def patch(self, write: Patch) -> None:
        """Do one write.

        Raises:
            KubeError: when the server refuses.
        """
        item, meta = write.item, write.item.metadata
        body = at_version(write.body, meta.resource_version)
        patched = self._client.patch(type(item), meta.namespace, meta.name, body, write.subresource)
        informer = self._informers.get(type(item))
        # Kinds that nobody watches are read anew for each plan.
        if informer is not None and patched.metadata.is_left:
            informer.observe(patched)

    def _do(self, action: SnapshotAction) -> bool:
        """Do one action; whether the cache is behind, so that the pass ends.

        Raises:
            KubeError: when the server refuses.
        """
        match action:
            case Create(item):
                try:
                    self._informers[type(item)].observe(self._client.create(item))
                except AlreadyExists:
                    meta = item.metadata
                    self._informers[type(item)].observe(self._client.get(type(item), meta.namespace, meta.name))
                    return True
            case Patch():
                try:
                    self.patch(action)
                except NotFound:
                    return True
            case PatchByOperations(item, operations):
                meta = item.metadata
                patched = self._client.patch(VirtualMachine, meta.namespace, meta.name, JsonPatch(operations))
                self._informers[VirtualMachine].observe(patched)
            case Delete(item):
                delete_observed(self._client, self._informers[type(item)], item)
            case Freeze():
                assert self._freezes is not None, "only snapshots freeze guests"
                self._freezes.begin(action)
            case Thaw():
                assert self._freezes is not None, "only snapshots thaw guests"
                self._freezes.thaw(action)
        return False


def _is_judged(action: SnapshotAction) -> bool:
    """Whether admission, a quota or a role that lacks a right may refuse the write for good, which is told."""
    if isinstance(action, Patch):
        return isinstance(action.item, (VirtualMachine, DataVolume, PersistentVolume)) and not action.subresource
    return not isinstance(action, Delete)
