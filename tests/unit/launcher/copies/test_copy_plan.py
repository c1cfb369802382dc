"""Which disks a copy takes, and when it gives way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.copies.copy_plan import (
    WantedCopy,
    choose_disks,
    choose_quiesce,
    count_reserve,
    is_short,
    read_percent,
)
from kvedge.launcher.launcher_errors import BadRequest, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts, Life, Why

ROOT = WantedCopy("root", "root-copy", block=False)


def facts(
    *disks: DomainDisk, life: Life = Life.RUNNING, why: Why = Why.BOOTED, agent_connected: bool = False
) -> DomainFacts:
    return DomainFacts(uuid="u", life=life, why=why, disks=disks, agent_connected=agent_connected)


def test_a_disk_of_the_guest_is_served_as_it_was() -> None:
    disk = DomainDisk("root", "vda", source="/disk.img")
    (chosen,) = choose_disks(facts(disk), [ROOT])
    assert (chosen.disk, chosen.wanted, chosen.served) == (disk, ROOT, True)


@pytest.mark.parametrize(
    "disk",
    [
        pytest.param(DomainDisk("root", "sda", "cdrom", "/a.iso", read_only=True), id="a CD"),
        pytest.param(DomainDisk("root", "vda", source="/a.img", read_only=True), id="a disk that is only read"),
    ],
)
def test_what_the_guest_cannot_write_is_read_where_it_is(disk: DomainDisk) -> None:
    (chosen,) = choose_disks(facts(disk), [ROOT])
    assert not chosen.served


@pytest.mark.parametrize(
    "disks",
    [
        pytest.param((), id="it has no such disk"),
        pytest.param((DomainDisk("root", "sda", "cdrom"),), id="its drive is empty"),
        pytest.param((DomainDisk("root", "sda", "lun", "/dev/sdx"),), id="a LUN that is passed through"),
    ],
)
def test_what_cannot_be_copied_is_refused_for_good(disks: tuple[DomainDisk, ...]) -> None:
    with pytest.raises(BadRequest, match="volume root"):
        choose_disks(facts(*disks), [ROOT])


@pytest.mark.parametrize("found", [None, facts(life=Life.SHUTOFF)])
def test_without_a_guest_there_is_nothing_to_copy(found: DomainFacts | None) -> None:
    with pytest.raises(WrongState):
        choose_disks(found, [ROOT])


@pytest.mark.parametrize(
    ("life", "why", "agent", "quiesce"),
    [
        (Life.RUNNING, Why.BOOTED, True, "GuestAgent"),
        (Life.RUNNING, Why.BOOTED, False, "NoGuestAgent"),
        (Life.PAUSED, Why.USER, True, "Paused"),
        # It is about to go on, and no agent of it answers now.
        (Life.PAUSED, Why.IO_ERROR, True, "NoGuestAgent"),
    ],
)
def test_how_a_guest_is_held_still(life: Life, why: Why, agent: bool, quiesce: str) -> None:
    assert choose_quiesce(facts(life=life, why=why, agent_connected=agent)) == quiesce


@given(st.integers(0, 1 << 50))
def test_the_reserve_is_never_all_of_a_place(total: int) -> None:
    assert count_reserve(total) * 10 <= total
    assert not is_short(total, total)
    assert is_short(0, max(total, 100))


@pytest.mark.parametrize(
    ("said", "percent"),
    [
        (["    (0.00/100%)", "    (12.90/100%)"], 12),
        (["    (100.00/100%)", ""], 100),
        ([], None),
        (["(nan/100%)", "(-1/100%)", "(1e9/100%)", "rubbish"], None),
        (["    (3.00/100%)", "    (4."], 3),
    ],
)
def test_the_last_progress_counts(said: list[str], percent: int | None) -> None:
    assert read_percent(said) == percent


@given(st.lists(st.text()))
def test_no_text_is_more_than_a_whole(said: list[str]) -> None:
    found = read_percent(said)
    assert found is None or 0 <= found <= 100
