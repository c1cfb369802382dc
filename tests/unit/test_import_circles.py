# Tests: kvedge/
"""No module of the package imports another that imports it, not even inside a function or over several others.

`import-linter` checks floors that somebody has named; this finds what they leave out. Imports for type checkers alone
do not count, as they are never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kvedge

PACKAGE = Path(kvedge.__file__).parent


def module_names(package: Path) -> dict[str, Path]:
    """The modules below a package's directory, by their full names."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(node: ast.AST, names: Mapping[str, Path]) -> Iterator[str]:
    """What a module imports when it is loaded, or later when one of its functions runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _is_for_type_checkers(child.test):
            for other in child.orelse:
                yield from imported(ast.Module([other], []), names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                module = f"{child.module}.{alias.name}"
                yield module if module in names else str(child.module)
        elif not isinstance(child, ast.expr):
            # No statement stands within an expression.
            yield from imported(child, names)


def find_circle(package: Path) -> list[str]:
    """The modules of one circle in the order of their imports; empty when there is none."""
    names = module_names(package)
    graph = {
        name: {module for module in imported(ast.parse(path.read_text()), names) if module in names}
        for name, path in names.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # The sorter tells who is imported first.
        return list(reversed(error.args[1]))
    return []


def _is_for_type_checkers(test: ast.expr) -> bool:
    return (test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")) == "TYPE_CHECKING"


def test_no_module_imports_itself_over_others() -> None:
    assert find_circle(PACKAGE) == []


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("from made.second import name", {"made.first", "made.second"}),
        ("def later():\n    from made import second", {"made.first", "made.second"}),
        ("if TYPE_CHECKING:\n    from made.second import name", set()),
        ("import os", set()),
    ],
    ids=["at the top", "inside a function", "for type checkers", "of another package"],
)
def test_a_circle_is_found(tmp_path: Path, first: str, expected: set[str]) -> None:
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text(first)
    (package / "second.py").write_text("import made.first")
    assert set(find_circle(package)) == expected
