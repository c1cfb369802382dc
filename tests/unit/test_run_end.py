# Tests: tests/support/run_end.py
"""What a run of pytest says that comes to its end before all is tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Each process has its own end, as on a busy machine nobody knows when it begins: where `ends` says so, a second after
# its first long test has begun. The process that only shows the results tests nothing, and is the last to ask.
CONFTEST = """
import os, pathlib, pytest, time
from tests.support.run_end import RunEnd

ends, plugins = {ends}, []

def pytest_configure(config):
    shows = ends and config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    os.environ["TESTS_RUN_END"] = str(time.time() + (0 if shows else 3600))
    RunEnd.register(config)
    plugins.extend(each for each in config.pluginmanager.get_plugins() if isinstance(each, RunEnd))

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if ends and item.name in ("test_slow", "test_long") and plugins[0]._end > time.time() + 60:
        plugins[0]._end = time.time() + 1
    return (yield)

@pytest.fixture(scope="session")
def held():
    yield
    pathlib.Path(__file__).with_name("taken-down").touch()
"""
SLOW = """
import time

def test_quick(): pass
def test_slow(held): time.sleep(60)
def test_next(held): pass
def test_after(): pass
"""
OTHER = """
import time

def test_long(): time.sleep(60)
def test_last(): pass
"""


def run(directory: Path, *options: str, ends: bool) -> tuple[int, str]:
    """How such a run ends: in its time, or with its time over in a long test."""
    (directory / "conftest.py").write_text(CONFTEST.format(ends=ends))
    (directory / "test_slow.py").write_text(SLOW)
    (directory / "test_other.py").write_text(OTHER)
    ini = directory / "pytest.ini"
    ini.write_text("[pytest]\ntimeout = 5\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ini), "-p", "no:cacheprovider", *options]
    place = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=directory, env=place, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "two processes"])
def test_it_fails_what_is_tested_takes_all_down_and_tells_what_was_not_run(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    code, said = run(tmp_path, *options, ends=True)
    assert code != 0, said
    assert "Timeout" in said
    assert "not run: the time of the whole run is over" in said
    # Of each file one was tested when the time was over, and by two processes one of each was failed then.
    missed = ["test_slow.py: 1"] if options else ["test_slow.py: 4"]
    assert [line for line in said.splitlines() if line.startswith(("test_slow.py: ", "test_other.py: "))] == missed
    assert (tmp_path / "taken-down").exists() == bool(options)


def test_a_run_that_is_in_time_says_nothing_of_it(tmp_path: Path) -> None:
    code, said = run(tmp_path, "-k", "quick or last", ends=False)
    assert code == 0, said
    assert "2 passed, 4 deselected" in said
    assert "over" not in said
