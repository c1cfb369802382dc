"""The times of CDI's conditions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.controller.datavolumes.cdi_conditions import with_condition
from kvedge.resources.types.data_volumes import CdiCondition

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(status: str, reason: str, type_: str = "Ready") -> CdiCondition:
    return CdiCondition(type=type_, status=status, reason=reason, last_transition_time=OLD, last_heartbeat_time=OLD)


@pytest.mark.parametrize(
    ("made", "changed", "told"),
    [
        pytest.param(condition("False", "Waits"), OLD, OLD, id="the same"),
        pytest.param(condition("False", "Other"), OLD, NEW, id="another reason"),
        pytest.param(condition("True", "Waits"), NEW, NEW, id="another status"),
    ],
)
def test_a_condition_keeps_the_times_of_what_it_says_still(made: CdiCondition, changed: str, told: str) -> None:
    other = condition("True", "Bound", "Bound")
    first, second = with_condition([condition("False", "Waits"), other], made, NOW)
    assert (first.last_transition_time, first.last_heartbeat_time) == (changed, told)
    assert second is other


def test_a_new_condition_comes_last() -> None:
    other = condition("True", "Bound", "Bound")
    first, second = with_condition([other], condition("True", ""), NOW)
    assert first is other
    assert (second.type, second.last_transition_time, second.last_heartbeat_time) == ("Ready", NEW, NEW)
