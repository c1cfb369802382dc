# Tests: kvedge/
"""No function is named by a bare participle: `answer`, not `_answered`. A property is a value, and may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import kvedge

PACKAGE: Final = Path(kvedge.__file__).parent
# Generated from proto/.
GENERATED: Final = PACKAGE / "rpc"
_FUNCTION: Final = re.compile(r"\bdef\s+(\w+)")
VALUES: Final = frozenset({"property", "cached_property", "setter"})
# Verbs that end as participles do.
VERBS: Final = frozenset({"bleed", "breed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "succeed"})
# Participles that end otherwise, without those that are the verb itself (`cut`, `put`, `read`, `run`, `set`).
IRREGULAR: Final = re.compile(
    "begun|bound|bought|broken|brought|built|chosen|done|drawn|driven|fallen|found|given|gone|grown|heard|held|hidden"
    "|kept|known|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|spent|spoken|stolen|stood|stuck|sworn|taken"
    "|taught|thought|thrown|told|torn|understood|woken|worn|won|written"
)


def is_participle(name: str) -> bool:
    """Whether a function's name, without what tells that it is private, is one participle and nothing else."""
    word = name.strip("_")
    return IRREGULAR.fullmatch(word) is not None or (word.isalpha() and word.endswith("ed") and word not in VERBS)


def name_participles(source: str) -> Iterator[str]:
    """The functions of a module that are named so, each with its line."""
    # To parse all modules takes seconds.
    if not any(is_participle(name) for name in _FUNCTION.findall(source)):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name):
            decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            if not decorators & VALUES:
                yield f"{node.lineno}: {node.name}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("def _answered(): ...", ["1: _answered"], id="a function"),
        pytest.param("def a():\n    def kept(): ...", ["2: kept"], id="a function within a function"),
        pytest.param("class A:\n    async def told(self): ...", ["2: told"], id="a method that waits"),
        pytest.param("class A:\n    @property\n    def found(self): ...", [], id="a property"),
        pytest.param("class A:\n    @functools.cached_property\n    def found(self): ...", [], id="a kept property"),
        pytest.param("def feed(): ...\ndef read(): ...\ndef cut(): ...", [], id="verbs that look alike"),
        pytest.param("def is_bound(): ...\ndef find_named(): ...\nfound = 1", [], id="a participle beside a verb"),
    ],
)
def test_a_bare_participle_is_told_from_a_verb(source: str, found: list[str]) -> None:
    assert list(name_participles(source)) == found


def test_functions_are_verbs() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if GENERATED not in path.parents
        for text in name_participles(path.read_text())
    ]
    assert found == [], "name the verb: `answer_request` or `find_opened`, not `_answered` or `_opened`"
