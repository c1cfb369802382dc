"""Refuses fields that no type has: a misspelt one must never be ignored in silence.

The CRDs keep such fields so that they get here. Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.resources import unknown_fields as walk
from kvedge.resources.codec import JsonObject


def unknown_fields(cls: type, document: JsonObject, at: Field) -> Iterator[Cause]:
    """A cause for each field of the document that its type lacks, with the nearest name that it has."""
    for field in walk.unknown_fields(cls, document, at):
        yield Cause(Field(field.path), field.message)
