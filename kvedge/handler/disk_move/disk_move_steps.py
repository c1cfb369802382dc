"""Disks that move in place: look at the VMI and its launcher, plan, do.

Called by the sync loop in each pass over a guest of this node, once volumes were handed over. Talks to the API and to
the launcher; keeps nothing.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import grpc
import msgspec
from msgspec import Struct

from kvedge.handler.disk_move.disk_move_plan import LOOK_SECONDS, DiskMovePlan, Goal, plan_disk_move
from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.migration.migration_patches import exchange_patch
from kvedge.handler.volumes.hotplug_plan import HotplugSeen
from kvedge.kube.errors import Conflict, KubeError, NotFound, Unavailable
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, at_version
from kvedge.resources.codec import encode
from kvedge.resources.disks.moved_volumes import moves_in_place
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.names import DISK_MOVE_ENDED
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import PersistentVolumeClaimSource
from kvedge.rpc import launcher_pb2
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_GOAL_ABORT,
    DISK_MOVE_GOAL_COPY,
    DISK_MOVE_GOAL_FINISH,
    DISK_MOVE_GOAL_SETTLE,
    DISK_MOVE_SETTLED,
    DiskCopy,
    DiskMoveGoal,
    DomainStatus,
    MoveDisksRequest,
)
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# The guest's last writes are copied and flushed in it.
_CALL_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 10.0
_LONGEST: Final = 512
_OLD_LAUNCHER: Final = (
    "Disks do not move to their new claims: the launcher is of an earlier version, which cannot copy them; restart the"
    " VM after its volumes were put back on the claims that they had, and exchange them then"
)
_NO_DEVICES: Final = (
    "Disks do not move to devices (volumeMode: Block): the launcher is of an earlier version, which cannot do that"
    " safely; restart the VM after its volumes were put back on the claims that they had, and exchange them then"
)


class DiskMoveOutcome(NamedTuple):
    """`changed`: the VMI was written, or the launcher has been brought on."""

    changed: bool = False
    again: float | None = None
    trouble: str = ""


class DiskMoveSteps(Struct, frozen=True):
    """All guests of this node whose disks move."""

    client: KubeClient
    vmis: Informer[VirtualMachineInstance]
    connections: LauncherConnections
    events: EventRecorder
    clock: Clock

    def look(
        self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, handed: HotplugSeen | None
    ) -> DiskMoveOutcome:
        """One pass: what is to be done about disks of this guest that move.

        Raises:
            Unavailable: when it is not known whether the VMI was written.
        """
        status = view.status
        if not view.connected or status is None or status.state not in ALIVE:
            return DiskMoveOutcome()
        if not status.moves_disks:
            return DiskMoveOutcome(trouble=_OLD_LAUNCHER if moves_in_place(vmi) else "")
        word = status.disk_move if status.HasField("disk_move") else None
        present = handed.present if handed is not None else frozenset()
        now_ms = int(self.clock.now().timestamp() * 1000)
        plan = plan_disk_move(vmi, word, present, now_ms)
        if plan.goal is Goal.COPY and not status.moves_to_devices and any(copy.block for copy in plan.disks):
            return DiskMoveOutcome(trouble=_NO_DEVICES)
        try:
            changed = self._do(key, vmi, plan)
        except LauncherCallError as error:
            if error.code is grpc.StatusCode.ABORTED:
                # It cannot be done yet, and that is nobody's fault.
                log.info("disks cannot move on yet", extra={"facts": {"vmi": str(key), "why": str(error)[:_LONGEST]}})
                return DiskMoveOutcome(again=LOOK_SECONDS)
            return DiskMoveOutcome(again=_RETRY_SECONDS, trouble=f"Disks do not move on: {error}"[:_LONGEST])
        except (Conflict, NotFound):
            # Another writer came in between: the informer brings that version, and the next pass plans from it.
            return DiskMoveOutcome(again=LOOK_SECONDS)
        except Unavailable:
            raise
        except KubeError as error:
            return DiskMoveOutcome(again=_RETRY_SECONDS, trouble=f"Disks do not move on: {error}"[:_LONGEST])
        return DiskMoveOutcome(changed, plan.again)

    def _do(self, key: Key, vmi: VirtualMachineInstance, plan: DiskMovePlan) -> bool:
        match plan.goal:
            case Goal.NOTHING:
                return False
            case Goal.COPY:
                self._order(key, plan, DISK_MOVE_GOAL_COPY, plan.disks)
                names = ", ".join(f"{copy.volume} to claim {copy.claim}" for copy in plan.disks)
                self.events.record(vmi, "Normal", "DiskMoveStarted", f"Disks are copied: volume {names}"[:_LONGEST])
            case Goal.EXCHANGE:
                return self._exchange(key, vmi, plan)
            case Goal.FINISH:
                self._order(key, plan, DISK_MOVE_GOAL_FINISH)
            case Goal.ABORT:
                self._make_sure(key, plan.move, plan.disks)
                # Repeated until the claims are taken back, which this pass may do.
                self._order(key, plan, DISK_MOVE_GOAL_ABORT)
                return False
            case Goal.RETURN:
                self._write(key, return_patch(vmi, plan.disks))
        return True

    def _exchange(self, key: Key, vmi: VirtualMachineInstance, plan: DiskMovePlan) -> bool:
        reply = self._order(key, plan, DISK_MOVE_GOAL_SETTLE)
        if reply.disk_move.state != DISK_MOVE_SETTLED or reply.disk_move.move_id != plan.move:
            return False
        try:
            self._write(key, exchange_patch(vmi))
        except Unavailable:
            # It may have been written: nothing may go on before that is known.
            raise
        except KubeError:
            self._make_sure(key, plan.move, plan.disks)
            self._order(key, plan, DISK_MOVE_GOAL_COPY)
            raise
        self._order(key, plan, DISK_MOVE_GOAL_FINISH)
        names = ", ".join(f"{copy.volume} to claim {copy.claim}" for copy in plan.disks)
        self.events.record(vmi, "Normal", "DiskMoveSucceeded", f"Disks have moved: volume {names}"[:_LONGEST])
        return True

    def _make_sure(self, key: Key, move: str, disks: tuple[DiskCopy, ...]) -> None:
        """Have it certain that the VMI names the old claims of disks that were to move to devices, and will: the guest
        goes on with the old disks after it, and no word on a device says that it is none.

        What this handler knows of the VMI may be old, and a write of it, or of the handler before, may still be on its
        way. Each is bound to the version that it was made from, and this write makes another one.

        Raises:
            Conflict: when the VMI names a new claim, or somebody else writes it.
            KubeError: when it cannot be made sure.
        """
        if not any(copy.block for copy in disks):
            return
        found = self.client.get(VirtualMachineInstance, *key)
        new = {copy.volume: copy.claim for copy in disks}
        if any(new.get(volume.name) == claim_of(volume) for volume in found.spec.volumes if volume.name in new):
            raise Conflict(409, "Conflict", "the VMI names the new claims already")
        version = found.metadata.resource_version
        self._write(key, at_version({"metadata": {"annotations": {DISK_MOVE_ENDED: f"{move} {version}"}}}, version))

    def _order(
        self, key: Key, plan: DiskMovePlan, goal: DiskMoveGoal, disks: tuple[DiskCopy, ...] = ()
    ) -> DomainStatus:
        request = MoveDisksRequest(move_id=plan.move, goal=goal, disks=disks)
        reply: launcher_pb2.DomainStatus = self.connections.call(key, "MoveDisks", request, _CALL_SECONDS)
        return reply

    def _write(self, key: Key, patch: MergePatch) -> None:
        self.vmis.observe(self.client.patch(VirtualMachineInstance, *key, patch))


def return_patch(vmi: VirtualMachineInstance, disks: tuple[DiskCopy, ...]) -> MergePatch:
    """The guest has the claims again that it had, for disks that QEMU did not exchange."""
    back = {copy.volume: copy for copy in disks}
    volumes = []
    for volume in vmi.spec.volumes:
        copy, source = back.get(volume.name), volume.persistent_volume_claim
        if copy is not None and source is not None and source.claim_name == copy.claim:
            named = PersistentVolumeClaimSource(claim_name=copy.source_claim)
            volume = msgspec.structs.replace(volume, persistent_volume_claim=named)
        volumes.append(encode(volume))
    return at_version({"spec": {"volumes": volumes}}, vmi.metadata.resource_version)
