"""The launcher's gRPC service on a unix socket of its Pod: what the handler of the node asks.

Started by `launcher_process`; hands everything to the parts of `domain_run`.
"""

# The methods have the names that the .proto gives them.
# ruff: noqa: N802

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

import grpc

from kvedge.launcher.launcher_service import LauncherService, Reply, answer
from kvedge.launcher.run.domain_description import MOST_DESCRIPTIONS
from kvedge.launcher.run.domain_run import DomainRun
from kvedge.rpc import launcher_pb2 as messages

# A Pod has two probes, each asked once at a time. An abandoned call may still wait for its guest.
MOST_PROBES: Final = 4
# The longest that a question of a probe may take; longer ones are asked for, and cut.
LONGEST_PROBE: Final = 600
# Five of these may have to wait for the guest: an order to its agent, a freeze, a thaw, a picture, its figures.
WORKERS: Final = MOST_PROBES + MOST_DESCRIPTIONS + 9


class LauncherServer(LauncherService):
    """The service of one VMI."""

    def __init__(self, run: DomainRun, vmi_uid: str) -> None:
        super().__init__(run.board, vmi_uid, WORKERS)
        self._run = run
        self._probing = threading.Semaphore(MOST_PROBES)

    def Sync(self, request: messages.SyncRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Make the domain be as the VMI says."""
        return answer(context, lambda: self._run.life.sync(request))

    def Pause(self, request: messages.PauseRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Stop the guest's CPUs."""
        return answer(context, self._run.orders.pause)

    def Unpause(self, request: messages.UnpauseRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Let them run."""
        return answer(context, self._run.orders.unpause)

    def Reset(self, request: messages.ResetRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """The reset button."""
        return answer(context, self._run.orders.reset)

    def SoftReboot(self, request: messages.SoftRebootRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Ask the guest to reboot."""
        return answer(context, self._run.orders.soft_reboot)

    def Shutdown(self, request: messages.ShutdownRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Ask the guest to power off."""
        return answer(context, self._run.orders.shut_down)

    def Kill(self, request: messages.KillRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """End QEMU."""
        return answer(context, self._run.orders.kill)

    def Delete(self, request: messages.DeleteRequest, context: grpc.ServicerContext) -> messages.DeleteReply:
        """Acknowledge the end; the launcher goes after this answer."""
        answer(context, self._run.life.delete)
        return messages.DeleteReply()

    def GetMilestones(
        self, request: messages.GetMilestonesRequest, context: grpc.ServicerContext
    ) -> messages.Milestones:
        """When the steps of the guest's start were reached."""
        return messages.Milestones(unix_ms=self._run.milestones.times())

    def GetGuestInfo(self, request: messages.GetGuestInfoRequest, context: grpc.ServicerContext) -> messages.GuestInfo:
        """What the guest's agent says of the guest."""
        return answer(context, self._run.agent.answers.info)

    def GetUsers(self, request: messages.GetUsersRequest, context: grpc.ServicerContext) -> messages.GuestUsers:
        """The users that are logged in, as the agent tells."""
        return answer(context, self._run.agent.answers.users)

    def GetFilesystems(
        self, request: messages.GetFilesystemsRequest, context: grpc.ServicerContext
    ) -> messages.GuestFilesystems:
        """What is mounted, as the agent says."""
        return answer(context, self._run.agent.answers.filesystems)

    def Freeze(self, request: messages.FreezeRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Freeze the guest's file systems."""
        return answer(context, lambda: self._run.orders.freeze(request.unfreeze_seconds))

    def Unfreeze(self, request: messages.UnfreezeRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Thaw them."""
        return answer(context, self._run.orders.unfreeze)

    def GuestPing(self, request: messages.GuestPingRequest, context: grpc.ServicerContext) -> messages.GuestPingReply:
        """Whether the guest's agent answers."""
        self._probe(context, lambda: self._run.ping_guest(_seconds(request.timeout_seconds)))
        return messages.GuestPingReply()

    def GuestExec(self, request: messages.GuestExecRequest, context: grpc.ServicerContext) -> messages.GuestExecReply:
        """How a program in the guest ends."""
        command = [request.command, *request.arguments]
        seconds = _seconds(request.timeout_seconds)
        return self._probe(context, lambda: self._run.execute_in_guest(command, seconds, context.is_active))

    def _probe(self, context: grpc.ServicerContext, call: Callable[[], Reply]) -> Reply:
        if not self._probing.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_PROBES} probes wait for the guest already")
        try:
            return answer(context, call)
        finally:
            self._probing.release()

    def Screenshot(
        self, request: messages.ScreenshotRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.ScreenshotChunk]:
        """The guest's screen."""
        pieces = self._run.screen.take(move_cursor=request.move_cursor)
        with contextlib.closing(pieces):
            while piece := answer(context, lambda: next(pieces, b"")):
                yield messages.ScreenshotChunk(data=piece)

    def Migrate(self, request: messages.MigrateRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Begin to move the guest."""
        return answer(context, lambda: self._run.orders.migrate(request))

    def AbortMigration(
        self, request: messages.AbortMigrationRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """The guest stays."""
        return answer(context, lambda: self._run.orders.abort_migration(request.migration_uid))

    def HoldMigrating(
        self, request: messages.HoldMigratingRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """Stop the CPUs of a guest that moves."""
        return answer(context, lambda: self._run.orders.hold_migrating(request.migration_uid))

    def BeginDiskCopy(
        self, request: messages.BeginDiskCopyRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """Begin to copy disks."""
        return answer(context, lambda: self._run.orders.begin_disk_copy(request))

    def AbortDiskCopy(
        self, request: messages.AbortDiskCopyRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """End that."""
        return answer(context, lambda: self._run.orders.abort_disk_copy(request.id))

    def DumpMemory(self, request: messages.DumpMemoryRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Begin to write the guest's memory into a file."""
        return answer(context, lambda: self._run.orders.dump_memory(request))

    def MoveDisks(self, request: messages.MoveDisksRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Bring disks nearer to the claims that they move to."""
        return answer(context, lambda: self._run.orders.move_disks(request))

    def GetStats(self, request: messages.GetStatsRequest, context: grpc.ServicerContext) -> messages.DomainStats:
        """What the guest has used."""
        return answer(context, lambda: self._run.stats.read(dirty_rate=request.dirty_rate))

    def GetSevInfo(self, request: messages.GetSevInfoRequest, context: grpc.ServicerContext) -> messages.SevInfo:
        """By what the host is known to the guest's owner."""
        return answer(context, self._run.attestation.platform)

    def GetLaunchMeasurement(
        self, request: messages.GetLaunchMeasurementRequest, context: grpc.ServicerContext
    ) -> messages.LaunchMeasurement:
        """What the host has measured of the guest."""
        return answer(context, self._run.attestation.measurement)

    def InjectLaunchSecret(
        self, request: messages.InjectLaunchSecretRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """Give the guest a secret."""
        answer(context, lambda: self._run.attestation.inject(request))
        return self._run.board.status

    def DescribeDomain(
        self, request: messages.DescribeDomainRequest, context: grpc.ServicerContext
    ) -> messages.DomainDescription:
        """The domain for people who look at it."""
        return answer(context, self._run.descriptions.describe)


def _seconds(asked: int) -> int:
    return min(asked or 1, LONGEST_PROBE)
