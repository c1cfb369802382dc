"""A process beside the launcher that makes a VMI's files and its document, and then ends.

Forked by `launcher_process` before anything is loaded. What it needs (the VMI's types, the converter, an ISO writer: 9
MB) would otherwise stay in the launcher for the guest's whole life; it is loaded while the launcher opens libvirt; and
images, which are hostile, are read where there is no libvirt. They speak over a socket pair: a length, then the
message.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.launcher_errors import (
    BadRequest,
    ClaimUnusable,
    DeviceUnusable,
    DiskFull,
    HookFailed,
    LauncherError,
    LibvirtFailed,
    Unanswered,
    WrongState,
)
from kvedge.launcher.launcher_options import LauncherOptions

if TYPE_CHECKING:
    from kvedge.rpc.launcher_pb2 import SyncRequest


# Making images is a matter of milliseconds; a slow card may take some seconds.
SECONDS: Final = 60.0
_LENGTH: Final = struct.Struct(">I")
# libvirt's version, and how long the sizes are that come before the request.
_HEAD: Final = struct.Struct(">II")
_LARGEST: Final = 16 << 20


class PreparationProcess:
    """The launcher's end."""

    def __init__(self, options: LauncherOptions) -> None:
        """Fork; only while this process has no threads."""
        self._options = options
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _serve(theirs, options)
        theirs.close()
        ours.settimeout(SECONDS)
        self._socket: socket.socket | None = ours

    def prepare(self, request: SyncRequest, libvirt_version: int, copied: Mapping[str, int] | None = None) -> Prepared:
        """Make the volumes and the document; after a success the process has ended.

        `copied` are the sizes of disks on claims that come with a guest.

        Raises:
            BadRequest: when no domain can be made of the VMI.
            DiskFull: when a volume does not fit.
            LauncherError: of other kinds, when trying again may help.
        """
        if self._socket is None:
            answer = _prepare_here(self._options, request, libvirt_version, copied or {})
        else:
            answer = self._ask(self._socket, request, libvirt_version, copied or {})
        if "error" in answer:
            raise _error_of(answer)
        self.stop()
        return Prepared(
            answer["xml"], paused=bool(answer["paused"]), notes=tuple(answer["notes"]), hooks=tuple(answer["hooks"])
        )

    def stop(self) -> None:
        """End the process; may be called again."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _ask(
        self, connection: socket.socket, request: SyncRequest, libvirt_version: int, copied: Mapping[str, int]
    ) -> dict[str, Any]:
        sizes = json.dumps(dict(copied)).encode()
        head = _HEAD.pack(libvirt_version, len(sizes))
        try:
            _send(connection, head + sizes + request.SerializeToString())
            return dict(json.loads(_receive(connection)))
        except (OSError, EOFError, ValueError) as error:
            self.stop()
            raise Unanswered(f"the VMI's files were not made: {error}") from error


def _serve(connection: socket.socket, options: LauncherOptions) -> None:
    """The forked process; never returns."""
    code = 70
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Loaded before the first request, while the launcher is busy with its own start.
        from kvedge.launcher.disks.vmi_preparation import VmiPreparation  # noqa: F401
        from kvedge.launcher.domain import domain_xml  # noqa: F401
        from kvedge.rpc.launcher_pb2 import SyncRequest

        while True:
            message = _receive(connection)
            version, length = _HEAD.unpack(message[: _HEAD.size])
            copied = json.loads(message[_HEAD.size : _HEAD.size + length])
            request = SyncRequest.FromString(message[_HEAD.size + length :])
            _send(connection, json.dumps(_prepare_here(options, request, version, copied)).encode())
    except (EOFError, OSError):
        # The launcher is gone.
        code = 0
    finally:
        os._exit(code)


def _prepare_here(
    options: LauncherOptions, request: SyncRequest, libvirt_version: int, copied: Mapping[str, int]
) -> dict[str, Any]:
    from kvedge.launcher.disks.vmi_preparation import VmiPreparation

    try:
        prepared = VmiPreparation(options, libvirt_version).prepare(request, copied)
    except (LauncherError, OSError) as error:
        return _message_of(error)
    return {
        "xml": prepared.xml,
        "paused": prepared.paused,
        "notes": list(prepared.notes),
        "hooks": list(prepared.hooks),
    }


def _message_of(error: LauncherError | OSError) -> dict[str, Any]:
    match error:
        case BadRequest():
            return {"error": "bad request", "arguments": [error.field, error.detail, error.remedy]}
        case ClaimUnusable():
            return {"error": "claim unusable", "arguments": [error.field, error.claim, error.detail, error.remedy]}
        case DeviceUnusable():
            return {"error": "device unusable", "arguments": [error.field, error.detail, error.remedy]}
        case DiskFull():
            return {"error": "disk full", "arguments": [error.path, error.detail]}
        case HookFailed():
            return {"error": "hook failed", "arguments": [error.sidecar, error.detail]}
        case Unanswered():
            return {"error": "unanswered", "arguments": [str(error)]}
        case WrongState():
            return {"error": "wrong state", "arguments": [str(error)]}
        case LibvirtFailed():
            return {"error": "failed", "arguments": [error.doing, error.code, error.domain, error.detail]}
    return {"error": "failed", "arguments": ["preparing the VMI's files", 0, 0, str(error)]}


def _error_of(message: dict[str, Any]) -> LauncherError:
    kinds: dict[str, type[LauncherError]] = {
        "bad request": BadRequest,
        "claim unusable": ClaimUnusable,
        "device unusable": DeviceUnusable,
        "disk full": DiskFull,
        "hook failed": HookFailed,
        "unanswered": Unanswered,
        "wrong state": WrongState,
        "failed": LibvirtFailed,
    }
    return kinds[message["error"]](*message["arguments"])


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(message)) + message)


def _receive(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if length > _LARGEST:
        raise EOFError("a message of no sane length")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise EOFError("the process that makes the VMI's files has ended")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
