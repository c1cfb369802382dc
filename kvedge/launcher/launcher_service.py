"""What every gRPC service of a launcher has: its socket, who it is, the status and its watchers, and its errors.

Served by `launcher_server` and, while a guest is awaited, by `incoming_server`. Only root and the launcher's own user
can open the socket, by its mode. Failures are gRPC status codes, never fields of a reply.
"""

# The methods have the names that the .proto gives them.
# ruff: noqa: N802

from __future__ import annotations

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
    HookFailed,
    LauncherError,
    LibvirtFailed,
    Postponed,
    Unanswered,
    Unreadable,
    WrongState,
)
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.resources.relay_protocol import PROTOCOL
from kvedge.rpc import launcher_pb2 as messages
from kvedge.rpc.launcher_pb2_grpc import LauncherServicer, add_LauncherServicer_to_server

log = logging.getLogger(__name__)

# The handler's watch, a second one while it reconnects, and one to debug with.
MOST_WATCHERS: Final = 4
# A VMI with large inline cloud-init data stays well below.
LARGEST_MESSAGE: Final = 8 << 20
# How long calls that are under way may still take when the server stops.
STOP_SECONDS: Final = 2.0

_CODES: Final = (
    (Postponed, grpc.StatusCode.ABORTED),
    (WrongState, grpc.StatusCode.FAILED_PRECONDITION),
    (ClaimUnusable, grpc.StatusCode.FAILED_PRECONDITION),
    (DeviceUnusable, grpc.StatusCode.FAILED_PRECONDITION),
    (HookFailed, grpc.StatusCode.FAILED_PRECONDITION),
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


class LauncherService(LauncherServicer):
    """One service on one socket; the methods that it does not have are UNIMPLEMENTED."""

    def __init__(self, board: StatusBoard, vmi_uid: str, workers: int) -> None:
        """`workers` answer calls at once, beside those of the watchers."""
        self._board = board
        self._vmi_uid = vmi_uid
        self._workers = workers
        self._watching = 0
        self._counting = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self, path: str) -> None:
        """Serve on the unix socket `path`, replacing what a launcher before left there.

        Raises:
            OSError: when the socket cannot be made.
        """
        options = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0)]
        pool = ThreadPoolExecutor(MOST_WATCHERS + self._workers, thread_name_prefix="grpc")
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
        self._board.close()
        if self._server is not None:
            self._server.stop(STOP_SECONDS).wait()

    def Ping(self, request: messages.PingRequest, context: grpc.ServicerContext) -> messages.PingReply:
        """The launcher's protocol, version, VMI and process."""
        return messages.PingReply(protocol=PROTOCOL, version=__version__, vmi_uid=self._vmi_uid, pid=os.getpid())

    def GetDomain(self, request: messages.GetDomainRequest, context: grpc.ServicerContext) -> messages.DomainStatus:
        """The latest status."""
        return self._board.status

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
                self._board.wake()

            if context.add_callback(stop_waiting):
                yield from self._board.watch(wanted)
        finally:
            with self._counting:
                self._watching -= 1

    @property
    def is_watched(self) -> bool:
        """Whether a handler follows the run, which will take note of its end."""
        with self._counting:
            return self._watching > 0


def answer(context: grpc.ServicerContext, call: Callable[[], Reply]) -> Reply:
    """The reply of a call, or its error as a status code, which ends the call."""
    try:
        return call()
    except (LauncherError, OSError) as error:
        code = status_code(error)
        if code is grpc.StatusCode.INTERNAL:
            log.exception("a call failed")
        context.abort(code, str(error))
        raise AssertionError("abort raises") from error
