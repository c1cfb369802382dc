# Tests: kvedge/resources/manifests/policy_rules.py
"""Rights that are compared: a few words may stand for millions of verbs on things."""

from __future__ import annotations

import pytest

from kvedge.resources.manifests.policy_rules import MOST_MISSING, PolicyRule, TooManyRules, find_uncovered

MANY = tuple(map(str, range(1_000)))
HELD = PolicyRule(("get", "list"), ("",), ("pods", "services"))


def test_a_rule_that_one_held_rule_covers_is_not_broken_down() -> None:
    wanted = PolicyRule(MANY, MANY, MANY, MANY)
    assert find_uncovered([PolicyRule(MANY, MANY, MANY, MANY)], [wanted] * 3) == []
    assert find_uncovered([PolicyRule(("*",), ("*",), ("*",))], [wanted]) == []


def test_the_first_missing_rights_are_told_and_no_more_are_looked_for() -> None:
    missing = find_uncovered([HELD], [PolicyRule(MANY, MANY, MANY, MANY)])
    assert len(missing) == MOST_MISSING
    assert missing[0] == PolicyRule(("0",), ("0",), ("0",), ("0",))


def test_rules_that_only_many_held_rules_cover_together_are_refused_beyond_a_number() -> None:
    held = [PolicyRule((verb,), ("",), MANY) for verb in MANY[:40]]
    assert find_uncovered(held, [PolicyRule(MANY[:2], ("",), MANY)]) == []
    with pytest.raises(TooManyRules):
        find_uncovered(held, [PolicyRule(MANY[:40], ("",), MANY)])


def test_words_that_stand_there_again_and_again_count_once() -> None:
    held = [PolicyRule(("get",), ("",), ("pods",)), PolicyRule(("list",), ("",), ("pods",))]
    assert find_uncovered(held, [PolicyRule(("get", "list") * 1_000, ("",) * 10, ("pods",) * 1_000)]) == []
