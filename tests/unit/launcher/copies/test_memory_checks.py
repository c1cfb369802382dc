"""Memory is saved of a guest that could go on from it, where it fits, and at one moment with the disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.copies.memory_checks import check_guest, check_room, check_stands
from kvedge.launcher.launcher_errors import DiskFull, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, MemoryFacts, Why


def facts(life: Life, why: Why = Why.USER, memory: int = 1) -> DomainFacts:
    return DomainFacts(uuid="u", life=life, why=why, pid=7, memory=MemoryFacts(boot=memory))


@pytest.mark.parametrize("life", [Life.RUNNING, Life.PAUSED])
def test_a_guest_that_runs_or_is_paused_can_be_saved(life: Life) -> None:
    assert check_guest(facts(life), is_frozen=False).life is life


def test_a_guest_that_would_stand_when_it_is_resumed_is_not_saved() -> None:
    with pytest.raises(WrongState, match="thaw them first"):
        check_guest(facts(Life.RUNNING), is_frozen=True)
    with pytest.raises(WrongState, match="I/O error"):
        check_guest(facts(Life.PAUSED, Why.IO_ERROR), is_frozen=False)
    with pytest.raises(WrongState):
        check_guest(None, is_frozen=False)


def test_memory_that_does_not_fit_is_found_out_before_the_guest_stands(tmp_path: Path) -> None:
    check_room(str(tmp_path), facts(Life.RUNNING))
    with pytest.raises(DiskFull, match="are free on its claim"):
        check_room(str(tmp_path), facts(Life.RUNNING, memory=1 << 60))


def test_a_guest_that_went_on_meanwhile_makes_no_snapshot() -> None:
    check_stands(facts(Life.PAUSED))
    for found in (None, facts(Life.RUNNING), facts(Life.PAUSED, Why.IO_ERROR)):
        with pytest.raises(WrongState):
            check_stands(found)
