"""The gRPC service of a launcher that awaits its guest: prepare, release, discard, and what is always asked.

Started by `incoming_process`; hands everything to `incoming_guest`.
"""

# The methods have the names that the .proto gives them.
# ruff: noqa: N802

from __future__ import annotations

from typing import Final

import grpc

from kvedge.launcher.launcher_service import LauncherService, answer
from kvedge.launcher.migration.incoming_guest import IncomingGuest
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.rpc import launcher_pb2 as messages

# Preparing, and two orders that come meanwhile.
_WORKERS: Final = 3
_DISCARDED: Final = "the migration was given up"


class IncomingServer(LauncherService):
    """The service of one guest that comes."""

    def __init__(self, guest: IncomingGuest, board: StatusBoard, vmi_uid: str) -> None:
        super().__init__(board, vmi_uid, _WORKERS)
        self._guest = guest

    def GetDomain(self, request: messages.GetDomainRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """What has come by now: whoever asks may decide by it what becomes of the guest."""
        return answer(context, self._guest.look)

    def PrepareIncoming(
        self, request: messages.PrepareIncomingRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """Make its files, and listen for it."""
        return answer(context, lambda: self._guest.prepare(request))

    def ReleaseIncoming(
        self, request: messages.ReleaseIncomingRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """Let it run."""
        uid = request.migration_uid
        if request.disks_only:
            return answer(context, lambda: self._guest.accept_disks(uid))
        return answer(context, lambda: self._guest.release(uid, paused=request.paused))

    def DiscardIncoming(
        self, request: messages.DiscardIncomingRequest, context: grpc.ServicerContext
    ) -> messages.DomainStatus:
        """End it, and go."""
        uid, only_nothing = request.migration_uid, request.if_nothing_came
        return answer(context, lambda: self._guest.discard(uid, _DISCARDED, if_nothing_came=only_nothing))

    def GuestPing(self, request: messages.GuestPingRequest, context: grpc.ServicerContext) -> messages.GuestPingReply:
        """The guest answers where it still is: a liveness probe must not end the Pod to which it comes."""
        return messages.GuestPingReply()

    def GuestExec(self, request: messages.GuestExecRequest, context: grpc.ServicerContext) -> messages.GuestExecReply:
        """As `GuestPing`."""
        return messages.GuestExecReply()
