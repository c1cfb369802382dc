"""What can go wrong between a role and an API server, as types: roles never see urllib3's or the client's errors.

Raised by everything in this folder, handled by loops. `status` is the HTTP status, or 0 when no answer came. Touches
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct


class Cause(Struct, frozen=True):
    """One reason for a refusal: the field's path, Kubernetes' reason and a message for the user."""

    field: str = ""
    reason: str = ""
    message: str = ""


class KubeError(Exception):
    """An API server refused a call, or could not be asked."""

    def __init__(self, status: int, reason: str, message: str, causes: tuple[Cause, ...] = ()) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        # How long the server asked to wait before the next try, in seconds; None when it did not.
        self.retry_after: float | None = None


class NotFound(KubeError):
    """The object, its namespace or its kind is not there."""


class AlreadyExists(KubeError):
    """An object of that name is there already."""


class Conflict(KubeError):
    """The object is not in the version, or not the one, that the caller had seen."""


class Gone(KubeError):
    """The resource version is too old to be watched from; list again."""


class Unauthenticated(KubeError):
    """The server does not know who calls: the same call may succeed once the credentials were replaced."""


class Forbidden(KubeError):
    """The caller may not do this."""


class Invalid(KubeError):
    """The object does not fit its schema or its rules; `causes` says where."""


class Unavailable(KubeError):
    """No answer, or none of substance (429 and 5xx): the same call may succeed later."""

    # Whether the server cannot have seen the call, as there was no connection.
    never_sent = False


# An API server whose webhook gives no answer tells the whole URL that it has called. Its path may have a secret part,
# and roles write what went wrong into events, which many may read.
_WEBHOOK_FAILED: Final = "failed calling webhook"
_CALLED_URL: Final = re.compile(r"(https?://[^/\s\"]+)/[^\s\"]*")
_BY_REASON: Final[Mapping[str, type[KubeError]]] = {"AlreadyExists": AlreadyExists, "Expired": Gone, "Gone": Gone}
_BY_STATUS: Final[Mapping[int, type[KubeError]]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Unavailable,
}


def error_from_answer(status: int, body: bytes, what: str) -> KubeError:
    """The error that an HTTP answer of 400 and above stands for.

    Args:
        status: the HTTP status.
        body: a metav1.Status, or whatever stood in between sent.
        what: method and path, for answers without words of their own.
    """
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        document = None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        text = body[:200].decode("utf-8", "replace").strip()
        return _error(status, "", f"{what}: HTTP {status} {text}".strip(), ())
    return error_from_status(document, status, what)


def error_from_status(document: Mapping[str, Any], status: int = 0, what: str = "") -> KubeError:
    """The error that a metav1.Status stands for; watches carry it as an object of their own."""
    details = document.get("details") or {}
    causes = tuple(
        Cause(str(item.get("field", "")), str(item.get("reason", "")), str(item.get("message", "")))
        for item in details.get("causes") or ()
        if isinstance(item, dict)
    )
    code = int(document.get("code") or status)
    message = _hide_webhook_path(str(document.get("message") or "")) or f"{what}: HTTP {code}"
    error = _error(code, str(document.get("reason") or ""), message, causes)
    seconds = details.get("retryAfterSeconds")
    if isinstance(seconds, int) and seconds > 0:
        error.retry_after = float(seconds)
    return error


def _hide_webhook_path(message: str) -> str:
    if _WEBHOOK_FAILED not in message:
        return message
    return _CALLED_URL.sub(r"\1/…", message)


def _error(status: int, reason: str, message: str, causes: tuple[Cause, ...]) -> KubeError:
    cls = _BY_REASON.get(reason) or _BY_STATUS.get(status) or (Unavailable if status >= 500 else KubeError)
    return cls(status, reason, message, causes)
