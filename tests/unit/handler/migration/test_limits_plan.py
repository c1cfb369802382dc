"""When a migration has taken too long: in all, and without getting anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kvedge.handler.migration.limits_plan import Progress, find_overrun, follow_progress, is_too_slow
from kvedge.resources.types.kubevirt_configuration import MigrationConfiguration
from kvedge.rpc.launcher_pb2 import OutgoingMigration

GIB = 10**9
LIMITS = MigrationConfiguration(progress_timeout=150, completion_timeout_per_gib=100)


def follow(*looks: tuple[float, int], total: int = GIB) -> Progress:
    """Looks at a time, with so much left each."""
    found: Progress | None = None
    for at, left in looks:
        found = follow_progress(found, OutgoingMigration(total_bytes=total, left_bytes=left), at)
    assert found is not None
    return found


def test_a_guest_that_gets_on_may_go_on() -> None:
    looks = [(float(number * 10), GIB - number) for number in range(9)]
    assert [
        find_overrun(follow(*looks[: number + 1]), (GIB, 0), LIMITS, at) for number, (at, _) in enumerate(looks)
    ] == [""] * len(looks)
    assert all(before < after for (before, _), (after, _) in pairwise(looks))


def test_a_guest_that_writes_in_bursts_does_not_pass_for_one_that_gets_on() -> None:
    zigzag = follow((0, 500), (50, 900), (100, 600), (151, 501))
    limits = MigrationConfiguration(progress_timeout=150, completion_timeout_per_gib=0)
    assert "progressTimeout is 150 s" in find_overrun(zigzag, (GIB, 0), limits, 151)
    assert find_overrun(follow((0, 500), (50, 900), (100, 499)), (GIB, 0), limits, 151) == ""


def test_what_takes_longer_than_its_size_allows_ends() -> None:
    seen = follow((0, 500), (150, 400), (190, 300))
    assert find_overrun(seen, (GIB, 0), LIMITS, 100) == ""
    assert "completionTimeoutPerGiB allows 100 s" in find_overrun(seen, (GIB, 0), LIMITS, 101)
    # Two for the memory, begun GB and all.
    assert find_overrun(seen, (GIB + 1, 0), LIMITS, 200) == ""


def test_a_guest_that_may_stand_still_gets_its_time_twice_and_is_too_slow_after_the_first() -> None:
    seen = follow((0, 500), (150, 400), (190, 300))
    limits = MigrationConfiguration(
        progress_timeout=150, completion_timeout_per_gib=100, allow_workload_disruption=True
    )
    assert [is_too_slow(seen, (GIB, 0), limits, at) for at in (100, 101)] == [False, True]
    assert not is_too_slow(seen, (GIB, 0), LIMITS, 101)
    assert [bool(find_overrun(seen, (GIB, 0), limits, at)) for at in (200, 201)] == [False, True]
    unlimited = MigrationConfiguration(completion_timeout_per_gib=0, allow_workload_disruption=True)
    assert not is_too_slow(seen, (GIB, 0), unlimited, 1000)


@pytest.mark.parametrize(
    ("total", "allowed"),
    [
        pytest.param(GIB, 100, id="memory alone"),
        pytest.param(3 * GIB, 300, id="memory with two GB of disks"),
        pytest.param(GIB // 2, 200, id="the disks before memory is told of"),
    ],
)
def test_disks_that_are_copied_count(total: int, allowed: int) -> None:
    seen = follow((0, 5), (allowed, 4), total=total)
    assert find_overrun(seen, (GIB, 0), LIMITS, allowed) == ""
    assert find_overrun(seen, (GIB, 0), LIMITS, allowed + 1) != ""


def test_without_a_word_of_the_user_the_defaults_count_and_zero_is_no_limit() -> None:
    seen = follow((0, 5))
    assert "150 s" in find_overrun(seen, (GIB, 0), None, 151)
    none = MigrationConfiguration(progress_timeout=0, completion_timeout_per_gib=0)
    assert find_overrun(seen, (GIB, 0), none, 10**6) == ""


def test_before_anything_is_known_only_the_whole_is_limited() -> None:
    unknown = follow_progress(None, OutgoingMigration(), 0)
    assert follow_progress(unknown, OutgoingMigration(), 10) == unknown
    assert "completionTimeoutPerGiB" in find_overrun(unknown, (GIB, 0), LIMITS, 200)
    known = follow_progress(unknown, OutgoingMigration(total_bytes=GIB, left_bytes=7), 20)
    assert known == Progress(0, 7, 20, GIB)


def test_disks_that_go_to_other_claims_count_before_libvirt_tells_of_them() -> None:
    unknown = Progress(began=0, lowest=0, lowest_at=0)
    assert find_overrun(unknown, (GIB, 2 * GIB), LIMITS, 300) == ""
    assert "allows 300 s" in find_overrun(unknown, (GIB, 2 * GIB), LIMITS, 301)
