# Tests: kvedge/
"""Each folder has a floor: where folders lie in a folder, a contract of import-linter says who may import whom.

A contract that is `exhaustive` names files as well. The others name what matters, and this finds folders that they
leave out: a new one must be placed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import kvedge

PACKAGE = Path(kvedge.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())


def read_floors(contracts: Iterable[Mapping[str, Any]]) -> set[str]:
    """All modules that a contract of layers names, in full."""
    return {
        f"{container}.{name.strip()}"
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract["containers"]
        for layer in contract["layers"]
        for name in layer.split("|")
    }


def find_homeless(package: Path, floors: set[str]) -> list[str]:
    """The folders of a package that have no floor."""
    folders = (path.parent.relative_to(package.parent) for path in package.rglob("__init__.py"))
    return sorted({".".join(folder.parts) for folder in folders if len(folder.parts) > 1} - floors)


def test_each_folder_has_a_floor() -> None:
    assert find_homeless(PACKAGE, read_floors(PROJECT["tool"]["importlinter"]["contracts"])) == []


def test_a_folder_without_a_floor_is_found(tmp_path: Path) -> None:
    for folder in ("made", "made/one", "made/one/two", "made/three"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    contract = {"type": "layers", "containers": ["made"], "layers": ["one | four", "five"]}
    assert find_homeless(tmp_path / "made", read_floors([contract])) == ["made.one.two", "made.three"]
