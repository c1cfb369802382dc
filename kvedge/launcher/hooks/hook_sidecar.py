"""The door to one hook sidecar: gRPC over its socket, within a time and a size.

Used by `hook_calls`. The sidecar is a program of a user, and hostile: of its errors a few words are quoted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import grpc

from kvedge.launcher.hooks.hook_points import INFO_PATH, LARGEST_MESSAGE, SINCE, callback_path
from kvedge.launcher.launcher_errors import HookFailed, Unanswered
from kvedge.resources.values.hook_names import HOOK_VERSIONS
from kvedge.rpc import hooks_pb2

_LONGEST_DETAIL: Final = 500
# A sidecar that sends more of these than there are hook points repeats itself.
_MOST_POINTS: Final = 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    # No proxy of the environment lies before a socket of the Pod.
    ("grpc.enable_http_proxy", 0),
    # Each sidecar's socket is one of its own, which may come a moment later.
    ("grpc.use_local_subchannel_pool", 1),
)
_AGAIN: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


class HookSidecar:
    """One sidecar that has said who it is."""

    def __init__(self, container: str, socket: str, info: hooks_pb2.InfoResult) -> None:
        """`container` is how users know it.

        Raises:
            HookFailed: when it speaks none of the protocols.
        """
        self.container = container
        self.name = info.name
        self._socket = socket
        self._points = {point.name: point.priority for point in info.hook_points[:_MOST_POINTS]}
        offered = set(info.versions[:_MOST_POINTS])
        version = next((known for known in HOOK_VERSIONS if known in offered), None)
        if version is None:
            raise HookFailed(container, f"speaks none of the protocols {', '.join(sorted(HOOK_VERSIONS))}")
        self._version = version

    def priority(self, point: str) -> int | None:
        """Its priority at a hook point; None when it is not to be asked there."""
        return self._points.get(point) if self._version >= SINCE[point] else None

    def call(self, point: str, message: Any, reply: Callable[[bytes], Any], seconds: float) -> Any:
        """Ask it; the answer, read by `reply`.

        Raises:
            HookFailed: when it refuses, or answers what cannot be read.
            Unanswered: when it does not answer in time.
        """
        path = callback_path(self._version, point)
        return call_socket(self.container, self._socket, path, message, reply, seconds)


def ask_info(container: str, socket: str, seconds: float) -> HookSidecar:
    """Who listens at a socket. Raises as :meth:`HookSidecar.call`."""
    info = call_socket(container, socket, INFO_PATH, hooks_pb2.InfoParams(), hooks_pb2.InfoResult.FromString, seconds)
    return HookSidecar(container, socket, info)


def call_socket(
    container: str, socket: str, path: str, message: Any, reply: Callable[[bytes], Any], seconds: float
) -> Any:
    """One call over a connection of its own."""
    doing = path.rpartition("/")[2]
    try:
        with grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            method = channel.unary_unary(path, type(message).SerializeToString, reply)
            return method(message, timeout=seconds)
    except grpc.RpcError as error:
        code, detail = error.code(), (error.details() or "")[:_LONGEST_DETAIL]
        if code in _AGAIN:
            raise Unanswered(f"hook sidecar {container} does not answer {doing}: {detail}") from error
        raise HookFailed(container, f"{doing} failed: {detail}") from error
