# Tests: tests/
"""Where files lie: a unit test at the path of its module, what several tiers share in tests/support, no folder crowded.

A unit test of no single module says in its first lines what it tests: `# Tests: kvedge/a/b.py, kvedge/c/`. A module
without a test of its name stands in such a line, or in `tested_elsewhere.toml` below the test that runs most of it.
"""

from __future__ import annotations

import ast
import itertools
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
UNIT: Final = ROOT / "tests/unit"
PACKAGE: Final = ROOT / "kvedge"
MARK: Final = "# Tests: "
TIERS: Final = ("unit", "contract", "machine", "cluster", "browser", "conformance")
# Generated from proto/, and checked by generating it again.
GENERATED: Final = PACKAGE / "rpc"
ELSEWHERE: Final = UNIT / "tested_elsewhere.toml"
# A folder with more modules than this has subjects that want folders of their own.
MOST_MODULES: Final = 25


def modules() -> set[str]:
    """The modules of the package by their paths below it, without `.py`."""
    files = (path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" and GENERATED not in path.parents)
    return {str(path.relative_to(PACKAGE).with_suffix("")) for path in files}


def unit_tests() -> dict[str, Path]:
    """Test files by the module whose place they have."""
    found = {}
    for path in UNIT.rglob("test_*.py"):
        place = path.relative_to(UNIT)
        found[str(place.with_name(place.stem.removeprefix("test_")))] = path
    return found


def subjects(path: Path) -> list[str]:
    """The paths that a test file names in its first lines."""
    lines = itertools.takewhile(lambda line: line.startswith(MARK), path.read_text().splitlines())
    return [name for line in lines for name in line.removeprefix(MARK).split(", ")]


def listed_elsewhere() -> dict[str, str]:
    """Modules without a test of their name, and the test that runs most of each."""
    document = tomllib.loads(ELSEWHERE.read_text())
    return {
        f"{folder}/{name}".removeprefix("./"): test
        for test, folders in document.items()
        for folder, names in folders.items()
        for name in names
    }


def imported(path: Path) -> Iterator[str]:
    """The names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def strays(tier: Path, tiers: tuple[str, ...] = TIERS) -> list[str]:
    """What the files of a folder of tests import from tiers other than their own."""
    others = tuple(f"tests.{name}." for name in tiers if name != tier.name)
    return [
        f"{path.relative_to(tier)}: {name}"
        for path in sorted(tier.rglob("*.py"))
        # To parse all of them takes seconds.
        if any(other.rstrip(".") in path.read_text() for other in others)
        for name in sorted(imported(path))
        if name.startswith(others)
    ]


def crowded(package: Path) -> dict[str, int]:
    """The folders of a package with too many modules beside each other, and how many each has."""
    folders = Counter(path.parent for path in package.rglob("*.py") if path.name != "__init__.py")
    return {str(folder.relative_to(package)): count for folder, count in folders.items() if count > MOST_MODULES}


def test_each_unit_test_lies_at_the_path_of_its_module_or_names_what_it_tests() -> None:
    known = modules()
    assert [str(path) for module, path in unit_tests().items() if module not in known and not subjects(path)] == []


def test_what_a_unit_test_names_is_there() -> None:
    named = {name for path in unit_tests().values() for name in subjects(path)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_each_module_has_a_unit_test_or_says_where_it_is_tested() -> None:
    named = {name for path in unit_tests().values() for name in subjects(path)}
    tested = unit_tests().keys() | listed_elsewhere().keys()
    assert [name for name in sorted(modules() - tested) if f"kvedge/{name}.py" not in named] == []


def test_the_list_of_modules_tested_elsewhere_has_no_more_than_it_must() -> None:
    elsewhere = listed_elsewhere()
    assert sorted(elsewhere.keys() - modules()) == [], "these modules are gone"
    assert sorted(elsewhere.keys() & unit_tests().keys()) == [], "these modules have a test of their own"
    assert [test for test in sorted({*elsewhere.values()}) if not (ROOT / "tests" / test).is_file()] == []


def test_no_folder_of_the_package_is_crowded() -> None:
    assert crowded(PACKAGE) == {}


def test_a_crowded_folder_is_found_with_its_count(tmp_path: Path) -> None:
    for folder, count in (("few", MOST_MODULES), ("many", MOST_MODULES + 1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
        for number in range(count):
            (tmp_path / folder / f"m{number}.py").write_text("")
    assert crowded(tmp_path) == {"many": MOST_MODULES + 1}


@pytest.mark.parametrize("folder", [*TIERS, "support", "bench"])
def test_no_tier_imports_from_another(folder: str) -> None:
    assert strays(ROOT / "tests" / folder) == []


def test_an_import_from_another_tier_is_found(tmp_path: Path) -> None:
    tier = tmp_path / "contract"
    tier.mkdir()
    (tier / "test_x.py").write_text(
        "def test():\n    from tests.unit.kube.y import z\nfrom tests.contract.w import v\nimport tests.machine.u\n"
    )
    assert strays(tier) == ["test_x.py: tests.machine.u", "test_x.py: tests.unit.kube.y.z"]
