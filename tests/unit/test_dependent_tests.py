# Tests: tests/support/dependent_tests.py
"""What happens to tests that build on one that has failed, in runs of pytest of their own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support.dependent_tests import DependentTests

def pytest_configure(config):
    config.pluginmanager.register(DependentTests())
    config.addinivalue_line("markers", "incremental: x")
    config.addinivalue_line("markers", "once: x")
"""
CHAIN = """
import pathlib, pytest

pytestmark = pytest.mark.incremental
TRIES = pathlib.Path(__file__).with_name("tries")

def tried():
    with TRIES.open("a") as file:
        file.write("x")
    return TRIES.stat().st_size

def test_first(): pass
{mark}
def test_second(): assert tried() >= {good_try}
def test_third(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_fourth(n): pass
"""
OTHER = "def test_of_another_file(): pass\n"
needs_reruns = pytest.mark.skipif(
    importlib.util.find_spec("pytest_rerunfailures") is None, reason="pytest-rerunfailures is not installed here"
)


def run(directory: Path, *options: str, mark: str = "", good_try: int = 99) -> str:
    """What such a run of pytest says."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_chain.py").write_text(CHAIN.format(mark=mark, good_try=good_try))
    (directory / "test_other.py").write_text(OTHER)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "--strict-markers",
        *options,
    ]
    place = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=directory, env=place, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_rest_of_a_file_is_not_run_and_names_the_test_that_failed(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert "1 failed, 2 passed, 3 skipped" in said
    assert "not run: it builds on test_second, which has failed" in said


@needs_reruns
def test_only_the_last_try_of_a_test_counts(tmp_path: Path) -> None:
    said = run(tmp_path, "--reruns", "1", "-n", "2", "--dist", "loadfile", good_try=2)
    assert "6 passed, 1 rerun" in said


@needs_reruns
def test_what_cannot_be_done_twice_gets_no_second_chance(tmp_path: Path) -> None:
    said = run(tmp_path, "--reruns", "1", mark="@pytest.mark.once", good_try=2)
    assert "1 failed, 2 passed, 3 skipped" in said
    assert "rerun" not in said
