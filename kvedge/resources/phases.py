"""The phases of a VMI, and which may follow which (KubeVirt's table); and those of a Pod that is over.

Controller and handler set phases through :func:`check_transition` only. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Phase = Literal["", "WaitingForSync", "Pending", "Scheduling", "Scheduled", "Running", "Succeeded", "Failed", "Unknown"]

FINAL_PHASES: Final[frozenset[Phase]] = frozenset({"Succeeded", "Failed"})
# Kubernetes has it that no container of such a Pod runs, and that none will.
FINAL_POD_PHASES: Final = frozenset({"Succeeded", "Failed"})

NEXT_PHASES: Final[Mapping[Phase, frozenset[Phase]]] = {
    "": frozenset({"WaitingForSync", "Pending", "Scheduling", "Failed"}),
    # Its guest comes from another box.
    "WaitingForSync": frozenset({"Running", "Succeeded", "Failed"}),
    "Pending": frozenset({"WaitingForSync", "Scheduling", "Failed"}),
    "Scheduling": frozenset({"Scheduled", "Failed"}),
    # A domain may end before anybody saw it run.
    "Scheduled": frozenset({"Running", "Succeeded", "Failed", "Unknown"}),
    "Running": frozenset({"Succeeded", "Failed", "Unknown"}),
    "Unknown": frozenset({"Running", "Succeeded", "Failed"}),
    "Succeeded": frozenset(),
    "Failed": frozenset(),
}


class PhaseError(Exception):
    """A role tried to move a VMI along a way that does not exist; a defect of the role, not of the user."""

    def __init__(self, old: Phase, new: Phase) -> None:
        super().__init__(f"a VMI does not go from phase {old or 'unset'} to {new or 'unset'}")
        self.old = old
        self.new = new


def check_transition(old: Phase, new: Phase) -> Phase:
    """`new`, when it may follow `old` or is the same.

    Raises:
        PhaseError: when the table has no such way.
    """
    if new != old and new not in NEXT_PHASES[old]:
        raise PhaseError(old, new)
    return new
