"""Packages whose __init__ waits until somebody asks for what only it knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import sys; sys.path.insert(0, {path!r}); from kvedge.runtime.light_import import defer_init; {body}"


@pytest.fixture
def path(tmp_path: Path) -> str:
    package = tmp_path / "large"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "print('init ran')\nfrom . import part\nfrom large.inner import deep\nVERSION = part.VALUE + 1\n"
    )
    (package / "part.py").write_text("VALUE = 1\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "deep.py").write_text("from large import part\nimport large.part\nSEEN = large.part.VALUE\n")
    return str(tmp_path)


def run(path: str, body: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(path=path, body=body)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_modules_are_imported_without_the_packages_init(path: str) -> None:
    body = "defer_init('large'); import large.part; from large.inner import deep; print(large.part.VALUE, deep.SEEN)"
    assert run(path, body) == ["1 1"]


def test_a_module_may_be_taken_from_the_package_itself(path: str) -> None:
    assert run(path, "defer_init('large'); from large import part, inner; print(part.VALUE)") == ["1"]


def test_the_init_runs_once_when_its_names_are_asked_for(path: str) -> None:
    body = "defer_init('large'); import large; print('before'); print(large.VERSION); print(large.VERSION)"
    assert run(path, body) == ["before", "init ran", "2", "2"]


def test_what_the_init_does_not_know_is_missing(path: str) -> None:
    body = "defer_init('large'); import large; print(hasattr(large, 'nothing'), hasattr(large, 'other'), large.VERSION)"
    assert run(path, body) == ["init ran", "False False 2"]


def test_a_package_that_is_loaded_stays_as_it_is(path: str) -> None:
    assert run(path, "import large; defer_init('large'); print(large.VERSION)") == ["init ran", "2"]


def test_a_package_that_is_not_there_is_missing_when_it_is_used(path: str) -> None:
    body = "defer_init('none_such')\ntry: import none_such\nexcept ModuleNotFoundError as error: print(error)"
    assert run(path, body) == ["No module named 'none_such'"]


@pytest.mark.parametrize(
    ("package", "used", "spared"),
    [
        ("pyroute2", "pyroute2.iproute, pyroute2.netlink.nfnetlink.nftsocket", "pyroute2.ndb"),
    ],
)
def test_the_large_packages_work_this_way(path: str, package: str, used: str, spared: str) -> None:
    assert run(path, f"defer_init({package!r}); import {used}; print({spared!r} in sys.modules)") == ["False"]
    assert run(path, f"defer_init({package!r}); import {package}; print({package}.__version__ != '')") == ["True"]
