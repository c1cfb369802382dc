"""Texts of the domain that no domain can hold: libvirt's documents are XML, which lacks some characters.

Called by admission_plan.py on documents as they came; touches nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.resources.vmi_facts import character_not_in_xml

# Each names its whole path; a document with one control character too many often has them everywhere.
_MOST_TOLD: Final = 20


def texts_fit_into_xml(value: Any, at: Field) -> Iterator[Cause]:
    """A cause for each of the first texts below `at` with a character that XML 1.0 does not have."""
    return itertools.islice(_texts(value, at), _MOST_TOLD)


def _texts(value: Any, at: Field) -> Iterator[Cause]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, at.at(str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, at.item(index))
    elif isinstance(value, str) and (found := character_not_in_xml(value)) is not None:
        yield Cause(at, f"{at} holds the character {found}; remove control characters")
