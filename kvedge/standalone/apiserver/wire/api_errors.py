"""What the embedded API refuses, as exceptions that carry a metav1.Status.

Raised by every module of this package; turned into a response in one place. Clients match on code, reason and
sometimes on wording, so the texts follow apimachinery's; unlike there, values, texts and the number of causes are cut:
what a client sent may be megabytes. Pure: no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from kvedge.standalone.apiserver.wire.told import LONGEST_PATH, MOST_TOLD, cut, show

# The message of a Status names all causes that it has: as many as are told, in words of usual length.
LONGEST_MESSAGE: Final = 16 * 1024
_MORE_ERRORS: Final = "there are more errors than are listed; mend these first"


class FieldErrorType(StrEnum):
    """The reasons of a cause, as apimachinery's field.ErrorType names them."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_TYPE_WORDS = {
    FieldErrorType.NOT_FOUND: "Not found",
    FieldErrorType.REQUIRED: "Required value",
    FieldErrorType.DUPLICATE: "Duplicate value",
    FieldErrorType.INVALID: "Invalid value",
    FieldErrorType.NOT_SUPPORTED: "Unsupported value",
    FieldErrorType.FORBIDDEN: "Forbidden",
    FieldErrorType.TOO_LONG: "Too long",
    FieldErrorType.TOO_MANY: "Too many",
    FieldErrorType.INTERNAL: "Internal error",
    FieldErrorType.TYPE_INVALID: "Invalid value",
}

# These say what is wrong without repeating the value.
_WITHOUT_VALUE = frozenset(
    {FieldErrorType.REQUIRED, FieldErrorType.FORBIDDEN, FieldErrorType.TOO_LONG, FieldErrorType.INTERNAL}
)


class FieldError(Struct, frozen=True):
    """One thing wrong with one field: `field` is a path such as `spec.disks[0].name`, `message` the detail in words."""

    type: FieldErrorType
    field: str
    message: str = ""
    bad_value: Any = None

    def body(self) -> str:
        """The text without the field's path, as it stands in a cause."""
        words = _TYPE_WORDS[self.type]
        if self.type not in _WITHOUT_VALUE:
            words = f"{words}: {show(self.bad_value)}"
        return f"{words}: {cut(self.message)}" if self.message else words

    def text(self) -> str:
        """The text with the field's path, as it stands in a Status message."""
        return f"{cut(self.field, LONGEST_PATH)}: {self.body()}"

    def cause(self) -> dict[str, str]:
        """The metav1.StatusCause."""
        return {"reason": self.type.value, "message": self.body(), "field": cut(self.field, LONGEST_PATH)}


def first_errors(errors: Iterable[FieldError]) -> list[FieldError]:
    """As many errors as are told of, and one more where there are more: rules are not asked for the rest."""
    return list(islice(errors, MOST_TOLD + 1))


class Target(Struct, frozen=True):
    """What an error is about: `kind` is the plural resource name, except for invalid objects where it is the kind."""

    kind: str
    name: str = ""
    group: str = ""
    uid: str = ""

    def qualify(self) -> str:
        """`virtualmachines.kubevirt.io`, or `pods` for the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _quote(name: str) -> str:
    return json.dumps(cut(str(name), LONGEST_PATH), ensure_ascii=False)


@dataclass(eq=False)
class ApiError(Exception):
    """A refusal with everything its Status says. `code` is the HTTP status."""

    code: int
    reason: str
    message: str
    target: Target | None = None
    causes: Sequence[dict[str, str]] = ()
    retry_after_seconds: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> dict[str, Any]:
        """The metav1.Status object."""
        details: dict[str, Any] = {}
        if self.target is not None:
            named = {"name": self.target.name, "group": self.target.group, "kind": self.target.kind}
            named["uid"] = self.target.uid
            details.update({key: cut(str(value), LONGEST_PATH) for key, value in named.items() if value})
        if self.causes:
            details["causes"] = _cut_causes(self.causes)
        if self.retry_after_seconds:
            details["retryAfterSeconds"] = self.retry_after_seconds
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = cut(self.message, LONGEST_MESSAGE)
        if self.reason:
            status["reason"] = self.reason
        if details:
            status["details"] = details
        status["code"] = self.code
        return status


def _cut_causes(causes: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The first causes, and one that says when there are more."""
    told = list(causes[:MOST_TOLD])
    return told if len(causes) <= MOST_TOLD else [*told, {"message": _MORE_ERRORS, "field": ""}]


class NotFound(ApiError):
    """404: no such object."""

    def __init__(self, target: Target) -> None:
        super().__init__(404, "NotFound", f"{target.qualify()} {_quote(target.name)} not found", target)


class PathNotFound(ApiError):
    """404: no such resource is served."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "the server could not find the requested resource", Target(""))


class AlreadyExists(ApiError):
    """409: an object of that name is there."""

    def __init__(self, target: Target) -> None:
        super().__init__(409, "AlreadyExists", f"{target.qualify()} {_quote(target.name)} already exists", target)


class Conflict(ApiError):
    """409: the write does not fit what is stored now; `why` ends the sentence."""

    def __init__(self, target: Target, why: str, causes: Sequence[dict[str, str]] = ()) -> None:
        text = f"Operation cannot be fulfilled on {target.qualify()} {_quote(target.name)}: {why}"
        super().__init__(409, "Conflict", text, target, causes)


class StaleWrite(Conflict):
    """409: the object's resourceVersion moved on since it was read."""

    def __init__(self, target: Target) -> None:
        super().__init__(
            target, "the object has been modified; please apply your changes to the latest version and try again"
        )


class ManagerConflict(ApiError):
    """409 of a server-side apply: other managers own fields that this one wants to set."""

    def __init__(self, message: str, causes: Sequence[dict[str, str]]) -> None:
        super().__init__(409, "Conflict", message, causes=causes)


class Expired(ApiError):
    """410: the resourceVersion or continue token is older than what is kept; the client lists again."""

    def __init__(self, message: str) -> None:
        super().__init__(410, "Expired", message)


class BadRequest(ApiError):
    """400: the request itself cannot be understood."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


class Unauthorized(ApiError):
    """401: nobody is known to be calling."""

    def __init__(self) -> None:
        super().__init__(401, "Unauthorized", "Unauthorized")


class Forbidden(ApiError):
    """403: known, but not allowed; `why` ends the sentence."""

    def __init__(self, target: Target | None, why: str) -> None:
        subject = ""
        if target is not None:
            named = f"{target.qualify()} {_quote(target.name)}" if target.name else target.qualify()
            subject = f"{named} is "
        super().__init__(403, "Forbidden", f"{subject}forbidden: {why}", target)


class MethodNotAllowed(ApiError):
    """405: the resource does not know this verb."""

    def __init__(self, target: Target | None = None, verb: str = "") -> None:
        text = "the server does not allow this method on the requested resource"
        if target is not None and verb:
            text = f"{verb} is not supported on resources of kind {_quote(target.qualify())}"
        super().__init__(405, "MethodNotAllowed", text, target)


class NotAcceptable(ApiError):
    """406: none of the media types that the client accepts can be produced."""

    def __init__(self, offered: Sequence[str]) -> None:
        text = "only the following media types are accepted: " + ", ".join(offered)
        super().__init__(406, "NotAcceptable", text)


class UnsupportedMediaType(ApiError):
    """415: the body's Content-Type is not one that this request takes; `why` adds what is not."""

    def __init__(self, accepted: Sequence[str], why: str = "") -> None:
        text = "the body of the request was in an unknown format - accepted media types include: "
        super().__init__(415, "UnsupportedMediaType", text + ", ".join(accepted) + (f" ({why})" if why else ""))


class TooLarge(ApiError):
    """413: the body is larger than any object may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


class Invalid(ApiError):
    """422: the object is wrong; the first causes are named. `target.kind` is the kind, not the plural."""

    def __init__(self, target: Target, errors: Iterable[FieldError]) -> None:
        found = first_errors(errors)
        texts = list(dict.fromkeys(error.text() for error in found[:MOST_TOLD]))
        if len(found) > MOST_TOLD:
            texts.append(_MORE_ERRORS)
        joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        text = f"{target.qualify()} {_quote(target.name)} is invalid: {joined}"
        super().__init__(422, "Invalid", text, target, [error.cause() for error in found])


class Denied(ApiError):
    """A webhook refused, with a Status of its own."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(int(status["code"]), str(status.get("reason") or ""), str(status["message"]))
        self._status = status

    def status(self) -> dict[str, Any]:
        return self._status


class RequestTimeout(ApiError):
    """408: the client takes too long to say what it wants."""

    def __init__(self, message: str) -> None:
        super().__init__(408, "Timeout", message)


class TooManyRequests(ApiError):
    """429: try again in a while."""

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(429, "TooManyRequests", message, retry_after_seconds=retry_after_seconds)


class InternalError(ApiError):
    """500: something that should not happen, or a webhook that could not be asked."""

    def __init__(self, message: str) -> None:
        super().__init__(500, "InternalError", f"Internal error occurred: {message}", causes=[{"message": message}])


class ServiceUnavailable(ApiError):
    """503: the backend of this path cannot be reached now."""

    def __init__(self, message: str) -> None:
        super().__init__(503, "ServiceUnavailable", message)


class InsufficientStorage(ApiError):
    """507: the disk is full; the write may be tried again once there is room."""

    def __init__(self, message: str) -> None:
        super().__init__(507, "InsufficientStorage", message)
