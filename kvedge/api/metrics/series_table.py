"""How series are made of objects: a table says which metrics there are, a function what one object has of them.

Used by the *_series.py modules. Pure. An object that cannot be told of is left out by itself, and counted: it takes
nothing away from others, nor from the rest of the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeVar

from kvedge.api.metrics.exposition import Metric, Number
from kvedge.runtime.clock import parse_rfc3339

log = logging.getLogger(__name__)
T = TypeVar("T")

# As KubeVirt writes that an object does not say.
NONE: Final = "<none>"
# Annotations by which templates describe themselves.
_DESCRIBED: Final = ("os", "workload", "flavor")


class Row(NamedTuple):
    """What a metric is."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str


class Told(NamedTuple):
    """One sample of one of the table's metrics."""

    name: str
    labels: Mapping[str, str]
    value: Number


Table = Mapping[str, Row]


def gauge(text: str) -> Row:
    """A metric that goes up and down."""
    return Row("gauge", text)


def histogram(text: str) -> Row:
    """A metric that tells how often something took how long."""
    return Row("histogram", text)


def counter(text: str) -> Row:
    """A metric that KubeVirt calls a counter."""
    return Row("counter", text)


def build(
    table: Table, items: Iterable[T], tell: Callable[[T], Iterable[Told]], left_out: Callable[[str], None]
) -> list[Metric]:
    """The metrics of the table; `left_out` hears of the error of an object that cannot be told of."""
    metrics = {name: Metric(name, row.kind, row.help) for name, row in table.items()}
    for item in items:
        try:
            told = list(tell(item))
        except Exception as error:
            # Counted in a series: one object must not hide all the others.
            log.debug("an object has no series", exc_info=error)
            left_out(type(error).__name__)
            continue
        for name, labels, value in told:
            metrics[name].add(labels, value)
    return list(metrics.values())


def describe(annotations: Mapping[str, str]) -> dict[str, str]:
    """The labels that templates have for their system."""
    return {key: annotations.get(f"vm.kubevirt.io/{key}", NONE) for key in _DESCRIBED}


def unix_seconds(text: str | None) -> int | None:
    """The moment that a document names; None when it names none."""
    if not text:
        return None
    try:
        return int(parse_rfc3339(text).timestamp())
    except (ValueError, OverflowError):
        return None
