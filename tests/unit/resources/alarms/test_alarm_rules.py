"""The table of alarms: each row has its words, its runbook, and limits that make sense."""

from __future__ import annotations

from importlib import resources

import pytest

from kvedge.resources.alarms.alarm_rules import RULES, read_runbook


@pytest.mark.parametrize("name", RULES)
def test_each_rule_has_a_runbook_that_says_what_it_means_and_what_to_do(name: str) -> None:
    text = read_runbook(name)
    assert text.startswith(f"# {name}\n")
    assert "\n## What it means\n" in text
    assert "\n## What to do\n" in text


def test_no_runbook_is_left_of_a_rule_that_has_gone() -> None:
    folder = resources.files("kvedge.resources.alarms").joinpath("runbooks")
    assert {each.name for each in folder.iterdir()} == {f"{name}.md" for name in RULES}


def test_a_runbook_of_no_rule_is_not_looked_for() -> None:
    with pytest.raises(KeyError):
        read_runbook("../alarm_rules")


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_told_in_one_line_with_a_remedy(name: str) -> None:
    rule = RULES[name]
    assert rule.limit != rule.clear
    for text in (rule.summary, rule.remedy, rule.looks_at):
        assert text
        assert "\n" not in text


def test_large_values_are_bad_until_they_are_below_the_lower_bound() -> None:
    rule = RULES["HostDiskFilling"]
    assert [rule.is_bad(level, was_bad=False) for level in (84, 85)] == [False, True]
    assert [rule.is_bad(level, was_bad=True) for level in (81, 80)] == [True, False]


def test_small_values_are_bad_until_they_are_at_the_upper_bound() -> None:
    rule = RULES["HostMemoryShort"]
    assert [rule.is_bad(level, was_bad=False) for level in (6, 5)] == [False, True]
    assert [rule.is_bad(level, was_bad=True) for level in (7, 8)] == [True, False]
