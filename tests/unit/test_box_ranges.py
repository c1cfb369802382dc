# Tests: tests/
"""Tests that run side by side name ranges of addresses that no other of them names."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

# The doctor is only told of the default ones.
WITHOUT_BOX = {"test_doctor.py"}
MACHINE = Path(__file__).resolve().parents[1] / "machine"
RANGE = re.compile(r"\b10(?:\.\d{1,3}){2}\.0/\d\d\b")


def test_each_range_of_addresses_is_that_of_one_file_or_directory() -> None:
    named: dict[str, set[str]] = defaultdict(set)
    for path in MACHINE.rglob("*.py"):
        if path.name in WITHOUT_BOX:
            continue
        # As tests/conftest.py gives them out.
        scope = path.name if path.parent == MACHINE else str(path.parent.relative_to(MACHINE))
        for found in RANGE.findall(path.read_text()):
            named[found].add(scope)
    assert len(named) > 20
    assert {found: sorted(scopes) for found, scopes in named.items() if len(scopes) > 1} == {}
