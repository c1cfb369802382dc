"""The handler's loop over the VMIs of its node: look, plan, do, write one patch.

Called by the reconcile loop's workers with a VMI's key. Talks to the API, the launchers and the network; every decision
is in `sync_plan` and `vmi_status`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kvedge.handler.disk_move.disk_move_steps import DiskMoveSteps
from kvedge.handler.guest.copy_pass import CopyPass
from kvedge.handler.guest.copy_plan import CopyOutcome
from kvedge.handler.guest.guest_network import GuestNetwork
from kvedge.handler.guest.lan_joining import LanJoining
from kvedge.handler.guest.lan_watch import LanWatch
from kvedge.handler.guest.last_word import read_last_word
from kvedge.handler.guest.launcher_sync import LauncherSync
from kvedge.handler.guest.memory_dump_pass import MemoryDumpPass
from kvedge.handler.guest.moving_guests import Mobility, MovingGuests
from kvedge.handler.guest.nic_plan import nic_troubles, unserved_nics
from kvedge.handler.guest.pass_events import PassEvents
from kvedge.handler.guest.pass_memory import PassMemories, PassMemory
from kvedge.handler.guest.vmi_status import Observation, status_patch
from kvedge.handler.guest.volume_pass import VOLUME_SECONDS, VolumePass
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.domain_outcome import phase_of
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.launcher_remains import runs_here
from kvedge.handler.launchers.sync_plan import UNRESPONSIVE_SECONDS, LauncherView, Step, SyncPlan, plan_sync
from kvedge.handler.migration.crossing_source import CrossingSource
from kvedge.handler.migration.crossing_target import CrossingTarget
from kvedge.handler.migration.source_steps import SourceOutcome, SourceSteps
from kvedge.handler.migration.target_steps import PodOfGuest, TargetSteps
from kvedge.handler.pod_errors import PodNotReady
from kvedge.handler.volumes.hotplug_plan import HotplugSeen, hotplug_troubles
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.figures.vmi_figures import VMI_FIGURES
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.network.errors import NetworkError
from kvedge.resources.phases import Phase
from kvedge.resources.types.pod_networks import absent_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2
from kvedge.runtime.clock import Clock
from kvedge.runtime.milestones import STATUS_PATCHED

_CALL_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 3.0


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
    # The facts of this node that a launcher gets when it starts a guest.
    options: Callable[[], launcher_pb2.NodeOptions]
    kubelet: Path
    node: str
    clock: Clock
    lan_joining: LanJoining = field(default_factory=LanJoining)
    mobility: Mobility | None = None
    _memories: PassMemories = field(default_factory=PassMemories)
    _told: PassEvents = field(init=False)
    _launchers: LauncherSync = field(init=False)
    _volumes: VolumePass = field(init=False)
    _copies: CopyPass = field(init=False)
    _dumps: MemoryDumpPass = field(init=False)
    _lans: LanWatch = field(init=False)
    _moving: MovingGuests | None = field(init=False, default=None)
    _disk_moves: DiskMoveSteps = field(init=False)

    def __post_init__(self) -> None:
        """Make the parts that share what this loop was given."""
        self._told = PassEvents(self.events, self.vmis)
        self._launchers = LauncherSync(
            self.vmis,
            self.connections,
            self.network,
            self.prepare_pod,
            self.options,
            self._told,
            self.clock,
            self.lan_joining,
        )
        self._lans = LanWatch(self.connections, self._told, self.clock)
        self._disk_moves = DiskMoveSteps(self.client, self.vmis, self.connections, self.events, self.clock)
        self._volumes = VolumePass(self.connections, self.volumes, self._told, self.clock)
        self._copies = CopyPass(self.connections, self.volumes)
        self._dumps = MemoryDumpPass(self.connections, self.volumes)
        if self.mobility is not None:
            self._moving = self._make_moving(self.mobility)

    def _make_moving(self, mobility: Mobility) -> MovingGuests:
        def prepare(key: Key, vmi: VirtualMachineInstance, uid: str) -> None:
            self._volumes.bring(key, vmi)
            self._launchers.prepare_incoming(key, vmi, uid, [*self.vmis.list(), *mobility.coming.list()])

        sources = SourceSteps(
            self.client,
            self.vmis,
            self.connections,
            mobility.outgoing,
            self.events,
            self.node,
            self.clock,
            None if mobility.line is None else CrossingSource(mobility.line, self.events),
        )
        targets = TargetSteps(
            self.client,
            mobility.coming,
            self.vmis,
            self.connections,
            mobility.incoming,
            PodOfGuest(prepare, partial(read_last_word, self.kubelet), self._forget_places),
            self.events,
            mobility.address,
            self.node,
            self.clock,
            mobility.trouble,
            None if mobility.desk is None else CrossingTarget(mobility.desk, self.node, self.clock),
            mobility.crossing_address,
        )
        return MovingGuests(mobility.coming, sources, targets, self.node)

    def reconcile(self, key: Key) -> Again | None:
        """One pass over one VMI, of this node or on its way to it."""
        vmi = self.vmis.get(*key)
        coming = self._moving.find_coming(key, vmi) if self._moving is not None else None
        if self._moving is not None and coming is not None:
            return self._moving.receive(key, coming)
        if vmi is None:
            VMI_FIGURES.forget(*key)
            self._forget(key, None)
            return None
        VMI_FIGURES.note_round(*key)
        memory = self._memories.find_memory(key, vmi, self.clock.monotonic())
        view = self._view(key, vmi, memory)
        self._told.note_panic(key, view, memory)
        move = self._moving.look(key, vmi, view) if self._moving is not None else SourceOutcome()
        if move.changed or move.left:
            wait = 0.0 if move.changed else move.again
            return None if wait is None else Again(wait)
        hotplug = self._volumes.hand_over(key, vmi, view)
        outdated = view.synced and self._launchers.is_outdated(key, vmi, memory)
        view = replace(view, outdated=outdated)
        plan = self._volumes.hold_start(
            plan_sync(vmi, self.node, view, self._ending_seconds(vmi, view, memory)), vmi, view, memory
        )
        failure_phase = self._carry_out(key, vmi, view, plan, memory)
        if Step.FORGET in plan.steps:
            self._forget(key, vmi)
            return None
        if view.connected:
            # The changes of the steps belong into the same patch.
            view = self.connections.view(key)
        self._launchers.release_nics(key, vmi, view, memory)
        look_again = self._lans.look(key, vmi, view, memory)
        disks = self._disk_moves.look(key, vmi, view, hotplug)
        if disks.changed:
            return Again(0.0)
        if disks.trouble:
            self._told.tell_once(vmi, memory, "DiskMoveFailed", disks.trouble)
        dumps = self._dumps.look(key, vmi, view)
        hotplug = self._volumes.take_back(key, vmi, view, hotplug, memory)
        if dumps is not None and hotplug is not None:
            hotplug = replace(hotplug, dumps=dumps.outcomes, troubles={**hotplug.troubles, **dumps.troubles})
        copy = self._copies.look(key, vmi, view, hotplug)
        self._told.tell_trouble(vmi, view, memory)
        self._told.note_failed_pings(vmi, view, memory)
        self._told.note_disk_errors(vmi, view, memory)
        for text in (*hotplug_troubles(view.status, hotplug).values(), *nic_troubles(view.status)):
            self._told.tell_once(vmi, memory, "HotplugFailed", text)
        for text in unserved_nics(view.status):
            self._told.tell_once(vmi, memory, "NetworkCutOff", text)
        if plan.silence:
            self._told.note_silence(vmi, memory, plan.silence)
        changed = self._report(key, vmi, view, self._phase(vmi, view, plan, failure_phase), plan, memory, hotplug, copy)
        if memory.failure is not None and not changed and Step.CONNECT not in plan.steps:
            return Again(_RETRY_SECONDS)
        if changed:
            # The patch changed what the next decision is made from.
            return Again(0.0)
        if hotplug is not None and hotplug.troubles:
            return Again(VOLUME_SECONDS)
        tried = (plan.again, look_again, move.again, disks.again, copy.again)
        waits = [seconds for seconds in tried if seconds is not None]
        return Again(min(waits)) if waits else None

    def _ending_seconds(self, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory) -> float:
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

    def _view(self, key: Key, vmi: VirtualMachineInstance, memory: PassMemory) -> LauncherView:
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
        self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, plan: SyncPlan, memory: PassMemory
    ) -> Phase | None:
        """Do the steps; the phase Failed when the VMI can never be brought to what it should be."""
        try:
            for step in plan.steps:
                self._do(step, key, vmi, memory)
        except (LauncherCallError, NetworkError, PodNotReady) as error:
            return self._told.note_failure(key, vmi, view, memory, error)
        if plan.steps and Step.CONNECT not in plan.steps:
            memory.failure = None
        return None

    def _do(self, step: Step, key: Key, vmi: VirtualMachineInstance, memory: PassMemory) -> None:
        if step is Step.SYNC:
            self._launchers.sync(key, vmi, memory)
        elif step is Step.SHUTDOWN:
            self.connections.call(key, "Shutdown", launcher_pb2.ShutdownRequest(), _CALL_SECONDS)
            self._told.tell_shutdown(vmi, memory)
        elif step is Step.KILL:
            self.connections.call(key, "Kill", launcher_pb2.KillRequest(), _CALL_SECONDS)
            self._told.tell_kill(vmi)
        elif step is Step.ACKNOWLEDGE:
            self.connections.call(key, "Delete", launcher_pb2.DeleteRequest(), _CALL_SECONDS)

    def _report(
        self,
        key: Key,
        vmi: VirtualMachineInstance,
        view: LauncherView,
        phase: Phase,
        plan: SyncPlan,
        memory: PassMemory,
        hotplug: HotplugSeen | None,
        copy: CopyOutcome,
    ) -> bool:
        """Write what was seen; whether anything was new."""
        seen = Observation(
            phase=phase,
            # The run may have ended after an earlier failure: the reason of its end goes first.
            reason=plan.reason or (memory.failure.message if phase == "Failed" and memory.failure else ""),
            status=view.status,
            nics=memory.nics,
            leaving=frozenset(item.name for _, item in absent_interfaces(vmi)) - memory.released,
            failure=memory.failure,
            launcher_version=view.version,
            hotplug=hotplug,
            copy=copy,
            cut_off=(*memory.cut_off, *memory.lost),
            plugins=self.network.plugins,
        )
        patch = status_patch(vmi, seen, self.clock.now())
        if patch is None:
            return False
        try:
            written = self.client.patch(VirtualMachineInstance, *key, MergePatch(patch))
        except NotFound:
            return False
        except Conflict:
            # Another writer came in between: the informer brings that version, and the next pass plans from it.
            return False
        self.vmis.observe(written)
        if phase == "Running":
            self.connections.note(key, STATUS_PATCHED)
        self._told.tell_end(vmi, phase, seen.reason)
        return True

    def _forget(self, key: Key, vmi: VirtualMachineInstance | None) -> None:
        if self._moving is not None:
            # Its launcher may have to be told something yet.
            self._moving.forget(key)
        self.connections.drop(key)
        memory = self._memories.drop(key)
        uid = vmi.metadata.uid if vmi is not None else memory.uid if memory is not None else None
        if uid is not None:
            self._forget_places(uid)

    def _forget_places(self, vmi_uid: str) -> None:
        self.network.forget(vmi_uid)
        self.lan_joining.forget(vmi_uid)
