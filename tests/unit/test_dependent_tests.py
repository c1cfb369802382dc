# Tests: tests/support/dependent_tests.py
"""What happens to tests that build on one that has failed, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support.dependent_tests import DependentTests

def pytest_configure(config):
    config.pluginmanager.register(DependentTests())
    config.addinivalue_line("markers", "incremental: x")
"""
CHAIN = """
import pytest

pytestmark = pytest.mark.incremental

def test_first(): pass
def test_second(): assert False
def test_third(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_fourth(n): pass
"""
OTHER = "def test_of_another_file(): pass\n"


def run(directory: Path) -> str:
    """What such a run of pytest says."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_chain.py").write_text(CHAIN)
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
    ]
    place = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=directory, env=place, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_rest_of_a_file_is_not_run_and_names_the_test_that_failed(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert "1 failed, 2 passed, 3 skipped" in said
    assert "not run: it builds on test_second, which has failed" in said
