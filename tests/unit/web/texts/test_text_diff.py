"""What differs between two manifests."""

from __future__ import annotations

import pytest

from kvedge.web.texts.text_diff import differing_lines


def numbered(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def test_no_change_is_no_line() -> None:
    assert differing_lines("a\n", "a\n") == []


def test_a_change_is_shown_with_the_lines_around_it() -> None:
    before = numbered(*range(20))
    after = before.replace("line 10\n", "other\n")
    assert differing_lines(before, after) == [
        (" ", "line 7"),
        (" ", "line 8"),
        (" ", "line 9"),
        ("-", "line 10"),
        ("+", "other"),
        (" ", "line 11"),
        (" ", "line 12"),
        (" ", "line 13"),
    ]


def test_what_lies_between_two_changes_is_left_out() -> None:
    before = numbered(*range(40))
    after = before.replace("line 5\n", "").replace("line 30\n", "")
    signs = [sign for sign, _ in differing_lines(before, after)]
    assert signs == [*"   -   ", "@", *"   -   "]


@pytest.mark.parametrize("count", [2_000, 100_000])
def test_texts_with_nothing_in_common_are_bounded(count: int) -> None:
    lines = differing_lines(numbered(*range(count)), numbered(*range(count, 2 * count)))
    assert len(lines) <= 4001
    assert lines[0] == ("-", "line 0")
