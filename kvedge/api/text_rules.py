"""Texts of the domain that no domain can hold: libvirt's documents are XML, which lacks some characters.

Called by admission_plan.py on documents as they came; touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kvedge.api.causes import Cause, Field

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def texts_fit_into_xml(value: Any, at: Field) -> Iterator[Cause]:
    """A cause for each text below `at` with a character that XML 1.0 does not have."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts_fit_into_xml(item, at.at(str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_fit_into_xml(item, at.item(index))
    elif isinstance(value, str) and (found := _NOT_IN_XML.search(value)) is not None:
        yield Cause(at, f"{at} holds the character U+{ord(found[0]):04X}; remove control characters")
