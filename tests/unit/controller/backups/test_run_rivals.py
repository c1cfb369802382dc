# Tests: kvedge/controller/backups/run_plan.py
"""Of several backups of one VM: which goes first, and which holds up nobody."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.backups.run_plan import RivalRun, find_rival
from kvedge.resources.codec import decode
from kvedge.resources.types.protection.backups import BackupRun


def a_run(name: str, second: int, phase: str = "", **metadata: Any) -> BackupRun:
    made = {"name": name, "namespace": "n", "uid": name, "creationTimestamp": f"2026-01-02T03:04:0{second}Z"}
    return decode(BackupRun, {"metadata": {**made, **metadata}, "status": {"phase": phase}})


OLD, NEW = a_run("old", 1), a_run("new", 2)


def test_the_older_of_two_goes_first() -> None:
    both = [RivalRun(OLD, has_place=True), RivalRun(NEW, has_place=True)]
    assert (find_rival(NEW, both), find_rival(OLD, both)) == ("old", "")


def test_of_one_second_exactly_one_goes_first() -> None:
    a, b = a_run("a", 1), a_run("b", 1)
    both = [RivalRun(a, has_place=True), RivalRun(b, has_place=True)]
    assert (find_rival(a, both), find_rival(b, both)) == ("", "a")


def test_one_without_a_repository_holds_up_nobody() -> None:
    waiting = a_run("old", 1, "Pending")
    assert find_rival(NEW, [RivalRun(waiting, has_place=False)]) == ""


@pytest.mark.parametrize("phase", ["Snapshotting", "Copying"])
def test_a_newer_one_that_has_begun_is_not_overtaken(phase: str) -> None:
    begun = a_run("new", 2, phase)
    both = [RivalRun(OLD, has_place=True), RivalRun(begun, has_place=False)]
    assert (find_rival(OLD, both), find_rival(begun, both)) == ("new", "")


def test_one_that_is_over_or_goes_is_no_rival() -> None:
    others = [
        a_run("a", 1, "Succeeded"),
        a_run("b", 1, "Failed"),
        a_run("c", 1, deletionTimestamp="2026-01-02T03:04:05Z"),
    ]
    assert find_rival(NEW, [RivalRun(each, has_place=True) for each in others]) == ""
