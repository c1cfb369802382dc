# Tests: kvedge/resources/values/key_patterns.py, kvedge/resources/values/pattern_reader.py
"""Patterns over keys: what Go finds, within bounds. Python's own module is the yardstick where both mean the same."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.values.key_patterns import KeyFilter, KeyPattern
from kvedge.resources.values.pattern_reader import PatternError

KEY = "app.kubernetes.io/Part-of"


@pytest.mark.parametrize(
    ("pattern", "key", "found"),
    [
        pytest.param("Part", KEY, True, id="anywhere"),
        pytest.param("^Part", KEY, False, id="anchored at the start"),
        pytest.param("of$", KEY, True, id="anchored at the end"),
        pytest.param(r"\Aapp\b", KEY, True, id="edge of a word"),
        pytest.param(r"io\B", KEY, False, id="no edge of a word"),
        pytest.param("(?i)PART", KEY, True, id="folded"),
        pytest.param("(?i:PA)RT", KEY, False, id="folded for a group"),
        pytest.param("((?i)PA)rt", KEY, True, id="folded for the rest of a group"),
        pytest.param("(?i)[p-q]ART", KEY, True, id="a folded range"),
        pytest.param("[[:upper:]]art", KEY, True, id="a class of POSIX"),
        pytest.param("[^[:upper:]]art", KEY, False, id="a negated class"),
        pytest.param(r"[\d/]P", KEY, True, id="an escape in a class"),
        pytest.param("[]]", "a]b", True, id="a bracket that comes first"),
        pytest.param("[a-]", "-", True, id="a dash that comes last"),
        pytest.param("a.b", "a/b", True, id="any character"),
        pytest.param(r"\x61\x{70}\160", "app", True, id="numbers of characters"),
        pytest.param(r"\Qa.b*\E", "a.b*", True, id="quoted"),
        pytest.param(r"\Qa.b\E", "axb", False, id="quoted dot"),
        pytest.param("a{2,3}$", "aaaa", True, id="so many times"),
        pytest.param("^a{2,3}$", "aaaa", False, id="more than so many times"),
        pytest.param("^a{2,}?$", "aaaa", True, id="at least so many times, lazily"),
        pytest.param("a{x", "a{x", True, id="a brace"),
        pytest.param("a{,3}", "a{,3}", True, id="no number of times"),
        pytest.param("(?P<n>a|b)+/$", "ab/", True, id="a named group"),
        pytest.param("(?<n>)x", "x", True, id="an empty named group"),
        pytest.param("(|a)*b", "aab", True, id="an empty choice"),
        pytest.param("", "x", True, id="empty"),
        pytest.param("ü", "ü", True, id="no ASCII"),
        pytest.param("x^", "x", False, id="a place that cannot be"),
    ],
)
def test_a_pattern_finds_what_go_finds(pattern: str, key: str, found: bool) -> None:
    assert KeyPattern(pattern).matches(key) is found


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing closing"),
        (")", "unexpected"),
        ("*", "missing argument"),
        ("a**", "nested repetition"),
        ("a{2}{3}", "nested repetition"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("[b-a]", "invalid character class range"),
        ("[a", "too early"),
        ("a\\", "too early"),
        (r"(a)\1", "invalid escape"),
        (r"\pL", "invalid escape"),
        (r"\C", "invalid escape"),
        ("a(?=b)", "Perl syntax"),
        ("(?<=b)a", "Perl syntax"),
        ("(?P<1>a)", "named capture"),
        ("(a{100}){100}", "too large"),
        ("(((){1000}){1000}){1000}", "too large"),
        ("a" * 257, "longer"),
    ],
)
def test_what_go_refuses_or_would_take_long_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        KeyPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a|b)*a(a|b){60}$", "((a?){10}){10}$", "(.*a){12}$"])
def test_what_keeps_a_backtracking_engine_busy_for_ever_takes_linear_time(pattern: str) -> None:
    found = KeyPattern(pattern)
    times = []
    for length in (500, 1000, 2000):
        begun = time.process_time()
        found.matches("a" * length + "!")
        times.append(time.process_time() - begun)
    assert times[2] < 6 * times[0] + 0.1


def test_deeply_nested_groups_are_read() -> None:
    assert KeyPattern("(" * 120 + "a" + ")" * 120).matches("xa")


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "(\\b)", "(^|a)", "(b|$)", "/", "(?:ab)", "()"])
_TIMES = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?"])
_ROWS = st.lists(st.tuples(_ATOMS, _TIMES).map("".join), min_size=0, max_size=5).map("".join)


@given(pattern=st.lists(_ROWS, min_size=1, max_size=3).map("|".join), key=st.text(alphabet="ab0/", max_size=8))
def test_it_finds_what_python_finds(pattern: str, key: str) -> None:
    # `$` of Python stands before a last newline, too: there is none.
    assert KeyPattern(pattern).matches(key) is (re.search(pattern, key, re.ASCII) is not None)


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with contextlib.suppress(PatternError):
        KeyPattern(text).matches(KEY)


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        pytest.param([], [], id="an empty list drops all"),
        pytest.param(["*"], ["a", "ab", "b"], id="all"),
        pytest.param(["*", "!b"], ["a"], id="all but some"),
        pytest.param(["!b", "*"], ["a"], id="whatever the order"),
        pytest.param(["^a"], ["a", "ab"], id="some"),
        pytest.param(["!a"], [], id="nothing is kept where nothing is named"),
    ],
)
def test_filters_say_which_keys_stay(filters: list[str], kept: list[str]) -> None:
    found = KeyFilter(filters)
    assert [key for key in ("a", "ab", "b") if found.keeps(key)] == kept
