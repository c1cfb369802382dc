"""Ranges of addresses: joined, and with holes, as if each address were looked at."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.network.policies.address_ranges import (
    EVERYWHERE,
    contains,
    join_ranges,
    number_of,
    of_version,
    range_of,
    without,
)

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda each: (each[0], each[0] + each[1]))


def members(ranges: tuple[tuple[int, int], ...]) -> set[int]:
    return {each for first, last in ranges for each in range(first, last + 1)}


@given(st.lists(RANGES, max_size=8))
def test_joined_ranges_have_the_same_addresses_and_are_apart(ranges: list[tuple[int, int]]) -> None:
    found = join_ranges(ranges)
    assert members(found) == members(tuple(ranges))
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(found))


@given(RANGES, st.lists(RANGES, max_size=8))
def test_holes_are_left_out(whole: tuple[int, int], holes: list[tuple[int, int]]) -> None:
    assert members(without(whole, holes)) == members((whole,)) - members(tuple(holes))


@given(st.lists(RANGES, max_size=8), st.integers(0, 50))
def test_an_address_is_found_in_the_ranges_that_have_it(ranges: list[tuple[int, int]], address: int) -> None:
    assert contains(join_ranges(ranges), address) == (address in members(tuple(ranges)))


def test_a_networks_range_is_all_of_it() -> None:
    assert range_of("10.0.0.0/30") == (0x0A000000, 0x0A000003)
    assert (range_of("0.0.0.0/0"), range_of("::/0")) == EVERYWHERE
    with pytest.raises(ValueError, match="web"):
        range_of("web")


def test_addresses_of_both_versions_are_told_apart() -> None:
    both = join_ranges([range_of("0.0.0.0/30"), range_of("::/126"), range_of("ffff::/16")])
    assert tuple(of_version(both, 4)) == ((0, 3),)
    assert tuple(of_version(both, 6)) == ((0, 3), (0xFFFF << 112, (1 << 128) - 1))
    assert contains(both, number_of("::1"))
    assert not contains(join_ranges([range_of("0.0.0.0/0")]), number_of("::1"))
