"""Words that are spelt like a word that nobody knows."""

from __future__ import annotations

import pytest

from kvedge.runtime.nearest_names import nearest_name, or_nearest


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("strat", " Did you mean start or restart?"),
        ("databse", " Did you mean database?"),
        ("reset", " Did you mean reset or restart?"),
        ("base", " Did you mean database?"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_what_is_spelt_alike_is_offered(word: str, hint: str) -> None:
    assert or_nearest(word, ["start", "stop", "restart", "reset", "database"]) == hint


def test_at_most_three_are_offered() -> None:
    assert or_nearest("web", [f"web-{number}" for number in range(9)]).count("web-") == 3


@pytest.mark.parametrize(
    ("word", "name"),
    [("Cores", "cores"), ("coers", "cores"), ("sokets", "sockets"), ("x", ""), ("cores" * 17, "")],
    ids=["another case", "two letters changed places", "one is missing", "nothing alike", "longer than any name"],
)
def test_the_one_name_that_may_be_meant_is_found_in_whatever_case(word: str, name: str) -> None:
    assert nearest_name(word, ["cores", "sockets", "threads"]) == name
