"""Which copies of the object store are known by their names, and which are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.store.copy_plan import (
    ALWAYS_KEPT,
    KEPT_DAYS,
    KEPT_NEWEST,
    copies_of,
    copy_name,
    crowding,
    is_due,
    superfluous,
)

_START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_name_tells_when_what_and_by_whom() -> None:
    name = copy_name(_START, 1234, "0.1.0+dev")
    assert name == "kvedge-20260102T030405Z-r1234-0.1.0+dev.db"
    (copy,) = copies_of([name])
    assert (copy.moment, copy.day, copy.revision, copy.version) == ("20260102T030405Z", "20260102", 1234, "0.1.0+dev")


def test_other_files_are_not_ours() -> None:
    names = [
        "kvedge.db",
        "notes.txt",
        "kvedge-20260102T030405Z-r1-0.1.0.db.unfinished",
        "kvedge-20260102T030405Z-rX-0.1.0.db",
        "kvedge-20260102T030405Z-r1-../x.db",
        "xkvedge-20260102T030405Z-r1-0.1.0.db",
    ]
    assert copies_of(names) == []


def test_the_revision_says_what_is_newer_whatever_the_clock_said() -> None:
    names = [
        copy_name(_START, 10, "1"),
        copy_name(_START - timedelta(days=9000), 30, "1"),
        copy_name(_START + timedelta(days=9000), 20, "1"),
    ]
    assert [copy.revision for copy in copies_of(names)] == [30, 20, 10]


def test_a_month_of_copies_is_thinned_to_a_day_of_steps_and_a_week_of_days() -> None:
    names = [copy_name(_START + timedelta(hours=4 * step), step + 1, "1") for step in range(180)]
    copies = copies_of(names)
    gone = set(superfluous(copies, "1"))
    kept = [copy for copy in copies if copy not in gone]
    assert kept[:KEPT_NEWEST] == copies[:KEPT_NEWEST]
    assert len({copy.day for copy in kept[:-1]}) == KEPT_DAYS
    # And the first one, which shows what this version found.
    assert kept[-1].revision == 1
    assert len(kept) <= KEPT_NEWEST + KEPT_DAYS + 1


def test_what_an_older_version_left_is_thinned_like_the_rest() -> None:
    old = [copy_name(_START + timedelta(hours=step), step + 1, "1") for step in range(100)]
    new = [copy_name(_START + timedelta(hours=200 + step), 200 + step, "2") for step in range(100)]
    copies = copies_of([*old, *new])
    kept = [copy for copy in copies if copy not in set(superfluous(copies, "2"))]
    assert min(copy.revision for copy in kept if copy.version == "2") == 200
    assert len([copy for copy in kept if copy.version == "1"]) <= KEPT_DAYS


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 1000), st.sampled_from(["1", "2"])), max_size=40))
def test_the_newest_is_always_kept_and_thinning_again_removes_nothing(items: list[tuple[int, int, str]]) -> None:
    copies = copies_of({copy_name(_START + timedelta(hours=hours), number, by) for hours, number, by in items})
    gone = superfluous(copies, "1")
    kept = [copy for copy in copies if copy not in gone]
    assert kept[:1] == copies[:1]
    assert superfluous(kept, "1") == []
    assert len(kept) <= KEPT_NEWEST + KEPT_DAYS + 1


def test_a_copy_is_due_when_something_was_written() -> None:
    assert is_due([], 1)
    copies = copies_of([copy_name(_START, 5, "1")])
    assert not is_due(copies, 5)
    assert is_due(copies, 6)
    # A store that was put back to an older state by hand is another one.
    assert is_due(copies, 4)


def test_copies_never_take_more_than_what_the_disk_has_left_but_for_the_newest() -> None:
    copies = copies_of(copy_name(_START, revision, "1") for revision in range(1, 11))
    sizes = [(copy, 100) for copy in copies]
    assert crowding(sizes, 1000) == []
    # Each that goes makes room as well: 7 of 100 in 400 and 300.
    assert [copy.revision for copy in crowding(sizes, 400)] == [1, 2, 3]
    assert [copy.revision for copy in crowding(sizes, 0)] == [1, 2, 3, 4, 5]
    assert len(crowding(sizes[: ALWAYS_KEPT + 1], 0)) == 1
    assert crowding(sizes[:ALWAYS_KEPT], 0) == []
    assert crowding([], 0) == []
