"""The target's side of a migration: look at the VMI and the launcher that awaits its guest, plan, do.

Called by the sync loop in each pass over a guest that is to come to this node. Talks to the API and the launcher, and
lets the guest in. All of it is done again after a restart: what was let in before is not remembered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

import grpc
from msgspec import Struct, field

from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.launcher_remains import runs_here
from kvedge.handler.launchers.sync_plan import UNRESPONSIVE_SECONDS
from kvedge.handler.migration.crossing_target import CrossingTarget, is_paused_there
from kvedge.handler.migration.crossing_words import taken_patch
from kvedge.handler.migration.incoming_channels import ExpectedGuest, IncomingChannels
from kvedge.handler.migration.migration_patches import (
    address_patch,
    adoption_patch,
    detection_patch,
    exchange_patch,
    is_paused_by_user,
    loss_patch,
    stay_patch,
)
from kvedge.handler.migration.target_plan import (
    PREPARE_SECONDS,
    TargetPlan,
    TargetSeen,
    TargetStep,
    comes,
    plan_target,
)
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.events import EventRecorder, EventType
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.network.errors import NetworkError
from kvedge.resources.moves.crossing import crossing_server_name
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2
from kvedge.rpc.launcher_pb2 import INCOMING_EMPTY, INCOMING_READY, DomainStatus, IncomingMigration
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_CALL_SECONDS: Final = 10.0
_LONGEST_REASON: Final = 1024
# A source that lives speaks each second.
_SILENCE_SECONDS: Final = 60.0
# A handler that was away when its launcher ended finds the last word within this time, or is away for longer.
_WORD_SECONDS: Final = 30.0
_NEVER: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED})


class PodOfGuest(NamedTuple):
    """What the sync loop does for any guest's Pod, and here for one that is to come.

    `prepare` readies Pod and network, and has the launcher listen; it raises LauncherCallError, NetworkError or
    PodNotReady. `last_word` is what the launcher of a Pod, by its UID, has left, or None. `forget` drops what was made
    on this node, by the VMI's UID.
    """

    prepare: Callable[[Key, VirtualMachineInstance, str], None]
    last_word: Callable[[str], DomainStatus | None]
    forget: Callable[[str], None]


class _Memory(Struct):
    """What this handler knows of one guest that comes besides the VMI; times are on the monotonic clock."""

    vmi_uid: str
    uid: str
    began: float
    # Since when it is known that the source's Pod is off.
    off_since: float | None = None
    stuck: str = ""
    told: set[str] = field(default_factory=set)


class TargetSteps(Struct):
    """All guests that are to come to this node."""

    client: KubeClient
    # The VMIs that are to come; and those of this node.
    coming: Informer[VirtualMachineInstance]
    vmis: Informer[VirtualMachineInstance]
    connections: LauncherConnections
    incoming: IncomingChannels
    pod: PodOfGuest
    events: EventRecorder
    # Where guests come to; empty while there is no such place.
    address: Callable[[], str]
    node: str
    clock: Clock
    # Why there is no such place, as far as it is known.
    trouble: Callable[[], str] = str
    # Of guests that come from other boxes; None where none does. Where these come to.
    crossing: CrossingTarget | None = None
    crossing_address: Callable[[], str] = str
    _memories: dict[Key, _Memory] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reconcile(self, key: Key, vmi: VirtualMachineInstance) -> Again | None:
        """One pass over a guest that is to come, or that was to.

        Raises:
            KubeError: when the VMI cannot be written; a Conflict says that it has changed.
        """
        state = comes(vmi, self.node)
        if state is None:
            self.forget(key)
            return None
        if state.source_state is not None and self._hear(key, vmi, state):
            return Again(0.0)
        memory = self._find_memory(key, vmi, state)
        pod_uid = self._connect(key, vmi)
        seen = self._see(key, vmi, state, memory, pod_uid)
        plan = plan_target(vmi, self.node, seen)
        for step in plan.steps:
            self._do(step, key, vmi, state, plan, memory, pod_uid)
        again = self._tell_silence(vmi, state, memory) if state.source_state is not None else None
        due = [seconds for seconds in (plan.again, again) if seconds is not None]
        return Again(min(due)) if due else None

    def _tell_silence(self, vmi: VirtualMachineInstance, state: MigrationState, memory: _Memory) -> float | None:
        """Tell of a box that is silent for long, and of the way out; in how many seconds to look again."""
        if self.crossing is None or not state.is_open or state.target_taken_timestamp is not None:
            return None
        if self.crossing.silent_seconds(state.migration_uid) >= _SILENCE_SECONDS:
            name = vmi.metadata.name
            text = (
                "nothing was heard of the box that the guest comes from for a minute: it is waited for, as the guest"
                f" may run there. If that box is lost for good, `kvedge migrate {name} --forget` here takes away the"
                " VM; it keeps the claims, which may hold the last copy of the disks"
            )
            self._tell(vmi, memory, "MigrationSourceSilent", text, "Warning")
        return _SILENCE_SECONDS / 4

    def _hear(self, key: Key, vmi: VirtualMachineInstance, state: MigrationState) -> bool:
        """Whether something that the other box has said was written down."""
        patch = None if self.crossing is None else self.crossing.listen(key, vmi, state)
        if patch is not None:
            self._write(key, patch)
        return patch is not None

    def tell_arrived(self, key: Key, vmi: VirtualMachineInstance) -> None:
        """The guest is this node's: the box that it comes from hears that."""
        patch = None if self.crossing is None else self.crossing.tell_arrived(key, vmi)
        if patch is not None:
            self.vmis.observe(self.client.patch(VirtualMachineInstance, *key, patch))

    def forget(self, key: Key) -> None:
        """No guest comes here any more."""
        if self.crossing is not None:
            self.crossing.forget(key)
        with self._lock:
            memory = self._memories.pop(key, None)
        if memory is not None:
            self._drop(key, memory)

    def keep(self, key: Key) -> None:
        """The guest has come, and is this node's: nobody else is let in, and all that was made for it stays."""
        with self._lock:
            memory = self._memories.pop(key, None)
        if memory is not None:
            self.incoming.forget(memory.uid)

    def _drop(self, key: Key, memory: _Memory) -> None:
        self.incoming.forget(memory.uid)
        self.connections.drop(key)
        self.pod.forget(memory.vmi_uid)

    def _find_memory(self, key: Key, vmi: VirtualMachineInstance, state: MigrationState) -> _Memory:
        with self._lock:
            memory = self._memories.get(key)
            if memory is not None and (memory.vmi_uid, memory.uid) == (vmi.metadata.uid, state.migration_uid):
                return memory
            found = _Memory(vmi.metadata.uid, state.migration_uid, self.clock.monotonic())
            self._memories[key] = found
        if memory is not None:
            self._drop(key, memory)
        return found

    def _connect(self, key: Key, vmi: VirtualMachineInstance) -> str:
        """Be connected to the launcher; its Pod's UID, empty while none is known."""
        pods = [pod for pod, node in vmi.status.active_pods.items() if node == self.node]
        if len(pods) != 1:
            # None yet; or one of an earlier migration is left, and which is which nobody tells.
            return ""
        self.connections.ensure(key, vmi.metadata.uid, pods[0])
        return pods[0]

    def _see(
        self, key: Key, vmi: VirtualMachineInstance, state: MigrationState, memory: _Memory, pod_uid: str
    ) -> TargetSeen:
        view = self.connections.view(key)
        now = self.clock.monotonic()
        said = None
        if pod_uid:
            # A guest that had come may have ended before this was written down: then it is an end like any other.
            status = view.status if view.connected else self.pod.last_word(pod_uid)
            said = incoming_of(status, state.migration_uid)
        gone = False
        if said is None:
            down = view.down_seconds if pod_uid else now - memory.began
            gone = down >= UNRESPONSIVE_SECONDS and not runs_here(vmi.metadata.uid, pod_uid)
        if said is not None and said.state == INCOMING_EMPTY and now - memory.began >= PREPARE_SECONDS:
            memory.stuck = memory.stuck or f"nothing was ready for the guest within {PREPARE_SECONDS:.0f} s"
        untold = said is not None and said.state == INCOMING_READY and not state.target_node_address
        address = self.crossing_address() if state.source_state is not None else self.address()
        if untold and not address and now - memory.began >= PREPARE_SECONDS:
            # The source has not begun, as nobody has told it where to.
            memory.stuck = memory.stuck or self.trouble() or "this node's relay does not serve"
        if state.source_pod_gone_timestamp and memory.off_since is None:
            memory.off_since = now
        return TargetSeen(
            word=None if said is None else said.state,
            said="" if said is None else said.message,
            gone=gone,
            address=address,
            stuck=memory.stuck,
            hears=memory.off_since is not None and now - memory.off_since < _WORD_SECONDS,
        )

    def _do(
        self,
        step: TargetStep,
        key: Key,
        vmi: VirtualMachineInstance,
        state: MigrationState,
        plan: TargetPlan,
        memory: _Memory,
        pod_uid: str,
    ) -> None:
        uid, reason = state.migration_uid, plan.reason[:_LONGEST_REASON]
        if step is TargetStep.PREPARE:
            self._prepare(key, vmi, uid, memory)
        elif step is TargetStep.EXPECT:
            peer = crossing_server_name(uid) if state.source_state is not None else ""
            self.incoming.expect(uid, ExpectedGuest(*key, state.source_node, pod_uid, peer))
        elif step is TargetStep.ANNOUNCE:
            address = self.crossing_address() if state.source_state is not None else self.address()
            self._write(key, address_patch(vmi, address))
            self._tell(vmi, memory, "PreparingTarget", f"Migration Target is listening at {address}")
        elif step is TargetStep.DETECT:
            self._write(key, detection_patch(vmi))
        elif step is TargetStep.EXCHANGE:
            if self._keep_what_came(key, vmi, uid, memory):
                # Only disks are named in a VMI. The claim of its state goes with them: were this box lost between two
                # writes, the VM would have disks of one node and the state of another.
                taken = self.clock.now() if state.moves_state else None
                self._write(key, exchange_patch(vmi, taken))
        elif step is TargetStep.TAKE:
            if self._keep_what_came(key, vmi, uid, memory):
                self._write(key, taken_patch(vmi, self.clock.now()))
        elif step is TargetStep.REFUSE:
            self._write(key, stay_patch(vmi, reason, "", self.clock.now()))
        elif step is TargetStep.RELEASE:
            paused = is_paused_by_user(vmi) or is_paused_there(state)
            request = launcher_pb2.ReleaseIncomingRequest(migration_uid=uid, paused=paused)
            self._call(key, "ReleaseIncoming", request)
        elif step is TargetStep.ADOPT:
            self._adopt(key, vmi)
        elif step is TargetStep.GIVE_UP:
            self._give_up(key, uid)
        elif step is TargetStep.DISCARD:
            self.incoming.forget(uid)
            if reason:
                self._tell(vmi, memory, "Migrated", f"No guest comes to node {self.node}: {reason}", "Warning")
            self._call(key, "DiscardIncoming", launcher_pb2.DiscardIncomingRequest(migration_uid=uid))
        elif step is TargetStep.RECORD_LOSS:
            self._write(key, loss_patch(vmi, reason, self.clock.now()))
            text = f"VirtualMachineInstance migration uid {uid} failed. reason:{reason}"
            self._tell(vmi, memory, "Migrated", text, "Warning")
        else:
            self._end(key, memory)

    def _keep_what_came(self, key: Key, vmi: VirtualMachineInstance, uid: str, memory: _Memory) -> bool:
        """Whether the launcher has all on stable storage. Users hear why their guest waits: it runs nowhere."""
        request = launcher_pb2.ReleaseIncomingRequest(migration_uid=uid, disks_only=True)
        try:
            self.connections.call(key, "ReleaseIncoming", request, _CALL_SECONDS)
        except LauncherCallError as error:
            text = f"The guest has come and waits: its disks or state cannot be kept yet: {error.detail}"
            text = text[:_LONGEST_REASON]
            if text not in memory.told:
                log.warning("a guest that has come waits", extra={"facts": {"vmi": "/".join(key), "why": error.detail}})
            self._tell(vmi, memory, "SyncFailed", text, "Warning")
            return False
        return True

    def _prepare(self, key: Key, vmi: VirtualMachineInstance, uid: str, memory: _Memory) -> None:
        try:
            self.pod.prepare(key, vmi, uid)
        except (LauncherCallError, NetworkError, PodNotReady) as error:
            why = error.detail if isinstance(error, LauncherCallError) else str(error)
            if why not in memory.told:
                facts = {"vmi": "/".join(key), "why": why}
                log.warning("nothing is ready yet for a guest that is to come", extra={"facts": facts})
            self._tell(vmi, memory, "SyncFailed", why, "Warning")
            if isinstance(error, LauncherCallError) and error.code in _NEVER:
                memory.stuck = why
            return
        self._tell(vmi, memory, "PreparingTarget", "VirtualMachineInstance Migration Target Prepared.")

    def _adopt(self, key: Key, vmi: VirtualMachineInstance) -> None:
        written = self.client.patch(VirtualMachineInstance, *key, adoption_patch(vmi, self.node, self.clock.now()))
        self.keep(key)
        # From here on it is a guest of this node like any other.
        self.vmis.observe(written)
        text = f"The VirtualMachineInstance migrated to node {self.node}."
        self.events.record(vmi, "Normal", "Migrated", text)

    def _give_up(self, key: Key, uid: str) -> None:
        """The source is off. Ask the launcher anew before anything is ended: its word may be of before that.

        It looks once more when it is told to end: what has come by then is the only guest.
        """
        status = self._call(key, "GetDomain", launcher_pb2.GetDomainRequest())
        said = incoming_of(status, uid)
        if said is not None and said.state in (INCOMING_EMPTY, INCOMING_READY):
            self.incoming.forget(uid)
            request = launcher_pb2.DiscardIncomingRequest(migration_uid=uid, if_nothing_came=True)
            self._call(key, "DiscardIncoming", request)

    def _end(self, key: Key, memory: _Memory) -> None:
        with self._lock:
            if self._memories.get(key) is memory:
                del self._memories[key]
        self._drop(key, memory)

    def _call(self, key: Key, method: str, request: object) -> DomainStatus | None:
        """The launcher's answer; None when there is none. The next pass looks at what it has become."""
        try:
            status: DomainStatus = self.connections.call(key, method, request, _CALL_SECONDS)
        except LauncherCallError as error:
            facts = {"vmi": "/".join(key), "order": method, "why": error.detail}
            log.warning("a launcher that awaits a guest did not do it", extra={"facts": facts})
            return None
        return status

    def _tell(
        self, vmi: VirtualMachineInstance, memory: _Memory, reason: str, text: str, kind: EventType = "Normal"
    ) -> None:
        """Tell each sentence once."""
        if text not in memory.told:
            memory.told.add(text)
            self.events.record(vmi, kind, reason, text)

    def _write(self, key: Key, patch: MergePatch) -> None:
        self.coming.observe(self.client.patch(VirtualMachineInstance, *key, patch))


def incoming_of(status: DomainStatus | None, uid: str) -> IncomingMigration | None:
    """What the launcher says of the guest of this migration."""
    if status is None or not status.HasField("incoming") or status.incoming.migration_uid != uid:
        return None
    return status.incoming
