"""Prometheus' text format 0.0.4, written by hand.

Called by metrics_server.py. Pure. Label values come from guests, too: whatever they hold, one line stays one line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Longer values of labels are cut.
_LONGEST_VALUE: Final = 256
_LARGEST_WHOLE: Final = 1 << 53
Number = int | float


class Sample(Struct, frozen=True):
    """One value of a metric."""

    labels: Mapping[str, str]
    value: Number
    # Of a histogram: which of its samples this is.
    suffix: str = ""


class Metric(Struct):
    """One metric with all its samples; of two with the same labels the first one counts."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: list[Sample] = field(default_factory=list)

    def add(self, labels: Mapping[str, str], value: Number) -> None:
        """One more sample."""
        self.samples.append(Sample(labels, value))

    def add_times(
        self, labels: Mapping[str, str], bounds: Sequence[float], counts: Sequence[int], total: float
    ) -> None:
        """The samples of a histogram: `counts` are those up to each bound, and last those beyond all."""
        reached = 0
        for bound, count in zip((*bounds, math.inf), counts, strict=False):
            reached += count
            limit = "+Inf" if bound == math.inf else repr(float(bound))
            self.samples.append(Sample({**labels, "le": limit}, reached, "_bucket"))
        self.samples += [Sample(labels, total, "_sum"), Sample(labels, reached, "_count")]


def render(metrics: Iterable[Metric]) -> str:
    """The text of all metrics that have samples."""
    return "".join("".join(_lines(metric)) for metric in metrics if metric.samples)


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escape(metric.help)}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"
    seen = set()
    for sample in metric.samples:
        labels = ",".join(f'{name}="{_quote(value)}"' for name, value in sample.labels.items())
        # One that comes twice makes all of the answer unreadable.
        if (sample.suffix, labels) not in seen:
            seen.add((sample.suffix, labels))
            yield f"{metric.name}{sample.suffix}{{{labels}}} {_number(sample.value)}\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quote(text: str) -> str:
    """A label's value. A lone surrogate cannot be sent as UTF-8."""
    cut = text[:_LONGEST_VALUE].encode("utf-8", "replace").decode()
    return _escape(cut).replace('"', '\\"')


def _number(value: Number) -> str:
    if isinstance(value, int):
        # Readers have floats: what does not fit is written as one.
        return str(value) if abs(value) <= _LARGEST_WHOLE else repr(float(value))
    return repr(value)
