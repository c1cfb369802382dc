"""Kubernetes quantities: "4G", "2Gi", "100m" to exact numbers and back.

Used wherever memory, CPU or sizes are counted. Touches nothing. The grammar is
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

# As JSON and YAML have it: text, or a number without a suffix.
Quantity = str | int | float

_SUFFIXES: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"))},
    **{suffix: Fraction(1024 ** (power + 1)) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
# The grammar's own bound: what is larger counts as this much.
_MOST: Final = Fraction(2**63 - 1)
# A longer one is no honest quantity, and parsing huge digits costs time.
_LONGEST: Final = 64


class QuantityError(ValueError):
    """The text is no quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(f"{text!r} is no quantity: use a number with an optional suffix, such as 512Mi, 2G or 500m")
        self.text = text


def parse_quantity(value: Quantity) -> Fraction:
    """The exact value, between -(2^63 - 1) and 2^63 - 1: a larger one counts as the largest, as in Kubernetes.

    Raises:
        QuantityError: when the text is none.
    """
    return max(-_MOST, min(_parse_exact(value), _MOST))


def _parse_exact(value: Quantity) -> Fraction:
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise QuantityError(value)
        return Fraction(str(value))
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise QuantityError(value)
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise QuantityError(value)
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:])
    return Fraction(number) * _SUFFIXES[suffix or ""]


def parse_bytes(value: Quantity) -> int:
    """A size in bytes, rounded up.

    Raises:
        QuantityError: when the text is none.
    """
    return math.ceil(parse_quantity(value))


def format_bytes(size: int) -> str:
    """A size as an exact quantity in the largest unit that fits: 288Mi, 4G, 1500."""
    for suffix in ("Ei", "E", "Pi", "P", "Ti", "T", "Gi", "G", "Mi", "M", "Ki", "k"):
        factor = int(_SUFFIXES[suffix])
        if size and size % factor == 0:
            return f"{size // factor}{suffix}"
    return str(size)


def format_milli(value: Fraction) -> str:
    """A CPU amount in cores or thousandths of one: 2, 100m."""
    milli = math.ceil(value * 1000)
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
