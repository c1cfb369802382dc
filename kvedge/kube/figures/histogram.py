"""How often something took how long.

Used by queue_figures.py and rest_figures.py, under their locks. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from kvedge.resources.usage.role_stats import Times


class Histogram:
    """Counts by upper bounds, in order."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, seconds: float) -> None:
        """Something took so long."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._total += seconds

    def tell(self) -> Times:
        """What there is by now."""
        return Times(bounds=list(self._bounds), counts=list(self._counts), total=self._total)
