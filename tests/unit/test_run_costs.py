# Tests: tests/support/run_costs.py
"""What a run says of its costs, and whose they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.run_costs import Cost, table

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support import run_costs

run_costs._LEAST = 0.0

def pytest_configure(config):
    config.pluginmanager.register(run_costs.RunCosts())
"""
TEST = """
import os, subprocess, sys, time

def test_it_is_busy():
    begun = time.process_time()
    while time.process_time() < begun + 0.3:
        pass
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"], check=True)
"""


def test_the_dearest_directory_is_named_first() -> None:
    costs = {"cheap": Cost(), "dear": Cost()}
    costs["cheap"].add(0.4, 100.0, 160.0)
    costs["dear"].add(70.0, 130.0, 140.0)
    costs["dear"].add(30.2, 150.0, 190.0)
    assert table(costs) == ["    100 s     30 to    90 s  dear", "      0 s      0 to    60 s  cheap"]


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_a_test_pays_for_what_it_runs(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy/test_busy.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options]
    place = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.endswith("  busy"))
    assert line.startswith("      1 s "), line
