# Tests: tests/support/cluster/slots.py
"""Room for clusters side by side, and the switch that the last one takes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import slots


@pytest.fixture(autouse=True)
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the switch."""
    done: list[str] = []
    watchers = tmp_path / "max_user_instances"
    watchers.write_text("128\n")
    monkeypatch.setattr(slots, "_WATCHERS", watchers)
    monkeypatch.setattr(slots, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(slots, "make_bridge", lambda: done.append("made"))
    monkeypatch.setattr(slots, "remove_bridge", lambda: done.append("removed"))
    monkeypatch.setattr(slots, "_has_switch", lambda: done[-1:] == ["made"])
    return done


def test_clusters_have_numbers_of_their_own_and_one_switch_until_the_last_has_gone(switch: list[str]) -> None:
    first, second, third = (slots.claim_slot() for _ in range(3))
    assert [first.offset, second.offset, third.offset] == [0, 10, 20]
    second.release()
    again = slots.claim_slot()
    assert again.offset == 10
    for slot in (first, again):
        slot.release()
    assert switch == ["made"]
    third.release()
    assert switch == ["made", "removed"]


def test_a_switch_that_a_killed_run_has_left_is_made_anew(switch: list[str]) -> None:
    switch.append("made")
    slots.claim_slot().release()
    assert switch == ["made", "made", "removed"]


def test_one_that_somebody_has_taken_away_is_made_again(switch: list[str]) -> None:
    first = slots.claim_slot()
    switch.append("removed")
    second = slots.claim_slot()
    assert switch == ["made", "removed", "made"]
    for slot in (first, second):
        slot.release()
