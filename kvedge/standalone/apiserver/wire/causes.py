"""Short names for the causes that rules yield, with the wording that goes with each.

Called by pod_rules, core_rules and crd_rules. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from kvedge.resources.codec import JsonValue
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType


def required_error(path: str, message: str = "") -> FieldError:
    """A field that must be there and is not."""
    return FieldError(FieldErrorType.REQUIRED, path, message, "")


def invalid(path: str, value: JsonValue, message: str) -> FieldError:
    """A value that makes no sense."""
    return FieldError(FieldErrorType.INVALID, path, message, value)


def invalids(path: str, value: JsonValue, messages: Iterable[str]) -> list[FieldError]:
    """The complaints of a naming rule about one value."""
    return [invalid(path, value, message) for message in messages]


def forbidden(path: str, message: str) -> FieldError:
    """A value that may not be there, or may not be changed."""
    return FieldError(FieldErrorType.FORBIDDEN, path, message, "")


def duplicate(path: str, value: JsonValue) -> FieldError:
    """A value that another one has already."""
    return FieldError(FieldErrorType.DUPLICATE, path, "", value)


def not_found_error(path: str, value: JsonValue) -> FieldError:
    """A reference to something that is not there."""
    return FieldError(FieldErrorType.NOT_FOUND, path, "", value)


def not_supported_error(path: str, value: JsonValue, supported: Iterable[str]) -> FieldError:
    """A value that is none of the known ones."""
    shown = ", ".join(json.dumps(item) for item in supported)
    return FieldError(FieldErrorType.NOT_SUPPORTED, path, f"supported values: {shown}", value)


def one_of(path: str, value: JsonValue, supported: Iterable[str]) -> list[FieldError]:
    """The complaint about a value that is none of the known ones; an absent one is somebody else's."""
    known = list(supported)
    return [] if not value or value in known else [not_supported_error(path, value, known)]


def too_long(path: str, limit: int) -> FieldError:
    """A value of more bytes than allowed."""
    return FieldError(FieldErrorType.TOO_LONG, path, f"may not be more than {limit} bytes", "")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """A list of more items than allowed."""
    return FieldError(FieldErrorType.TOO_MANY, path, f"must have at most {limit} items", count)
