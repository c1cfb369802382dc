"""Which launchers are of another release, and which guests change their disks."""

from __future__ import annotations

import pytest

from kvedge.resources.moves.workload_updates import changes_volumes, is_outdated
from tests.support.builders import vmi_with


@pytest.mark.parametrize(
    ("known", "phase", "expected"),
    [
        ({"kvedge.io/launcher-version": "1.0.0"}, "Running", True),
        ({"kvedge.io/launcher-version": "1.2.0"}, "Running", True),
        ({"kvedge.io/launcher-version": "1.1.0"}, "Running", False),
        ({"kvedge.io/launcher-version": ""}, "Running", False),
        ({}, "Running", False),
        ({"kvedge.io/launcher-version": "1.0.0"}, "Failed", False),
    ],
)
def test_a_launcher_of_an_older_or_newer_release_is_outdated_while_it_runs(
    known: dict[str, str], phase: str, expected: bool
) -> None:
    vmi = vmi_with({}, {"phase": phase})
    vmi.metadata.annotations |= known
    assert is_outdated(vmi, "1.1.0") == expected


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), (None, False)])
def test_disks_change_while_the_condition_says_so(status: str | None, expected: bool) -> None:
    conditions = [] if status is None else [{"type": "VolumesChange", "status": status}]
    assert changes_volumes(vmi_with({}, {"conditions": conditions})) == expected
