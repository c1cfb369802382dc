# Tests: tests/bench/rules_met.py
"""The bench's count of rules: the longest way counts, and a verdict map leads to one of its chains."""

from __future__ import annotations

from typing import Any

from tests.bench.rules_met import most_rules_met

JsonDict = dict[str, Any]


def chain(name: str, **more: str) -> JsonDict:
    return {"chain": {"family": "ip", "table": "t", "name": name, **more}}


def rule(inside: str, *expressions: JsonDict) -> JsonDict:
    return {"rule": {"family": "ip", "table": "t", "chain": inside, "expr": list(expressions)}}


def jump(to: str) -> JsonDict:
    return {"jump": {"target": to}}


def test_a_packet_meets_its_hooks_rules_and_the_longest_chain_behind_them() -> None:
    entries = [
        chain("forward", hook="forward"),
        chain("short"),
        chain("long"),
        rule("forward", jump("short")),
        rule("forward", jump("long")),
        rule("short"),
        rule("long"),
        rule("long"),
    ]
    assert most_rules_met(entries) == 4


def test_a_verdict_map_leads_to_one_chain_however_many_it_names() -> None:
    names = [f"pod{number}" for number in range(100)]
    elements = [[name, jump(name)] for name in names]
    entries = [
        chain("forward", hook="forward"),
        rule("forward", {"vmap": {"data": "@pods"}}),
        {"map": {"family": "ip", "table": "t", "name": "pods", "elem": elements}},
        *(chain(name) for name in names),
        *(rule(name) for name in names),
    ]
    assert most_rules_met(entries) == 2


def test_chains_that_lead_back_to_themselves_are_counted_once() -> None:
    entries = [chain("a", hook="input"), chain("b"), rule("a", jump("b")), rule("b", jump("b"))]
    assert most_rules_met(entries) == 2
