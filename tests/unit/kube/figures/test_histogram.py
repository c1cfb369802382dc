"""Times are counted by the first bound that they do not exceed."""

from __future__ import annotations

from kvedge.kube.figures.histogram import Histogram
from kvedge.resources.usage.role_stats import Times


def test_times_are_counted_by_their_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 3.0):
        histogram.observe(seconds)
    assert histogram.tell() == Times(bounds=[1.0, 2.0], counts=[2, 1, 1], total=6.0)
