"""The ways a VMI's phase may go."""

from __future__ import annotations

import pytest

from kvedge.resources.phases import FINAL_PHASES, NEXT_PHASES, PhaseError, check_transition


def test_every_phase_that_can_be_reached_has_a_row() -> None:
    reachable = {after for following in NEXT_PHASES.values() for after in following}
    assert reachable <= set(NEXT_PHASES)


def test_nothing_follows_a_final_phase() -> None:
    assert all(NEXT_PHASES[phase] == frozenset() for phase in FINAL_PHASES)


def test_every_other_phase_can_fail() -> None:
    assert all("Failed" in following for phase, following in NEXT_PHASES.items() if phase not in FINAL_PHASES)


def test_staying_is_always_allowed() -> None:
    assert all(check_transition(phase, phase) == phase for phase in NEXT_PHASES)


def test_a_run_cannot_skip_its_scheduling_and_a_dead_one_cannot_come_back() -> None:
    for old, new in (("Pending", "Running"), ("Succeeded", "Running"), ("Failed", "Pending")):
        with pytest.raises(PhaseError, match=f"{old} to {new}"):
            check_transition(old, new)  # type: ignore[arg-type]
