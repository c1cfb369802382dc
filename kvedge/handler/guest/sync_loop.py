"""The handler's loop over the VMIs of its node: look, plan, do, write one patch.

Called by the reconcile loop's workers with a VMI's key. Talks to the API, the launchers and the network; every decision
is in `sync_plan` and `vmi_status`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import grpc

from kvedge.handler.guest.guest_network import GuestNetwork, PreparedNic, Resolver
from kvedge.handler.guest.last_word import read_last_word
from kvedge.handler.guest.mac_conflicts import check_macs
from kvedge.handler.guest.nic_plan import ToldNics, nic_troubles, released_nics, told_nics
from kvedge.handler.guest.running_nics import prepare_running
from kvedge.handler.guest.told_claims import ToldClaims, told_claims
from kvedge.handler.guest.vmi_status import GuestNic, Observation, SyncFailure, status_patch
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.domain_outcome import ALIVE, phase_of
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.launcher_remains import runs_here
from kvedge.handler.launchers.sync_plan import (
    RESOLVER_SECONDS,
    UNRESPONSIVE_SECONDS,
    LauncherView,
    Step,
    SyncPlan,
    plan_sync,
)
from kvedge.handler.pod_errors import PodNotReady
from kvedge.handler.volumes.hotplug_plan import HotplugSeen, hotplug_troubles, start_gate, wishes_of
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.events import EventRecorder, EventType
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.network.errors import LostStateError, NetworkError, UnsuitablePodError
from kvedge.resources.codec import encode_json
from kvedge.resources.disks.volume_facts import hotplugged
from kvedge.resources.names import LAUNCHER_SILENT
from kvedge.resources.phases import Phase
from kvedge.resources.types.pod_networks import absent_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# A cold start of libvirt and QEMU on a loaded box; the guest's own boot is not part of it.
_SYNC_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 3.0
# While a volume is on its way; what can be waited for is told by an event.
_VOLUME_SECONDS: Final = 1.0
# A condition's reason: the guest is not started yet.
_WAITS: Final = "HotplugVolumesNotReady"
# What a launcher can find wrong with a guest's agent is a short list of short sentences.
_MOST_TROUBLES: Final = 20
_LONGEST_TROUBLE: Final = 200
# Retrying cannot help: the VMI can never become a domain.
_NEVER: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED})


@dataclass(slots=True)
class _Remembered:
    """What one pass leaves for the next; after a restart of the handler it is found again, or begins anew."""

    uid: str
    # On the monotonic clock.
    began: float
    nics: tuple[GuestNic, ...] | None = None
    # What of its NICs the launcher was told last; and those that are to be absent and of which nothing is left.
    told_nics: ToldNics | None = None
    released: frozenset[str] = frozenset()
    # What the guest was told of name servers, and when that was last compared; None while it is to be told anew.
    resolver: Resolver | None = None
    resolver_seen: float = 0.0
    # What of its claims the launcher was told last.
    claims: ToldClaims = ()
    failure: SyncFailure | None = None
    # What the launcher has been told of hotplugged volumes; and since when the guest waits for them, monotonic.
    wishes: frozenset[tuple[str, ...]] | None = None
    waits_since: float | None = None
    troubles: set[str] = field(default_factory=set)
    started_told: bool = False
    shutdown_told: bool = False
    # When the guest could first be asked to end, on the monotonic clock.
    ending_since: float | None = None


@dataclass(slots=True)
class SyncLoop:
    """Brings each VMI of this node to what it should be and reports what it is."""

    client: KubeClient
    vmis: Informer[VirtualMachineInstance]
    connections: LauncherConnections
    network: GuestNetwork
    volumes: HotplugVolumes
    # Gives the Pod of a launcher, by its process, what it lacks besides the network; raises PodNotReady.
    prepare_pod: Callable[[VirtualMachineInstance, HeldProcess, str], None]
    events: EventRecorder
    # What a launcher is told of this node when it starts a guest.
    options: Callable[[], launcher_pb2.NodeOptions]
    kubelet: Path
    node: str
    clock: Clock
    _memory: dict[Key, _Remembered] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reconcile(self, key: Key) -> Again | None:
        """One pass over one VMI."""
        vmi = self.vmis.get(*key)
        if vmi is None:
            self._forget(key, None)
            return None
        memory = self._memory_of(key, vmi)
        view = self._view(key, vmi, memory)
        hotplug = self._hand_volumes_over(key, vmi, view)
        outdated = view.synced and self._is_outdated(key, vmi, memory)
        view = replace(view, outdated=outdated)
        plan = self._wait_for_volumes(
            plan_sync(vmi, self.node, view, self._ending_seconds(vmi, view, memory)), vmi, view, memory
        )
        failure_phase = self._carry_out(key, vmi, view, plan, memory)
        if Step.FORGET in plan.steps:
            self._forget(key, vmi)
            return None
        if view.connected:
            # What the steps changed belongs into the same patch.
            view = self.connections.view(key)
        self._release_nics(key, vmi, view, memory)
        hotplug = self._take_volumes_back(key, vmi, view, hotplug, memory)
        self._tell_trouble(vmi, view, memory)
        for text in (*hotplug_troubles(view.status, hotplug).values(), *nic_troubles(view.status)):
            self._tell_once(vmi, memory, "HotplugFailed", text)
        if plan.silence and (memory.failure is None or memory.failure.reason != LAUNCHER_SILENT):
            memory.failure = SyncFailure(LAUNCHER_SILENT, plan.silence)
            self.events.record(vmi, "Warning", LAUNCHER_SILENT, plan.silence)
        changed = self._report(key, vmi, view, self._phase(vmi, view, plan, failure_phase), plan, memory, hotplug)
        if memory.failure is not None and not changed and Step.CONNECT not in plan.steps:
            return Again(_RETRY_SECONDS)
        if changed:
            # The patch changed what the next decision is made from.
            return Again(0.0)
        if hotplug is not None and hotplug.troubles:
            return Again(_VOLUME_SECONDS)
        return Again(plan.again) if plan.again is not None else None

    def _hand_volumes_over(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView) -> HotplugSeen | None:
        """Before anything is planned: what has come is part of what the launcher is told."""
        if not view.connected or vmi.is_final or not _concerns_hotplug(vmi):
            return None
        try:
            with self.connections.launcher(key) as launcher:
                return self.volumes.hand_over(vmi, launcher)
        except LauncherCallError:
            return None

    def _take_volumes_back(
        self,
        key: Key,
        vmi: VirtualMachineInstance,
        view: LauncherView,
        handed: HotplugSeen | None,
        memory: _Remembered,
    ) -> HotplugSeen | None:
        """After the launcher has been told: what it was told to let go of, and has."""
        is_followed = view.connected and view.synced and memory.wishes == wishes_of(vmi)
        if handed is None or view.status is None or not is_followed or view.status.state not in ALIVE:
            return handed
        try:
            with self.connections.launcher(key) as launcher:
                taken = self.volumes.take_back(vmi, view.status, launcher)
        except LauncherCallError:
            return handed
        return replace(taken, troubles={**handed.troubles, **taken.troubles})

    def _wait_for_volumes(
        self, plan: SyncPlan, vmi: VirtualMachineInstance, view: LauncherView, memory: _Remembered
    ) -> SyncPlan:
        """The plan without the start of a guest whose volumes have not come."""
        if Step.SYNC not in plan.steps or view.status is None or view.status.state != DOMAIN_STATE_ABSENT:
            return plan
        now = self.clock.monotonic()
        memory.waits_since = now if memory.waits_since is None else memory.waits_since
        gate = start_gate(vmi, now - memory.waits_since)
        if gate.is_open:
            if memory.failure is not None and memory.failure.reason == _WAITS:
                memory.failure = None
            return plan
        if gate.message:
            memory.failure = SyncFailure(_WAITS, gate.message)
            self._tell_once(vmi, memory, _WAITS, gate.message)
        return replace(plan, steps=(), again=_VOLUME_SECONDS)

    def _is_outdated(self, key: Key, vmi: VirtualMachineInstance, memory: _Remembered) -> bool:
        """Whether the launcher would be told of other claims, volumes or NICs now, or its guest of other servers."""
        if memory.claims != told_claims(vmi) or memory.wishes != wishes_of(vmi) or memory.told_nics != told_nics(vmi):
            return True
        return self._has_other_network(key, vmi, memory)

    def _has_other_network(self, key: Key, vmi: VirtualMachineInstance, memory: _Remembered) -> bool:
        """Whether the guest would be told of other name servers now, or its network cannot be kept; compared, and
        put right, once in a while."""
        now = self.clock.monotonic()
        if memory.resolver is None or now - memory.resolver_seen < RESOLVER_SECONDS:
            return memory.resolver is None
        memory.resolver_seen = now
        try:
            with self.connections.launcher(key) as launcher:
                found = self.network.resolver(launcher)
                self._keep_network(vmi, launcher, memory)
        except (LauncherCallError, NetworkError):
            # It has just ended, which is told by another way.
            return False
        # A node without network has no name servers: its guests keep those that they had, as it will have them again.
        if found.has_nameservers and found != memory.resolver:
            memory.resolver = None
        return memory.resolver is None

    def _keep_network(self, vmi: VirtualMachineInstance, launcher: HeldProcess, memory: _Remembered) -> None:
        try:
            self.network.keep(vmi, launcher)
        except NetworkError:
            # The next preparation meets that again, and says so.
            memory.resolver = None

    def _ending_seconds(self, vmi: VirtualMachineInstance, view: LauncherView, memory: _Remembered) -> float:
        if vmi.metadata.deletion_timestamp is None or not view.connected:
            return 0.0
        if memory.ending_since is None:
            memory.ending_since = self.clock.monotonic()
        return self.clock.monotonic() - memory.ending_since

    def _phase(
        self, vmi: VirtualMachineInstance, view: LauncherView, plan: SyncPlan, failure_phase: Phase | None
    ) -> Phase:
        if failure_phase is not None:
            return failure_phase
        if Step.SYNC in plan.steps and view.status is not None:
            return phase_of(vmi, view.status)
        return plan.phase

    def _memory_of(self, key: Key, vmi: VirtualMachineInstance) -> _Remembered:
        with self._lock:
            memory = self._memory.get(key)
            if memory is None or memory.uid != vmi.metadata.uid:
                memory = _Remembered(
                    vmi.metadata.uid, self.clock.monotonic(), started_told=vmi.status.phase == "Running"
                )
                self._memory[key] = memory
            return memory

    def _view(self, key: Key, vmi: VirtualMachineInstance, memory: _Remembered) -> LauncherView:
        pod_uid = self._pod_uid(vmi)
        if vmi.status.node_name != self.node:
            return LauncherView()
        if pod_uid is None:
            down = self.clock.monotonic() - memory.began
            return LauncherView(down_seconds=down, runs=self._runs(vmi, "", down))
        if not vmi.is_final:
            self.connections.ensure(key, vmi.metadata.uid, pod_uid)
        view = self.connections.view(key)
        if view.connected:
            return view
        return LauncherView(
            down_seconds=view.down_seconds,
            signalled_seconds=view.signalled_seconds,
            runs=self._runs(vmi, pod_uid, view.down_seconds),
            last_word=read_last_word(self.kubelet, pod_uid),
        )

    def _runs(self, vmi: VirtualMachineInstance, pod_uid: str, down_seconds: float) -> bool:
        # It costs a look at every process of the host.
        return down_seconds >= UNRESPONSIVE_SECONDS and runs_here(vmi.metadata.uid, pod_uid)

    def _pod_uid(self, vmi: VirtualMachineInstance) -> str | None:
        return next((pod for pod, node in vmi.status.active_pods.items() if node == self.node), None)

    def _carry_out(
        self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, plan: SyncPlan, memory: _Remembered
    ) -> Phase | None:
        """Do the steps; the phase Failed when the VMI can never be brought to what it should be."""
        try:
            for step in plan.steps:
                self._do(step, key, vmi, memory)
        except (LauncherCallError, NetworkError, PodNotReady) as error:
            return self._note_failure(key, vmi, view, memory, error)
        if plan.steps and Step.CONNECT not in plan.steps:
            memory.failure = None
        return None

    def _do(self, step: Step, key: Key, vmi: VirtualMachineInstance, memory: _Remembered) -> None:
        if step is Step.SYNC:
            self._sync(key, vmi, memory)
        elif step is Step.SHUTDOWN:
            self.connections.call(key, "Shutdown", launcher_pb2.ShutdownRequest(), _CALL_SECONDS)
            if not memory.shutdown_told:
                memory.shutdown_told = True
                self.events.record(vmi, "Normal", "ShuttingDown", "Signaled Graceful Shutdown")
        elif step is Step.KILL:
            self.connections.call(key, "Kill", launcher_pb2.KillRequest(), _CALL_SECONDS)
            self.events.record(vmi, "Normal", "Deleted", "VirtualMachineInstance stopping")
        elif step is Step.ACKNOWLEDGE:
            self.connections.call(key, "Delete", launcher_pb2.DeleteRequest(), _CALL_SECONDS)

    def _sync(self, key: Key, vmi: VirtualMachineInstance, memory: _Remembered) -> None:
        with self.connections.launcher(key) as launcher:
            status = self._start_guest(key, vmi, memory, launcher)
        if status.state in ALIVE and not memory.started_told:
            memory.started_told = True
            self.events.record(vmi, "Normal", "Created", "VirtualMachineInstance defined.")
            self.events.record(vmi, "Normal", "Started", "VirtualMachineInstance started.")

    def _start_guest(
        self, key: Key, vmi: VirtualMachineInstance, memory: _Remembered, launcher: HeldProcess
    ) -> launcher_pb2.DomainStatus:
        pod_uid = self.connections.pod_uid(key)
        if pod_uid is not None:
            self.prepare_pod(vmi, launcher, pod_uid)
        known = self.connections.view(key).status
        resolver = self.network.resolver(launcher)
        failed: NetworkError | None = None
        if known is None or known.state == DOMAIN_STATE_ABSENT:
            # A guest that runs is served as it is.
            check_macs(vmi, self.vmis.list())
            prepared = self.network.prepare(vmi, launcher, resolver)
        else:
            prepared, failed = prepare_running(self.network, vmi, (launcher, resolver), known, self.vmis.list())
        memory.nics = tuple(item.nic for item in prepared)
        request = launcher_pb2.SyncRequest(
            vmi_json=encode_json(vmi), interfaces=[item.message for item in prepared], options=self.options()
        )
        status: launcher_pb2.DomainStatus = self.connections.call(key, "Sync", request, _SYNC_SECONDS)
        memory.resolver, memory.resolver_seen = resolver, self.clock.monotonic()
        memory.claims = told_claims(vmi)
        memory.wishes = wishes_of(vmi)
        self._finish_network(vmi, launcher, prepared, memory)
        if failed is not None:
            # All else is as it should be by now.
            raise failed
        memory.told_nics = told_nics(vmi)
        return status

    def _release_nics(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, memory: _Remembered) -> None:
        """Undo what was made for NICs that the guest has released."""
        wanted = {item.name for _, item in absent_interfaces(vmi)}
        memory.released &= wanted
        if view.status is None or view.status.state not in ALIVE or memory.told_nics != told_nics(vmi):
            return
        due = [each for each in released_nics(vmi, view.status) if each[1].name not in memory.released]
        if not due:
            return
        try:
            with self.connections.launcher(key) as launcher:
                for place in due:
                    self.network.release(vmi, launcher, place)
                    memory.released |= {place[1].name}
        except (LauncherCallError, NetworkError) as error:
            self._note_failure(key, vmi, view, memory, error)

    def _finish_network(
        self, vmi: VirtualMachineInstance, launcher: HeldProcess, prepared: list[PreparedNic], memory: _Remembered
    ) -> None:
        said = [sentence for item in prepared for sentence in item.shortfalls]
        try:
            self.network.introduce_routers(launcher, prepared)
        except NetworkError as error:
            said.append(f"the guest gets no IPv6: {error}")
        for sentence in said:
            self._tell_once(vmi, memory, "NetworkIncomplete", sentence)

    def _note_failure(
        self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, memory: _Remembered, error: Exception
    ) -> Phase | None:
        current = self.vmis.get(*key)
        if current is None or current.metadata.uid != vmi.metadata.uid or current.is_final:
            # It went or ended while we worked on it, and its launcher with it: that is an end and no failure.
            return None
        detail = error.detail if isinstance(error, LauncherCallError) else str(error)
        code = error.code.name if isinstance(error, LauncherCallError) else type(error).__name__
        log.warning("sync failed", extra={"facts": {"vmi": "/".join(key), "code": code, "detail": detail}})
        if memory.failure is None or memory.failure.message != detail:
            self.events.record(vmi, "Warning", "SyncFailed", detail)
        memory.failure = SyncFailure("Synchronizing with the Domain failed.", detail)
        absent = view.status is None or view.status.state == DOMAIN_STATE_ABSENT
        never = isinstance(error, (LostStateError, UnsuitablePodError)) or (
            isinstance(error, LauncherCallError) and error.code in _NEVER
        )
        return "Failed" if never and absent else None

    def _tell_trouble(self, vmi: VirtualMachineInstance, view: LauncherView, memory: _Remembered) -> None:
        trouble = view.status.agent_trouble[:_LONGEST_TROUBLE] if view.status is not None else ""
        if trouble:
            self._tell_once(vmi, memory, "GuestAgentTrouble", f"The guest agent: {trouble}")
        for note in view.status.small_disks if view.status is not None else ():
            self._tell_once(vmi, memory, "ToleratedSmallPV", note[:_LONGEST_TROUBLE], "Normal")

    def _tell_once(
        self, vmi: VirtualMachineInstance, memory: _Remembered, reason: str, message: str, kind: EventType = "Warning"
    ) -> None:
        # Each kind once in a run: a guest must not be able to fill the API with its doings.
        if message in memory.troubles or len(memory.troubles) >= _MOST_TROUBLES:
            return
        memory.troubles.add(message)
        self.events.record(vmi, kind, reason, message)

    def _report(
        self,
        key: Key,
        vmi: VirtualMachineInstance,
        view: LauncherView,
        phase: Phase,
        plan: SyncPlan,
        memory: _Remembered,
        hotplug: HotplugSeen | None,
    ) -> bool:
        """Write what was seen; whether anything was new."""
        seen = Observation(
            phase=phase,
            # What ended the run may have come after what had failed before.
            reason=plan.reason or (memory.failure.message if phase == "Failed" and memory.failure else ""),
            status=view.status,
            nics=memory.nics,
            leaving=frozenset(item.name for _, item in absent_interfaces(vmi)) - memory.released,
            failure=memory.failure,
            launcher_version=view.version,
            hotplug=hotplug,
        )
        patch = status_patch(vmi, seen, self.clock.now())
        if patch is None:
            return False
        try:
            written = self.client.patch(VirtualMachineInstance, *key, MergePatch(patch))
        except NotFound:
            return False
        except Conflict:
            # Somebody wrote in between: the informer brings that version, and it is planned from there.
            return False
        self.vmis.observe(written)
        self._tell_end(vmi, phase, seen.reason)
        return True

    def _tell_end(self, vmi: VirtualMachineInstance, phase: Phase, reason: str) -> None:
        if phase == vmi.status.phase:
            return
        if phase == "Succeeded":
            self.events.record(vmi, "Normal", "Stopped", "The VirtualMachineInstance was shut down.")
        elif phase == "Failed":
            if reason:
                self.events.record(vmi, "Warning", "SyncFailed", reason)
            self.events.record(vmi, "Warning", "Stopped", "The VirtualMachineInstance crashed.")

    def _forget(self, key: Key, vmi: VirtualMachineInstance | None) -> None:
        self.connections.drop(key)
        with self._lock:
            memory = self._memory.pop(key, None)
        uid = vmi.metadata.uid if vmi is not None else memory.uid if memory is not None else None
        if uid is not None:
            self.network.forget(uid)


def _concerns_hotplug(vmi: VirtualMachineInstance) -> bool:
    """Whether there is, or may still be, a hotplugged volume."""
    return bool(hotplugged(vmi)) or any(entry.phase or entry.hotplug_volume for entry in vmi.status.volume_status)
