"""The hotplugged volumes in a pass over a VMI: handed over before its launcher is told, taken back after.

Used by the sync loop. Moves volumes by `hotplug_volumes`; `hotplug_plan` decides.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.handler.guest.pass_events import PassEvents
from kvedge.handler.guest.pass_memory import PassMemory
from kvedge.handler.guest.vmi_status import SyncFailure
from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import LauncherView, Step, SyncPlan
from kvedge.handler.pod_errors import PodNotReady
from kvedge.handler.volumes.hotplug_plan import HotplugSeen, as_coming, find_absent, start_gate, wishes_of
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.resources.disks.moved_volumes import attached_volumes
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT
from kvedge.runtime.clock import Clock

# How soon a volume is looked for again that has not come: events tell of some ways by which it comes, not of all.
VOLUME_SECONDS: Final = 1.0
# A condition's reason: the guest is not started yet.
_WAITS: Final = "HotplugVolumesNotReady"


class VolumePass(Struct, frozen=True):
    """Hotplugged volumes of all VMIs of this node."""

    connections: LauncherConnections
    volumes: HotplugVolumes
    events: PassEvents
    clock: Clock

    def hand_over(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView) -> HotplugSeen | None:
        """Give the launcher the volumes that have come, before it is told of them; None without hotplugged volumes."""
        if not view.connected or vmi.is_final or not _concerns_hotplug(vmi):
            return None
        try:
            with self.connections.launcher(key) as launcher:
                return self.volumes.hand_over(vmi, launcher)
        except LauncherCallError:
            return None

    def bring(self, key: Key, vmi: VirtualMachineInstance) -> None:
        """Give the launcher that a guest is to come to the volumes that the guest has.

        Raises:
            LauncherCallError: when the launcher is not there.
            PodNotReady: when one cannot be had yet.
        """
        state = vmi.status.migration_state
        if state is None or not state.target_attachment_pods:
            return
        with self.connections.launcher(key) as launcher:
            seen = self.volumes.hand_over(as_coming(vmi), launcher, makes_images=False)
        absent = find_absent(vmi, seen)
        if absent:
            raise PodNotReady(absent)

    def take_back(
        self,
        key: Key,
        vmi: VirtualMachineInstance,
        view: LauncherView,
        handed: HotplugSeen | None,
        memory: PassMemory,
    ) -> HotplugSeen | None:
        """Take back the volumes that the launcher was told to let go of, and has."""
        is_followed = view.connected and view.synced and memory.wishes == wishes_of(vmi)
        if handed is None or view.status is None or not is_followed or view.status.state not in ALIVE:
            return handed
        try:
            with self.connections.launcher(key) as launcher:
                taken = self.volumes.take_back(vmi, view.status, launcher)
        except LauncherCallError:
            return handed
        return replace(taken, troubles={**handed.troubles, **taken.troubles})

    def hold_start(
        self, plan: SyncPlan, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory
    ) -> SyncPlan:
        """The plan, without the start of a guest whose volumes have not come."""
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
            self.events.tell_once(vmi, memory, _WAITS, gate.message)
        return replace(plan, steps=(), again=VOLUME_SECONDS)


def _concerns_hotplug(vmi: VirtualMachineInstance) -> bool:
    """Whether there is, or may still be, a hotplugged volume."""
    return bool(attached_volumes(vmi)) or any(entry.phase or entry.hotplug_volume for entry in vmi.status.volume_status)
