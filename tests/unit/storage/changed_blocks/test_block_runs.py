"""Which clusters a backup takes."""

from __future__ import annotations

import itertools

import pytest

from kvedge.storage.changed_blocks.block_runs import CLUSTER, MOST_RUNS, BlockRuns, Run, choose_runs, join_extents


@pytest.mark.parametrize(
    ("extents", "runs"),
    [
        pytest.param([], (), id="nothing"),
        pytest.param([(0, 1)], (Run(0, 1),), id="one byte is a cluster"),
        pytest.param([(CLUSTER - 1, 2)], (Run(0, 2),), id="two bytes across a boundary are two"),
        pytest.param([(0, CLUSTER), (CLUSTER, CLUSTER)], (Run(0, 2),), id="neighbours are joined"),
        pytest.param([(0, 10), (100, 10)], (Run(0, 1),), id="two in one cluster are one"),
        pytest.param([(0, CLUSTER), (5 * CLUSTER, 1)], (Run(0, 1), Run(5, 6)), id="others are not"),
    ],
)
def test_extents_become_runs(extents: list[tuple[int, int]], runs: tuple[Run, ...]) -> None:
    assert join_extents(extents) == runs


def test_a_disk_in_too_many_pieces_is_taken_in_larger_ones_and_nothing_is_left_out() -> None:
    touched = range(0, 40_000, 2)
    runs = join_extents(((number * CLUSTER, CLUSTER) for number in touched), most=100)
    assert len(runs) <= 100
    assert all(before.end < after.start for before, after in itertools.pairwise(runs))
    assert all(any(run.start <= number < run.end for run in runs) for number in (0, 2, 19_998, 39_998))
    assert sum(run.end - run.start for run in runs) >= len(touched)
    assert MOST_RUNS <= 1 << 20


def test_a_full_backup_takes_the_data() -> None:
    assert choose_runs((Run(1, 3),), None) == BlockRuns((Run(1, 3),))


def test_an_incremental_one_takes_changes_and_tells_zeros_from_what_has_not_changed() -> None:
    data = (Run(0, 4), Run(6, 8), Run(20, 30))
    changed = (Run(2, 7), Run(9, 10), Run(22, 23), Run(28, 35))
    found = choose_runs(data, changed)
    assert found.data == (Run(2, 4), Run(6, 7), Run(22, 23), Run(28, 30))
    assert found.zeros == (Run(4, 6), Run(9, 10), Run(30, 35))
    assert found.data_clusters == 6
