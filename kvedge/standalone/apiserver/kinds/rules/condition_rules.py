"""What the conditions of a status (metav1.Condition) may say.

Called by the rules of kinds that have such. Pure. All causes at once, in apimachinery's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.name_grammar import pattern_complaint
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import (
    duplicate,
    invalid,
    invalids,
    not_supported_error,
    required_error,
    too_long,
)

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_NO_REASON: Final = pattern_complaint(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON.pattern,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)
_LONGEST_REASON: Final = 1024
_LONGEST_MESSAGE: Final = 32768


def check_conditions(conditions: list[Any], path: str) -> Iterator[FieldError]:
    """Everything wrong with the conditions at `path`."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        kind = condition.get("type") or ""
        if kind in seen:
            yield duplicate(f"{path}[{index}].type", kind)
        seen.add(kind)
        yield from _check_condition(condition, f"{path}[{index}]")


def _check_condition(condition: JsonObject, path: str) -> Iterator[FieldError]:
    kind, reason = condition.get("type") or "", condition.get("reason") or ""
    yield from invalids(f"{path}.type", kind, name_rules.label_key(kind))
    if condition.get("status") not in _STATUSES:
        yield not_supported_error(f"{path}.status", condition.get("status") or "", _STATUSES)
    if (condition.get("observedGeneration") or 0) < 0:
        yield invalid(
            f"{path}.observedGeneration", condition["observedGeneration"], "must be greater than or equal to zero"
        )
    if not condition.get("lastTransitionTime"):
        yield required_error(f"{path}.lastTransitionTime")
    if not reason:
        yield required_error(f"{path}.reason")
    elif not _REASON.fullmatch(reason):
        yield invalid(f"{path}.reason", reason, _NO_REASON)
    if len(reason.encode()) > _LONGEST_REASON:
        yield too_long(f"{path}.reason", _LONGEST_REASON)
    if len((condition.get("message") or "").encode()) > _LONGEST_MESSAGE:
        yield too_long(f"{path}.message", _LONGEST_MESSAGE)
