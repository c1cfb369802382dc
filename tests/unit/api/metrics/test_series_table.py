"""One object that cannot be told of takes nothing away from others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.series_table import Told, build, counter, describe, gauge, unix_seconds
from tests.unit.api.metrics.test_exposition import read_back

TABLE = {"a": gauge("A."), "b_total": counter("B.")}


def tell(number: int) -> Iterator[Told]:
    yield Told("a", {"n": str(number)}, number)
    yield Told("b_total", {"n": str(number)}, 10 // number)


def test_an_object_that_cannot_be_told_of_is_left_out_with_all_its_series() -> None:
    left_out: list[str] = []
    found = read_back(render(build(TABLE, [1, 0, 2], tell, left_out.append)))
    assert found == {
        "a": [({"n": "1"}, 1.0), ({"n": "2"}, 2.0)],
        "b_total": [({"n": "1"}, 10.0), ({"n": "2"}, 5.0)],
    }
    assert left_out == ["ZeroDivisionError"]


def test_templates_describe_themselves_by_annotations() -> None:
    assert describe({"vm.kubevirt.io/os": "debian"}) == {"os": "debian", "workload": "<none>", "flavor": "<none>"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2026-01-02T03:04:05Z", 1767323045), ("2026-01-02T04:04:05+01:00", 1767323045), ("soon", None), (None, None)],
)
def test_moments_are_seconds(text: str | None, seconds: int | None) -> None:
    assert unix_seconds(text) == seconds
