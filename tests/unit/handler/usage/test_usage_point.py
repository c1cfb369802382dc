# Tests: kvedge/handler/usage/usage_point.py
"""What a guest used between two looks: rates of counters, and None where nobody can know."""

from __future__ import annotations

import pytest

from kvedge.handler.usage.usage_point import usage_point
from kvedge.resources.usage.guest_history import CPUS, MEMORY, READ, RECEIVED, SENT, SERIES, WAIT, WRITTEN
from kvedge.resources.usage.guest_stats import GuestStats, StatsPart

SECOND = 1_000_000_000


def stats(cpu: int, *, read: int = 0, received: int = 0, delay: int | None = None, **figures: int) -> GuestStats:
    """A guest with one vCPU, one disk and one NIC."""
    return GuestStats(
        answered=True,
        complete=True,
        figures={"cpu.time": cpu, **figures},
        vcpus=[StatsPart(name="0", figures={} if delay is None else {"wait": 0, "delay": delay})],
        disks=[StatsPart(name="root", figures={"rd.bytes": read, "wr.bytes": 5 * read})],
        nics=[StatsPart(name="default", figures={"rx.bytes": received, "tx.bytes": 0})],
    )


def point(before: GuestStats | None, now: GuestStats, seconds: float = 10.0) -> dict[str, float | None]:
    return dict(zip(SERIES, usage_point(before, now, seconds), strict=True))


def test_counters_are_rates_between_two_looks() -> None:
    found = point(stats(0, delay=0), stats(5 * SECOND, read=1000, received=500, delay=SECOND))
    assert found == {
        CPUS: pytest.approx(0.5),
        WAIT: pytest.approx(0.1),
        MEMORY: None,
        READ: 100.0,
        WRITTEN: 500.0,
        RECEIVED: 50.0,
        SENT: 0.0,
    }


def test_the_first_look_knows_the_memory_alone() -> None:
    found = point(None, stats(5 * SECOND, **{"balloon.current": 1024}))
    assert found.pop(MEMORY) == 1024 * 1024
    assert set(found.values()) == {None}


def test_a_guests_own_word_of_its_memory_comes_before_the_balloons_size() -> None:
    figures = {"balloon.current": 1024, "balloon.available": 1000, "balloon.usable": 900}
    assert point(None, stats(0, **figures))[MEMORY] == 100 * 1024


def test_a_guest_that_says_more_is_usable_than_it_has_uses_nothing() -> None:
    assert point(None, stats(0, **{"balloon.available": 10, "balloon.usable": 90}))[MEMORY] == 0


def test_a_guest_that_was_started_anew_has_a_gap() -> None:
    found = point(stats(9 * SECOND, read=900, received=900), stats(SECOND, read=10, received=1000))
    assert (found[CPUS], found[READ], found[RECEIVED]) == (None, None, 10.0)


@pytest.mark.parametrize("seconds", [0.0, -3.0, 61.0])
def test_looks_too_far_apart_are_no_rate(seconds: float) -> None:
    assert point(stats(0), stats(SECOND), seconds)[CPUS] is None


def test_a_disk_that_has_just_come_counts_from_the_next_look() -> None:
    before, now = stats(0, read=0), stats(0, read=100)
    now.disks.append(StatsPart(name="new", figures={"rd.bytes": 1 << 40, "wr.bytes": 0}))
    assert point(before, now)[READ] == 10.0


def test_a_guest_without_disks_reads_nothing_that_is_known() -> None:
    bare = GuestStats(answered=True, figures={"cpu.time": 0})
    assert point(bare, bare) == {**dict.fromkeys(SERIES), CPUS: 0.0}
