"""Rules of fields that the kinds of backups share.

Called by their verdicts. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.resources.codec import JsonObject
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.name_grammar import is_subdomain

_LONGEST_NAME: Final = 63
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_vm(name: str, at: Field) -> Iterator[Cause]:
    """It can be the name of a VM."""
    if not name:
        yield required_cause(at, f"{at}: which VM must be given")
    elif len(name) > _LONGEST_NAME or not is_subdomain(name):
        yield invalid_value(at, name, f"it is no name of a VM: at most {_LONGEST_NAME} characters")


def is_name(name: str, at: Field, what: str) -> Iterator[Cause]:
    """It can be the name of an object, and is given."""
    if not name:
        yield required_cause(at, f"{at}: {what} must be given")
    elif not is_subdomain(name):
        yield invalid_value(at, name, "it is no name of an object")


def is_backup_id(id_: str, at: Field) -> Iterator[Cause]:
    """It is the ID of a backup."""
    if not _ID.fullmatch(id_):
        text = "it is no ID of a backup: `kvedge backup list --from REPOSITORY` tells them; leave it out for the latest"
        yield invalid_value(at, id_[:80], text)


def duration_is_one(given: str | None, at: Field, shortest: float = 0.0, longest: float = math.inf) -> Iterator[Cause]:
    """It is a duration of more than nothing, and between these seconds."""
    if given is None:
        return
    try:
        seconds = parse_duration(given)
    except DurationError as error:
        yield invalid_value(at, given, f"{error}: write it as 8h or 90m")
        return
    if seconds <= 0:
        yield invalid_value(at, given, "must be more than nothing")
    elif not shortest <= seconds <= longest:
        yield invalid_value(at, given, f"between {shortest / 60:g} minutes and {longest / 86400:g} days")


def is_unchanged(old: JsonObject, document: JsonObject) -> Iterator[Cause]:
    """The spec is what it was."""
    if old.get("spec") != document.get("spec"):
        yield unsupported_cause("spec", "spec is immutable after creation: make another one")
