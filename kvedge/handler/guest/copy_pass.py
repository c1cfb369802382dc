"""The copy of a guest's disks in a pass over its VMI: begun, ended, accepted, and told of.

Used by the sync loop after the volumes have been handed over. `copy_plan` decides; talks to the launcher, and to the
claims by `hotplug_volumes`. Keeps nothing.
"""

from __future__ import annotations

from typing import Final

import grpc
from msgspec import Struct

from kvedge.handler.guest.copy_plan import (
    NOT_LOOKED,
    CopyOutcome,
    CopyPlan,
    CopyStep,
    fail,
    make_request,
    plan_copy,
    wait,
)
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.volumes.hotplug_plan import HotplugSeen
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2

_CALL_SECONDS: Final = 20.0
# How soon a step that did not succeed is tried again.
COPY_SECONDS: Final = 2.0
# The same request would be refused again.
_NEVER: Final = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED}
)


class CopyPass(Struct, frozen=True):
    """Copies of the disks of all guests of this node."""

    connections: LauncherConnections
    volumes: HotplugVolumes

    def look(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, seen: HotplugSeen | None) -> CopyOutcome:
        """Do what is due, and say what is to be said."""
        if not view.connected or view.status is None or vmi.is_final:
            return NOT_LOOKED
        plan = plan_copy(vmi, view.status, frozenset() if seen is None else seen.present)
        try:
            refusal = self._carry_out(key, vmi, plan)
        except LauncherCallError as error:
            request = vmi.status.disk_copy
            if plan.step is CopyStep.BEGIN and request is not None and error.code in _NEVER:
                return CopyOutcome(looked=True, status=fail(request, error.detail))
            return CopyOutcome(looked=True, status=wait(plan, error.detail or str(error)), again=COPY_SECONDS)
        if refusal:
            return CopyOutcome(looked=True, status=wait(plan, refusal), again=COPY_SECONDS)
        return CopyOutcome(looked=True, status=plan.status)

    def _carry_out(self, key: Key, vmi: VirtualMachineInstance, plan: CopyPlan) -> str:
        """What is in the way; empty when the step is done. Raises LauncherCallError."""
        request = vmi.status.disk_copy
        if plan.step is CopyStep.BEGIN and request is not None:
            self.connections.call(key, "BeginDiskCopy", make_request(vmi, request), _CALL_SECONDS)
        elif plan.step is CopyStep.ABORT:
            self.connections.call(key, "AbortDiskCopy", launcher_pb2.AbortDiskCopyRequest(id=plan.name), _CALL_SECONDS)
        elif plan.step is CopyStep.ACCEPT:
            return self.volumes.accept_copies(vmi)
        return ""
