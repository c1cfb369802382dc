"""How many rules one packet can meet at most, by what nftables lists. Pure; used by the bench of networks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

_JUMPS: Final = re.compile(r'"(?:jump|goto)": \{"target": "([^"]+)"')
# Family, table and name.
Chain = tuple[str, str, str]


def most_rules_met(entries: Iterable[dict[str, Any]]) -> int:
    """The longest way through the chains of each hook, added up; `entries` are those of `nft -j list ruleset`."""
    rules: dict[Chain, list[str]] = {}
    mapped: dict[tuple[str, str], set[str]] = {}
    bases = []
    for entry in entries:
        if chain := entry.get("chain"):
            rules.setdefault(_key(chain, "name"), [])
            bases += [_key(chain, "name")] if "hook" in chain else []
        elif rule := entry.get("rule"):
            rules.setdefault(_key(rule, "chain"), []).append(json.dumps(rule["expr"]))
        elif found := entry.get("map"):
            # What a verdict map jumps to is named in its elements alone.
            mapped.setdefault((found["family"], found["table"]), set()).update(_targets(found.get("elem", [])))

    def longest(chain: Chain, seen: frozenset[Chain]) -> int:
        names = {name for rule in rules[chain] for name in _JUMPS.findall(rule)}
        if any('"vmap"' in rule for rule in rules[chain]):
            names |= mapped.get(chain[:2], set())
        ways = [(*chain[:2], name) for name in names]
        known = [way for way in ways if way in rules and way not in seen]
        return len(rules[chain]) + max((longest(way, seen | {way}) for way in known), default=0)

    return sum(longest(base, frozenset({base})) for base in bases)


def _key(entry: dict[str, Any], name: str) -> Chain:
    return (entry["family"], entry["table"], entry[name])


def _targets(elements: object) -> set[str]:
    return set(_JUMPS.findall(json.dumps(elements)))
