"""Which terms nodes may fence themselves by, and what they come to."""

from __future__ import annotations

import math
import re

import pytest

from kvedge.resources.node_loss.fence_terms import (
    CLOCK_ERROR,
    RESET_SECONDS,
    SELF_FENCING,
    FenceTerms,
    TermsError,
    parse_terms,
    read_terms,
)


@pytest.mark.parametrize("text", ["", "disabled"])
def test_without_the_word_nodes_do_not_fence_themselves(text: str) -> None:
    assert parse_terms(text) is None


def test_enabled_has_guests_elsewhere_two_minutes_after_the_last_renewal() -> None:
    terms = parse_terms("enabled")
    assert terms == FenceTerms()
    assert terms is not None
    assert terms.gone_after == 120


def test_terms_are_read_as_they_are_written() -> None:
    terms = parse_terms("silence=6s, watchdog=4s,renew=1s,check=1s,margin=3s")
    assert terms == FenceTerms(6, 4, 1, 1, 3)
    assert terms is not None
    assert parse_terms(terms.format()) == terms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("on", "'on' is no term; use enabled, disabled", id="another word"),
        pytest.param("silence=1m", "'silence=1m' is no term", id="another unit"),
        pytest.param("silence=40s,silence=50s", "silence is there twice", id="twice"),
        pytest.param("silence=10s", "silence must be at least 15 s, 3 times renew", id="a lost renewal kills"),
        pytest.param("watchdog=3s", "watchdog must be at least 4 s, twice check", id="a late look resets"),
        pytest.param("margin=1s", "margin must be at least 4 s", id="clocks and the reset use it up"),
        pytest.param("renew=0s", "renew must be 1 to 3600 s, and is 0", id="no time at all"),
        pytest.param("x" * 300, "it is longer than 200 characters", id="very long"),
    ],
)
def test_terms_that_prove_nothing_are_refused(text: str, why: str) -> None:
    with pytest.raises(TermsError) as caught:
        parse_terms(text)
    assert why in str(caught.value)
    assert read_terms({SELF_FENCING: text}) is None


def test_the_margin_that_a_refusal_names_is_accepted() -> None:
    for silence in range(6, 60):
        with pytest.raises(TermsError) as caught:
            parse_terms(f"silence={silence}s,watchdog=4s,renew=1s,check=1s,margin=1s")
        found = re.search(r"at least (\d+) s: clocks", str(caught.value))
        assert found is not None
        assert parse_terms(f"silence={silence}s,watchdog=4s,renew=1s,check=1s,margin={found[1]}s") is not None


def test_a_node_is_over_only_after_its_silence() -> None:
    terms = FenceTerms()
    assert not terms.is_over(100.0, 140.0)
    assert terms.is_over(100.0, 140.1)


def test_what_the_device_has_really_taken_counts() -> None:
    assert FenceTerms().with_watchdog(15).gone_after == 105


@pytest.mark.parametrize("silence", [3, 40, 977, 3600])
@pytest.mark.parametrize("watchdog", [2, 15, 60, 3600])
def test_the_least_margin_is_enough_for_the_slowest_node_and_the_fastest_controller(
    silence: int, watchdog: int
) -> None:
    terms = FenceTerms(silence, watchdog, 1, 1, 0)
    terms = FenceTerms(silence, watchdog, 1, 1, math.ceil(terms.least_margin))
    last = (terms.silence + 3 * terms.watchdog) / (1 - CLOCK_ERROR) + RESET_SECONDS
    assert terms.gone_after / (1 + CLOCK_ERROR) >= last
