"""Dumps of a guest's memory in a pass over its VMI: the launcher is asked, and the file gets its name at the end.

Used by the sync loop. Moves files by `hotplug_volumes`; `memory_dump_plan` decides. Keeps nothing: how far a dump is
say the VMI and the launcher.
"""

from __future__ import annotations

import logging
from typing import Final

import grpc
from msgspec import Struct, field

from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.handler.volumes.memory_dump_plan import Dump, DumpOutcome, DumpStep, plan_dumps
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2

log = logging.getLogger(__name__)

_CALL_SECONDS: Final = 10.0
# Asked again it would be refused again.
_NEVER: Final = {
    grpc.StatusCode.UNIMPLEMENTED: "the VM's launcher is of a release that writes no dumps; restart the VM",
    grpc.StatusCode.INVALID_ARGUMENT: "",
    grpc.StatusCode.INTERNAL: "",
}


class DumpsSeen(Struct, frozen=True):
    """The dumps that are over, and what keeps others from beginning or ending, by volume."""

    outcomes: dict[str, DumpOutcome] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)


class MemoryDumpPass(Struct, frozen=True):
    """The dumps of all VMIs of this node."""

    connections: LauncherConnections
    volumes: HotplugVolumes

    def look(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView) -> DumpsSeen | None:
        """Do the next step of each dump; None when nothing can be seen of them. Never raises."""
        if not view.connected or view.status is None or view.status.state not in ALIVE:
            return None
        seen = DumpsSeen()
        for dump in plan_dumps(vmi, view.status):
            try:
                outcome = self._do(key, vmi, dump)
            except (LauncherCallError, ImageRefused, OSError) as error:
                why = error.detail if isinstance(error, LauncherCallError) else str(error)
                seen.troubles[dump.volume] = f"Memory dump to volume {dump.volume} waits: {why}"
                continue
            if outcome is not None:
                facts = {"vmi": "/".join(key), "file": dump.file, "failure": outcome.failure}
                log.info("a dump of a guest's memory is over", extra={"facts": facts})
                seen.outcomes[dump.volume] = outcome
        return seen

    def _do(self, key: Key, vmi: VirtualMachineInstance, dump: Dump) -> DumpOutcome | None:
        """How the dump ended; None while it has not."""
        uid = vmi.metadata.uid
        if dump.step is DumpStep.BEGIN:
            return self._begin(key, dump)
        if dump.step is DumpStep.FINISH:
            try:
                self.volumes.finish_dump(uid, dump.pod_uid, dump.file)
            except ImageRefused as error:
                return DumpOutcome(str(error))
            return DumpOutcome()
        if dump.step is DumpStep.DISCARD:
            self.volumes.discard_dump(uid, dump.pod_uid)
            return DumpOutcome(dump.failure)
        return None

    def _begin(self, key: Key, dump: Dump) -> DumpOutcome | None:
        request = launcher_pb2.DumpMemoryRequest(id=dump.file, volume=dump.volume)
        try:
            self.connections.call(key, "DumpMemory", request, _CALL_SECONDS)
        except LauncherCallError as error:
            if error.code in _NEVER:
                return DumpOutcome(_NEVER[error.code] or error.detail)
            raise
        return None
