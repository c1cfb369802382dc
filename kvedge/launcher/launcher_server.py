"""The launcher's gRPC service on a unix socket of its Pod: what the handler of the node asks.

Started by `launcher_process`; hands everything to the parts of `domain_run`. Only root and the launcher's own user can
open the socket, by its mode. Failures are gRPC status codes, never fields of a reply.
"""

# The methods have the names that the .proto gives them.
# ruff: noqa: N802

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import grpc

from kvedge import __version__
from kvedge.launcher.launcher_errors import (
    BadRequest,
    ClaimUnusable,
    DeviceUnusable,
    DiskFull,
    LauncherError,
    LibvirtFailed,
    Unanswered,
    Unreadable,
    WrongState,
)
from kvedge.launcher.run.domain_description import MOST_DESCRIPTIONS
from kvedge.launcher.run.domain_run import DomainRun
from kvedge.resources.relay_protocol import PROTOCOL
from kvedge.rpc import launcher_pb2 as messages
from kvedge.rpc.launcher_pb2_grpc import LauncherServicer, add_LauncherServicer_to_server

log = logging.getLogger(__name__)

# The handler's watch, a second one while it reconnects, and one to debug with.
MOST_WATCHERS: Final = 4
# A Pod has two probes, each asked once at a time. An abandoned call may still wait for its guest.
MOST_PROBES: Final = 4
# The longest that a question of a probe may take; longer ones are asked for, and cut.
LONGEST_PROBE: Final = 600
# Each watch keeps a thread; the others answer calls. Four of these may have to wait for the guest: an order to its
# agent, a freeze, a thaw, a picture.
WORKERS: Final = MOST_WATCHERS + MOST_PROBES + MOST_DESCRIPTIONS + 8
# A VMI with large inline cloud-init data stays well below.
LARGEST_MESSAGE: Final = 8 << 20
# How long calls that are under way may still take when the server stops.
STOP_SECONDS: Final = 2.0

_CODES: Final = (
    (WrongState, grpc.StatusCode.FAILED_PRECONDITION),
    (ClaimUnusable, grpc.StatusCode.FAILED_PRECONDITION),
    (DeviceUnusable, grpc.StatusCode.FAILED_PRECONDITION),
    (BadRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (DiskFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unanswered, grpc.StatusCode.UNAVAILABLE),
    (Unreadable, grpc.StatusCode.UNAVAILABLE),
    (LibvirtFailed, grpc.StatusCode.INTERNAL),
)

Reply = TypeVar("Reply")


def status_code(error: Exception) -> grpc.StatusCode:
    """The status code that tells the handler what to think of an error."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return grpc.StatusCode.INTERNAL


class LauncherServer(LauncherServicer):
    """The service of one VMI."""

    def __init__(self, run: DomainRun, vmi_uid: str) -> None:
        self._run = run
        self._vmi_uid = vmi_uid
        self._watching = 0
        self._counting = threading.Lock()
        self._probing = threading.Semaphore(MOST_PROBES)
        self._server: grpc.Server | None = None

    def start(self, path: str) -> None:
        """Serve on the unix socket `path`, replacing what a launcher before left there.

        Raises:
            OSError: when the socket cannot be made.
        """
        options = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0)]
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="grpc")
        self._server = grpc.server(pool, options=options)
        add_LauncherServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]  # generated
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # The run's lock says that no other launcher uses it.
        if os.path.lexists(path):
            os.unlink(path)
        try:
            self._server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise OSError(errno.EADDRNOTAVAIL, "cannot listen", path) from error
        self._server.start()

    def stop(self) -> None:
        """End all watches after their latest status, and the server."""
        self._run.board.close()
        if self._server is not None:
            self._server.stop(STOP_SECONDS).wait()

    def Ping(self, request: messages.PingRequest, context: grpc.ServicerContext) -> messages.PingReply:
        """The launcher's protocol, version, VMI and process."""
        return messages.PingReply(protocol=PROTOCOL, version=__version__, vmi_uid=self._vmi_uid, pid=os.getpid())

    def Sync(self, request: messages.SyncRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Make the domain be as the VMI says."""
        return _answer(context, lambda: self._run.life.sync(request))

    def Pause(self, request: messages.PauseRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Stop the guest's CPUs."""
        return _answer(context, self._run.orders.pause)

    def Unpause(self, request: messages.UnpauseRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Let them run."""
        return _answer(context, self._run.orders.unpause)

    def Reset(self, request: messages.ResetRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """The reset button."""
        return _answer(context, self._run.orders.reset)

    def SoftReboot(self, request: messages.SoftRebootRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Ask the guest to reboot."""
        return _answer(context, self._run.orders.soft_reboot)

    def Shutdown(self, request: messages.ShutdownRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Ask the guest to power off."""
        return _answer(context, self._run.orders.shut_down)

    def Kill(self, request: messages.KillRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """End QEMU."""
        return _answer(context, self._run.orders.kill)

    def Delete(self, request: messages.DeleteRequest, context: grpc.ServicerContext) -> messages.DeleteReply:
        """Acknowledge the end; the launcher goes after this answer."""
        _answer(context, self._run.life.delete)
        return messages.DeleteReply()

    def GetDomain(self, request: messages.GetDomainRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """The latest status."""
        return self._run.board.status

    def WatchDomain(
        self, request: messages.WatchDomainRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.DomainStatus]:
        """The latest status, then each change."""
        with self._counting:
            if self._watching >= MOST_WATCHERS:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_WATCHERS} watches are open already")
            self._watching += 1
        try:
            wanted = threading.Event()
            wanted.set()

            def stop_waiting() -> None:
                wanted.clear()
                self._run.board.wake()

            if context.add_callback(stop_waiting):
                yield from self._run.board.watch(wanted)
        finally:
            with self._counting:
                self._watching -= 1

    @property
    def is_watched(self) -> bool:
        """Whether a handler follows the run, which will take note of its end."""
        with self._counting:
            return self._watching > 0

    def GetGuestInfo(self, request: messages.GetGuestInfoRequest, context: grpc.ServicerContext) -> messages.GuestInfo:
        """What the guest's agent says of the guest."""
        return _answer(context, self._run.agent.answers.info)

    def GetUsers(self, request: messages.GetUsersRequest, context: grpc.ServicerContext) -> messages.GuestUsers:
        """The users that are logged in, as the agent tells."""
        return _answer(context, self._run.agent.answers.users)

    def GetFilesystems(
        self, request: messages.GetFilesystemsRequest, context: grpc.ServicerContext
    ) -> messages.GuestFilesystems:
        """What is mounted, as the agent says."""
        return _answer(context, self._run.agent.answers.filesystems)

    def Freeze(self, request: messages.FreezeRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Freeze the guest's file systems."""
        return _answer(context, lambda: self._run.orders.freeze(request.unfreeze_seconds))

    def Unfreeze(self, request: messages.UnfreezeRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """Thaw them."""
        return _answer(context, self._run.orders.unfreeze)

    def GuestPing(self, request: messages.GuestPingRequest, context: grpc.ServicerContext) -> messages.GuestPingReply:
        """Whether the guest's agent answers."""
        self._probe(context, lambda: self._run.ping_guest(_seconds(request.timeout_seconds)))
        return messages.GuestPingReply()

    def GuestExec(self, request: messages.GuestExecRequest, context: grpc.ServicerContext) -> messages.GuestExecReply:
        """How a program in the guest ends."""
        command = [request.command, *request.arguments]
        seconds = _seconds(request.timeout_seconds)
        return self._probe(context, lambda: self._run.agent.probes.execute(command, seconds, context.is_active))

    def _probe(self, context: grpc.ServicerContext, call: Callable[[], Reply]) -> Reply:
        if not self._probing.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_PROBES} probes wait for the guest already")
        try:
            return _answer(context, call)
        finally:
            self._probing.release()

    def Screenshot(
        self, request: messages.ScreenshotRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.ScreenshotChunk]:
        """The guest's screen."""
        pieces = self._run.screen.take(move_cursor=request.move_cursor)
        with contextlib.closing(pieces):
            while piece := _answer(context, lambda: next(pieces, b"")):
                yield messages.ScreenshotChunk(data=piece)

    def DescribeDomain(
        self, request: messages.DescribeDomainRequest, context: grpc.ServicerContext
    ) -> messages.DomainDescription:
        """The domain for people who look at it."""
        return _answer(context, self._run.descriptions.describe)


def _seconds(asked: int) -> int:
    return min(asked or 1, LONGEST_PROBE)


def _answer(context: grpc.ServicerContext, call: Callable[[], Reply]) -> Reply:
    try:
        return call()
    except (LauncherError, OSError) as error:
        code = status_code(error)
        if code is grpc.StatusCode.INTERNAL:
            log.exception("a call failed")
        context.abort(code, str(error))
        raise AssertionError("abort raises") from error
