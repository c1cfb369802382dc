"""The bytes of `kubectl exec` and `attach` on a websocket: channels, and the status at the end.

Used by `exec_routes`. Pure. Each message begins with its channel's number. Protocol v5 can also close a channel: so a
client says that its standard input has ended.
"""

from __future__ import annotations

import msgspec

from kvedge.resources.codec import JsonObject

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PROTOCOLS = (V5, V4)
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
# A window has at most so many columns and rows.
_MOST_CELLS = 65535


def window_of(data: bytes) -> tuple[int, int] | None:
    """Columns and rows of a resize message; None for one that makes no sense."""
    try:
        size = msgspec.json.decode(data)
        columns, rows = int(size["Width"]), int(size["Height"])
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, OverflowError):
        return None
    return (columns, rows) if 0 < columns <= _MOST_CELLS and 0 < rows <= _MOST_CELLS else None


def success() -> bytes:
    """The last message of a command that has ended with 0."""
    return _message({"status": "Success"})


def exit_message(code: int) -> bytes:
    """The last message of a command that has ended with another code."""
    return _message(
        {
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    )


def failure_message(why: str) -> bytes:
    """The last message where no command ran, or nobody knows how it ended."""
    text = f"Internal error occurred: error executing command in container: {why}"
    details = {"causes": [{"message": f"error executing command in container: {why}"}]}
    return _message({"status": "Failure", "message": text, "reason": "InternalError", "details": details, "code": 500})


def _message(status: JsonObject) -> bytes:
    return bytes([ERROR]) + msgspec.json.encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, **status})
