"""What a pass over a VMI tells its user by events, and which failures it notes.

Used by the sync loop and its parts. Writes events and the handler's log.
"""

from __future__ import annotations

import logging
from typing import Final

import grpc
from msgspec import Struct

from kvedge.handler.guest.disk_errors import tell_disk_errors
from kvedge.handler.guest.pass_memory import PassMemory
from kvedge.handler.guest.vmi_status import SyncFailure
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.kube.events import EventRecorder, EventType
from kvedge.kube.figures.vmi_figures import VMI_FIGURES
from kvedge.kube.informer import Informer
from kvedge.network.errors import LostStateError, UnsuitablePodError
from kvedge.resources.names import LAUNCHER_SILENT
from kvedge.resources.phases import Phase
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DOMAIN_REASON_PANICKED, DOMAIN_STATE_ABSENT, AccessCredentials

log = logging.getLogger(__name__)

# A launcher finds a short list of short sentences wrong with a guest's agent.
_MOST_TROUBLES: Final = 20
_LONGEST_TROUBLE: Final = 200
# A disk's name, what libvirt says of it, and the remedy.
_LONGEST_NOTE: Final = 600
# Retrying cannot help: the VMI can never become a domain.
_NEVER: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED})


class PassEvents(Struct, frozen=True):
    """The events of all VMIs of this node."""

    recorder: EventRecorder
    vmis: Informer[VirtualMachineInstance]

    def note_failure(
        self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory, error: Exception
    ) -> Phase | None:
        """Remember why a step failed; Failed when the VMI can never be brought to what it should be."""
        current = self.vmis.get(*key)
        if current is None or current.metadata.uid != vmi.metadata.uid or current.is_final:
            # The VMI went or ended during the step, and its launcher with it: that is an end and no failure.
            return None
        detail = error.detail if isinstance(error, LauncherCallError) else str(error)
        code = error.code.name if isinstance(error, LauncherCallError) else type(error).__name__
        log.warning("sync failed", extra={"facts": {"vmi": "/".join(key), "code": code, "detail": detail}})
        if memory.failure is None or memory.failure.message != detail:
            self.recorder.record(vmi, "Warning", "SyncFailed", detail)
        memory.failure = SyncFailure("Synchronizing with the Domain failed.", detail)
        absent = view.status is None or view.status.state == DOMAIN_STATE_ABSENT
        never = isinstance(error, (LostStateError, UnsuitablePodError)) or (
            isinstance(error, LauncherCallError) and error.code in _NEVER
        )
        return "Failed" if never and absent else None

    def note_silence(self, vmi: VirtualMachineInstance, memory: PassMemory, silence: str) -> None:
        """Remember, and tell once, that the launcher is silent."""
        if memory.failure is None or memory.failure.reason != LAUNCHER_SILENT:
            memory.failure = SyncFailure(LAUNCHER_SILENT, silence)
            self.recorder.record(vmi, "Warning", LAUNCHER_SILENT, silence)

    def tell_trouble(self, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory) -> None:
        """Tell the user what the launcher finds wrong with the guest's agent and its disks."""
        trouble = view.status.agent_trouble[:_LONGEST_TROUBLE] if view.status is not None else ""
        if trouble:
            self.tell_once(vmi, memory, "GuestAgentTrouble", f"The guest agent: {trouble}")
        for note in view.status.small_disks if view.status is not None else ():
            self.tell_once(vmi, memory, "ToleratedSmallPV", note[:_LONGEST_TROUBLE], "Normal")
        for note in view.status.ungrown_disks if view.status is not None else ():
            self.tell_once(vmi, memory, "DiskNotGrown", note[:_LONGEST_NOTE])
        for name in view.status.lost_filesystems if view.status is not None else ():
            self.tell_once(vmi, memory, "FilesystemLost", _explain_loss(name[:_LONGEST_TROUBLE]))
        if view.status is not None and view.status.HasField("access_credentials"):
            self._tell_credentials(vmi, memory, view.status.access_credentials)

    def note_failed_pings(self, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory) -> None:
        """Tell that a probe's ping was not answered, as often as the launcher finds it worth a word."""
        failed = view.status.failed_pings if view.status is not None else 0
        if failed > memory.failed_pings:
            text = f"GuestAgentPing probe failed for VMI {vmi.metadata.name}"
            self.recorder.record(vmi, "Warning", "GuestAgentPingFailed", text)
        # That of another launcher begins anew.
        memory.failed_pings = failed

    def note_panic(self, key: Key, view: LauncherView, memory: PassMemory) -> None:
        """Count, once in a run, that the guest's system has panicked."""
        if not memory.panic_noted and view.status is not None and view.status.reason == DOMAIN_REASON_PANICKED:
            memory.panic_noted = True
            VMI_FIGURES.note_panic(*key)

    def _tell_credentials(self, vmi: VirtualMachineInstance, memory: PassMemory, word: AccessCredentials) -> None:
        if word.synchronized:
            text, reason = "Access credentials sync successful.", "AccessCredentialsSyncSuccess"
            self.tell_once(vmi, memory, reason, text, "Normal")
        else:
            text = f"Access credentials sync failed: {word.message[:_LONGEST_NOTE]}"
            self.tell_once(vmi, memory, "AccessCredentialsSyncFailed", text)

    def note_disk_errors(self, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory) -> None:
        """Tell, each time that the guest was paused, for which disks: the launcher's tries become rare."""
        now = frozenset(tell_disk_errors(view.status) if view.status is not None else ())
        for text in sorted(now - memory.disk_errors):
            self.recorder.record(vmi, "Warning", "IOerror", text)
        memory.disk_errors = now

    def tell_once(
        self, vmi: VirtualMachineInstance, memory: PassMemory, reason: str, message: str, kind: EventType = "Warning"
    ) -> None:
        """Tell each sentence once in a run: a guest must not be able to fill the API with its doings."""
        if message in memory.troubles or len(memory.troubles) >= _MOST_TROUBLES:
            return
        memory.troubles.add(message)
        self.recorder.record(vmi, kind, reason, message)

    def tell_start(self, vmi: VirtualMachineInstance, memory: PassMemory) -> None:
        """Tell once in a run that the guest has started."""
        if not memory.started_told:
            memory.started_told = True
            self.recorder.record(vmi, "Normal", "Created", "VirtualMachineInstance defined.")
            self.recorder.record(vmi, "Normal", "Started", "VirtualMachineInstance started.")

    def tell_shutdown(self, vmi: VirtualMachineInstance, memory: PassMemory) -> None:
        """Tell once in a run that the guest was asked to end."""
        if not memory.shutdown_told:
            memory.shutdown_told = True
            self.recorder.record(vmi, "Normal", "ShuttingDown", "Signaled Graceful Shutdown")

    def tell_kill(self, vmi: VirtualMachineInstance) -> None:
        """Tell that QEMU was ended."""
        self.recorder.record(vmi, "Normal", "Deleted", "VirtualMachineInstance stopping")

    def tell_end(self, vmi: VirtualMachineInstance, phase: Phase, reason: str) -> None:
        """Tell how the run ended, when this pass has ended it."""
        if phase == vmi.status.phase:
            return
        if phase == "Succeeded":
            self.recorder.record(vmi, "Normal", "Stopped", "The VirtualMachineInstance was shut down.")
        elif phase == "Failed":
            if reason:
                self.recorder.record(vmi, "Warning", "SyncFailed", reason)
            self.recorder.record(vmi, "Warning", "Stopped", "The VirtualMachineInstance crashed.")


def _explain_loss(filesystem: str) -> str:
    return (
        f"filesystem {filesystem}: its virtiofsd has ended while the guest runs, and QEMU takes no other: what uses it"
        f" in the guest waits until the VM is restarted; the log of the Pod's container for {filesystem} may tell why"
    )
