"""How large the disk on a claim is to be: what the claim has, less what its file system keeps for itself.

Called by the launcher, for images that are there before a start and for those of a running guest. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from kvedge.resources.values.quantities import Quantity, QuantityError, parse_bytes, parse_quantity

_MEBIBYTE: Final = 1 << 20


def choose_grown_bytes(
    requests: Mapping[str, Quantity], capacity: Mapping[str, Quantity], overhead: str | None, *, block: bool
) -> int:
    """The size to which a disk grows, in bytes and whole mebibytes; 0 when the claim does not say.

    The smaller of what was asked for and what there is, as a claim that grows has asked for more before it has it. What
    is free on the file system does not count: others fill and empty it. Without an overhead a disk in a file system
    does not grow: how much it may take is not known yet, and it cannot be made smaller again.

    Raises:
        QuantityError: when the claim has what is no quantity.
    """
    sizes = [parse_bytes(found["storage"]) for found in (requests, capacity) if "storage" in found]
    if "storage" not in capacity or not (block or overhead):
        return 0
    part = Fraction(0) if block or overhead is None else parse_quantity(overhead)
    if not 0 <= part < 1:
        raise QuantityError(f"{overhead} is no part of a file system")
    return math.floor(min(sizes) * (1 - part)) // _MEBIBYTE * _MEBIBYTE
