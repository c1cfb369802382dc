"""Lists of CPUs as Linux writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.runtime.linux.cpu_lists import CpuListError, cpu_list_text, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", set()), ("0", {0}), ("0-2,7", {0, 1, 2, 7}), (" 1 , 3-3 ", {1, 3}), ("4,2-4", {2, 3, 4})],
)
def test_a_list_is_read(text: str, numbers: set[int]) -> None:
    assert parse_cpu_list(text) == numbers


@pytest.mark.parametrize(("text", "numbers"), [("0-3,^1", {0, 2, 3}), ("0-3,^1-2,2", {0, 2, 3}), ("^1", set())])
def test_a_mask_takes_cpus_out_of_those_before(text: str, numbers: set[int]) -> None:
    assert parse_cpu_list(text, may_exclude=True) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "^1", "1,,2", "-1", "0-9999", "٣", "1" * 5000])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(CpuListError):
        parse_cpu_list(text)


@given(st.sets(st.integers(0, 300)))
def test_the_shortest_list_says_the_same(numbers: set[int]) -> None:
    assert parse_cpu_list(cpu_list_text(numbers)) == numbers


def test_ranges_are_written_as_such() -> None:
    assert cpu_list_text([7, 0, 1, 2, 2, 9]) == "0-2,7,9"
