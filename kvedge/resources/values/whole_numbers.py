"""Whole numbers that came as text: in queries, annotations, versions and names.

Used by every role for text that somebody else has written. Pure. Python's own tests of text let more by than `int`
takes (`"²".isdigit()` holds), `int` takes more than a decimal number (`" 1_0 "`), and refuses a very long one.
"""

from __future__ import annotations

import re
from typing import Final

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
# 64 bits have 19 digits. Leading zeros are let by, up to a length that costs nothing to convert.
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,64}")


def whole_number(text: str, bounds: tuple[int, int] = INT64) -> int | None:
    """The decimal number that a text is; None when it is none, or lies outside of the bounds (both included)."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if bounds[0] <= number <= bounds[1] else None
