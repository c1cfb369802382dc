# Tests: tests/bench/report.py, tests/bench/api_writes.py
"""The verdicts of the bench: what a goal means, and what a percentile is."""

from __future__ import annotations

import pytest

from tests.bench.api_writes import _change, _writer
from tests.bench.report import Goal, Row, figure, missed, percentile


@pytest.mark.parametrize(
    ("measured", "reference", "goal", "met"),
    [
        (0.5, 0.3, Goal(ratio=2), True),
        (0.7, 0.3, Goal(ratio=2), False),
        (0.7, None, Goal(ratio=2), None),
        (100.0, None, Goal(110), True),
        (110.1, None, Goal(110), False),
        (5.0, 4.0, Goal(3.0, ratio=2), False),
        (2.0, 0.5, Goal(3.0, ratio=2), False),
        (2.0, 1.5, Goal(3.0, ratio=2), True),
        (1.0, 1.0, Goal(), None),
    ],
)
def test_a_goal_is_met_when_every_limit_that_can_be_judged_holds(
    measured: float, reference: float | None, goal: Goal, met: bool | None
) -> None:
    assert Row("x", "s", measured, reference, goal).met is met


@pytest.mark.parametrize(
    ("measured", "reference", "goal", "fails", "fails_by_ratio"),
    [
        (0.7, 0.3, Goal(ratio=2), True, True),
        (5.0, 4.0, Goal(3.0, ratio=2), True, False),
        (5.0, 4.0, Goal(3.0), True, False),
        (110.1, None, Goal(110), True, False),
        (2.0, 1.5, Goal(3.0, ratio=2), False, False),
        (9.0, 1.0, Goal(), False, False),
        # Nothing to compare with: a check must not pass by what was not measured.
        (2.0, None, Goal(ratio=2), False, True),
        (2.0, 0.0, Goal(3.0, ratio=2), False, True),
    ],
    ids=[
        "a ratio that is too large",
        "a ratio that is met, in too long a time",
        "a time alone",
        "a size alone",
        "all is met",
        "no goal",
        "a reference that is not there",
        "a reference of nothing",
    ],
)
def test_a_check_fails_by_ratio_and_never_by_time(
    measured: float, reference: float | None, goal: Goal, fails: bool, fails_by_ratio: bool
) -> None:
    row = Row("x", "s", measured, reference, goal)
    assert missed([row], by_ratio=False) == ([row] if fails else [])
    assert missed([row], by_ratio=True) == ([row] if fails_by_ratio else [])


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 21)]
    assert [percentile(values, percent) for percent in (50, 95, 100)] == [10.0, 19.0, 20.0]
    assert percentile([7.0], 95) == 7.0


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.0345, "s", "34 ms"), (1.234, "s", "1.23 s"), (92.84, "MB", "92.8 MB"), (5.0, "", "5"), (116.4, "MB", "116 MB")],
)
def test_figures_have_three_digits_that_count(value: float, unit: str, text: str) -> None:
    assert figure(value, unit) == text


def version(*entries: tuple[str, str], **more: object) -> dict[str, object]:
    fields = [{"manager": name, "operation": "Update", "time": time, "fieldsV1": {}} for name, time in entries]
    return {"metadata": {"name": "a", "managedFields": fields}, **more}


def test_the_writer_is_whose_entry_changed() -> None:
    before = version(("kvedge-controller", "10:00"))
    assert _writer({}, before) == "kvedge-controller"
    assert _writer(before, version(("kvedge-controller", "10:00"), ("kvedge-handler", "10:00"))) == "kvedge-handler"
    same = version(("kvedge", "10:00"), ("kvedge-controller", "10:00"), ("kvedge-handler", "10:00"))
    assert _writer(same, same) == "kvedge-controller or kvedge-handler"


def test_a_change_is_called_by_what_it_changed() -> None:
    old = version(spec={}, status={"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]})
    ready = [{"type": "Ready", "status": "True"}]
    assert _change("MODIFIED", old, {**old, "spec": {"nodeName": "n"}}) == "bind"
    assert _change("MODIFIED", old, {**old, "status": {"phase": "Running"}}) == "to Running"
    assert _change("MODIFIED", old, {**old, "status": {"phase": "Pending", "conditions": ready}}) == "status (Ready)"
    assert _change("MODIFIED", old, {**old, "metadata": {}}) == "metadata"
