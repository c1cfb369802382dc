"""The source's side of a migration: look at the VMI and its launcher, plan, do.

Called by the sync loop in each pass over a guest of this node. Talks to the API and the launcher, and opens the guest's
way to the other node. What is remembered here is lost with the handler: the way, too, and then the guest stays.
"""

from __future__ import annotations

import logging
import math
import threading
from typing import Final, NamedTuple

import grpc
from msgspec import Struct, field

from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import UNRESPONSIVE_SECONDS, LauncherView
from kvedge.handler.migration.copied_claims import copied_bytes, copied_devices
from kvedge.handler.migration.crossing_source import CrossingSource
from kvedge.handler.migration.crossing_words import moved_patch
from kvedge.handler.migration.limits_plan import Progress, find_overrun, follow_progress, is_too_slow
from kvedge.handler.migration.migration_patches import abort_patch, begin_patch, left_patch, stay_patch, stopped_patch
from kvedge.handler.migration.outgoing_channels import LeavingGuest
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.handler.migration.source_plan import (
    BEGIN_SECONDS,
    SourcePlan,
    SourceSeen,
    SourceStep,
    leaves,
    plan_source,
)
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.kubevirt_configuration import MigrationConfiguration
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import QuantityError, parse_bytes
from kvedge.resources.vmi_facts import guest_memory_field
from kvedge.rpc import launcher_pb2
from kvedge.rpc.launcher_pb2 import OUTGOING_ACTIVE, OUTGOING_NONE, OutgoingMigration
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_CALL_SECONDS: Final = 10.0
_MEBIBYTE: Final = 1 << 20
_LONGEST_REASON: Final = 1024
# An answer that will not be another one.
_NEVER: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED})


class SourceOutcome(NamedTuple):
    """`left`: the guest is not this node's to care for any more. `changed`: the VMI was written."""

    left: bool = False
    changed: bool = False
    again: float | None = None


class _Memory(Struct):
    """What this handler knows of one migration besides the VMI; times are on the monotonic clock."""

    uid: str
    progress: Progress | None = None
    overrun: str = ""
    slow: bool = False
    asked_since: float | None = None
    trouble: str = ""
    refused: str = ""
    aborted_at: float | None = None
    # It is written that the guest has left, and its launcher does not know yet.
    untold: bool = False


class SourceSteps(Struct):
    """All guests that are to leave this node."""

    client: KubeClient
    vmis: Informer[VirtualMachineInstance]
    connections: LauncherConnections
    outgoing: OutgoingService
    events: EventRecorder
    node: str
    clock: Clock
    # Of guests that leave for other boxes; None where none does.
    crossing: CrossingSource | None = None
    _memories: dict[Key, _Memory] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView) -> SourceOutcome:
        """One pass: what is to be done about a migration of this guest.

        Raises:
            KubeError: when the VMI cannot be written; a Conflict says that it has changed.
        """
        state = leaves(vmi, self.node)
        if state is None or not state.migration_uid:
            self.forget(key)
            return SourceOutcome()
        memory = self._find_memory(key, state.migration_uid)
        patch = None if self.crossing is None else self.crossing.converse(key, vmi, state)
        if patch is not None:
            self._write(key, patch)
            return SourceOutcome(changed=True)
        plan = plan_source(vmi, self.node, self._see(vmi, state, view, memory))
        changed = False
        for step in plan.steps:
            changed |= self._do(step, key, vmi, state, plan, memory, view)
        again = None if self.crossing is None else self.crossing.again(state)
        waits = [seconds for seconds in (plan.again, again) if seconds is not None]
        return SourceOutcome(plan.left, changed, min(waits, default=None))

    def forget(self, key: Key) -> None:
        """The guest is not this node's any more: close its way, and let its launcher go if that is due."""
        with self._lock:
            memory = self._memories.pop(key, None)
        if memory is not None:
            self.outgoing.close(memory.uid)
            if self.crossing is not None:
                self.crossing.forget(memory.uid)
            if memory.untold:
                self._acknowledge(key, memory)

    def _find_memory(self, key: Key, uid: str) -> _Memory:
        with self._lock:
            memory = self._memories.get(key)
            if memory is not None and memory.uid == uid:
                return memory
            self._memories[key] = _Memory(uid)
        if memory is not None:
            self.outgoing.close(memory.uid)
        return self._find_memory(key, uid)

    def _see(
        self, vmi: VirtualMachineInstance, state: MigrationState, view: LauncherView, memory: _Memory
    ) -> SourceSeen:
        said = outgoing_of(view, state.migration_uid)
        status = view.status
        if said is not None and said.state == OUTGOING_ACTIVE:
            now = self.clock.monotonic()
            memory.progress = follow_progress(memory.progress, said, now)
            sizes = (memory_bytes(vmi), sum(copied_bytes(vmi).values()))
            limits = state.migration_configuration
            memory.overrun = memory.overrun or find_overrun(memory.progress, sizes, limits, now)
            memory.slow = memory.slow or is_too_slow(memory.progress, sizes, limits, now)
        word = said.state if said is not None else OUTGOING_NONE if view.connected else None
        return SourceSeen(
            word=word,
            said=said.message if said is not None else "",
            connected=view.connected and status is not None,
            gone=_is_gone(view),
            alive=status is not None and status.state in ALIVE,
            migrates=status is not None and status.migrates,
            overrun=memory.overrun,
            slow=memory.slow,
            refused=memory.refused,
        )

    def _do(
        self,
        step: SourceStep,
        key: Key,
        vmi: VirtualMachineInstance,
        state: MigrationState,
        plan: SourcePlan,
        memory: _Memory,
        view: LauncherView,
    ) -> bool:
        """Do it; whether the VMI was written."""
        uid, now = state.migration_uid, self.clock.now()
        if step is SourceStep.BEGIN:
            self._write(key, begin_patch(vmi, now))
            self.events.record(vmi, "Normal", "Migrating", "VirtualMachineInstance is migrating.")
            return True
        if step is SourceStep.MOVE:
            self._move(key, vmi, state, memory)
        elif step is SourceStep.HOLD:
            return self._hold(key, vmi, memory)
        elif step is SourceStep.ABORT:
            return self._abort(key, vmi, state, plan, memory)
        elif step is SourceStep.RECORD_STAY:
            reason = plan.reason[:_LONGEST_REASON]
            self._write(key, stay_patch(vmi, reason, plan.abort_status, now))
            text = f"VirtualMachineInstance migration uid {uid} failed. reason:{reason}"
            self.events.record(vmi, "Warning", "Migrated", text)
            return True
        elif step is SourceStep.RECORD_LEFT:
            said = outgoing_of(view, uid)
            paused = said is not None and said.paused
            self._write(key, left_patch(vmi, paused=paused, status=plan.abort_status, now=now))
            # Only now: what it said must outlast it.
            self._acknowledge(key, memory)
            return True
        elif step is SourceStep.RECORD_MOVED:
            self._write(key, moved_patch(vmi, now))
            self.events.record(vmi, "Normal", "Migrated", "The VirtualMachineInstance migrated to another box.")
            return True
        elif step is SourceStep.ACKNOWLEDGE:
            self._acknowledge(key, memory)
        else:
            self.outgoing.close(uid)
        return False

    def _move(self, key: Key, vmi: VirtualMachineInstance, state: MigrationState, memory: _Memory) -> None:
        now = self.clock.monotonic()
        memory.asked_since = now if memory.asked_since is None else memory.asked_since
        pod_uid = self.connections.pod_uid(key)
        if pod_uid is None:
            return
        try:
            guest = LeavingGuest(*key, pod_uid, state.target_node, state.target_node_address)
            if state.target_state is not None and self.crossing is not None:
                tls, node = self.crossing.credential(state.migration_uid)
                guest = guest._replace(target_node=node, tls=tls)
            self.outgoing.open(state.migration_uid, guest)
            self.connections.call(key, "Migrate", migrate_request(vmi, state), _CALL_SECONDS)
        except (PodNotReady, LauncherCallError) as error:
            why = error.detail if isinstance(error, LauncherCallError) else str(error)
            if memory.trouble != why:
                memory.trouble = why
                log.warning("a guest does not begin to move", extra={"facts": {"vmi": "/".join(key), "why": why}})
            never = isinstance(error, LauncherCallError) and error.code in _NEVER
            if never or now - memory.asked_since >= BEGIN_SECONDS:
                memory.refused = f"the guest did not begin to move: {why}"

    def _abort(
        self, key: Key, vmi: VirtualMachineInstance, state: MigrationState, plan: SourcePlan, memory: _Memory
    ) -> bool:
        now = self.clock.monotonic()
        if memory.aborted_at is not None and now - memory.aborted_at < (plan.again or 0.0):
            return False
        first, memory.aborted_at = memory.aborted_at is None, now
        if first:
            why = f" {plan.reason}" if plan.reason else ""
            self.events.record(vmi, "Normal", "Migrating", f"VirtualMachineInstance is aborting migration.{why}")
        try:
            request = launcher_pb2.AbortMigrationRequest(migration_uid=state.migration_uid)
            self.connections.call(key, "AbortMigration", request, _CALL_SECONDS)
        except LauncherCallError as error:
            log.warning("no migration was ended", extra={"facts": {"vmi": "/".join(key), "why": error.detail}})
        if plan.abort_status and state.is_open and state.abort_status != plan.abort_status:
            self._write(key, abort_patch(vmi, plan.abort_status))
            return True
        return False

    def _hold(self, key: Key, vmi: VirtualMachineInstance, memory: _Memory) -> bool:
        request = launcher_pb2.HoldMigratingRequest(migration_uid=memory.uid)
        try:
            self.connections.call(key, "HoldMigrating", request, _CALL_SECONDS)
        except LauncherCallError as error:
            if memory.trouble != error.detail:
                memory.trouble = error.detail
                log.warning("a guest is not stopped", extra={"facts": {"vmi": "/".join(key), "why": error.detail}})
            return False
        text = "The guest changes memory faster than it can be sent: it stands still until it has moved."
        self.events.record(vmi, "Normal", "Migrating", text)
        self._write(key, stopped_patch(vmi))
        return True

    def _acknowledge(self, key: Key, memory: _Memory) -> None:
        memory.untold = True
        try:
            self.connections.call(key, "Delete", launcher_pb2.DeleteRequest(), _CALL_SECONDS)
        except LauncherCallError as error:
            # It is told again, and otherwise ends by itself after some minutes.
            log.info("a launcher was not told", extra={"facts": {"vmi": "/".join(key), "why": error.detail}})
        else:
            memory.untold = False

    def _write(self, key: Key, patch: MergePatch) -> None:
        self.vmis.observe(self.client.patch(VirtualMachineInstance, *key, patch))


def _is_gone(view: LauncherView) -> bool:
    is_silent = not view.connected and view.last_word is None
    return is_silent and not view.runs and view.down_seconds >= UNRESPONSIVE_SECONDS


def outgoing_of(view: LauncherView, uid: str) -> OutgoingMigration | None:
    """What the launcher says of this migration, or has said as its last word."""
    status = view.status if view.connected else view.last_word
    if status is None or not status.HasField("outgoing") or status.outgoing.migration_uid != uid:
        return None
    return status.outgoing


def memory_bytes(vmi: VirtualMachineInstance) -> int:
    """How much memory the guest sees, at most what an amount can say."""
    found = guest_memory_field(vmi.spec.domain)
    try:
        return 0 if found is None else parse_bytes(found[1])
    except QuantityError:
        return 0


def migrate_request(vmi: VirtualMachineInstance, state: MigrationState) -> launcher_pb2.MigrateRequest:
    """How the guest is to move, as was decided when the migration was handed over."""
    given = state.migration_configuration or MigrationConfiguration()
    bandwidth = _bandwidth(given)
    there = "" if state.target_state is None else state.target_state.virtual_machine_instance_uid
    return launcher_pb2.MigrateRequest(
        migration_uid=state.migration_uid,
        bandwidth_bytes=math.ceil(bandwidth / _MEBIBYTE) * _MEBIBYTE,
        auto_converge=bool(given.allow_auto_converge),
        max_downtime_ms=max(0, given.max_downtime_ms or 0),
        unsafe=bool(given.unsafe_migration_override),
        copied_volumes=list(copied_bytes(vmi)),
        copied_devices=copied_devices(vmi),
        source_vmi_uid=vmi.metadata.uid if there else "",
        target_vmi_uid=there,
    )


def _bandwidth(given: MigrationConfiguration) -> int:
    if given.bandwidth_per_migration is None:
        return 0
    try:
        return max(0, parse_bytes(given.bandwidth_per_migration))
    except QuantityError:
        return 0
