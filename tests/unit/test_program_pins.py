# Tests: packaging/onefile/program.txt
"""The built program has every library that the package asks for, each pinned by its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found is not None, requirement
    return found.group().lower().replace("_", "-")


def test_each_dependency_is_pinned_for_the_built_program() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    pins = (REPOSITORY / "packaging/onefile/program.txt").read_text().splitlines()
    pinned = {_name(line) for line in pins if "==" in line}
    assert {_name(each) for each in project["dependencies"]} - pinned == set()
