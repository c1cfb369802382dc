# Tests: tests/support/quiet_workers.py
"""What is told of tests that run in another process: everything that anybody looks at, and little else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What shows the results says at the end what it was told of each test.
CONFTEST = """
import time
from tests.support.quiet_workers import QuietWorker
from tests.support.run_costs import PROCESSOR_SECONDS, RunCosts

told, spent = [], []

def pytest_configure(config):
    config.pluginmanager.register(RunCosts())
    QuietWorker.register(config)

def pytest_runtest_logreport(report):
    told.append(f"{report.nodeid.partition('::')[2]} {report.when} {report.outcome}")
    spent.extend(value for name, value in report.user_properties if name == PROCESSOR_SECONDS)

def pytest_terminal_summary(terminalreporter):
    for line in told:
        terminalreporter.write_line(f"told: {line}")
    terminalreporter.write_line(f"spent: {sum(spent):.3f}")
"""
TESTS = """
import time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.02)

@pytest.fixture
def broken():
    raise RuntimeError

@pytest.fixture
def loud():
    print("a word of the fixture")

@pytest.fixture
def breaks_later():
    yield
    raise RuntimeError

@pytest.fixture
def noted(record_property):
    record_property("mended", "a link")

@pytest.fixture
def busy():
    end = time.process_time() + 0.002
    while time.process_time() < end:
        pass

def test_plain(): pass
def test_slow(slow): pass
def test_broken(broken): pass
def test_fails(): assert False
def test_loud(loud): assert False
def test_breaks_later(breaks_later): pass
def test_noted(noted): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.parametrize("number", range(100))
def test_busy(busy, number): pass
"""


def run(directory: Path, *options: str) -> list[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_all.py").write_text(TESTS)
    ini = directory / "pytest.ini"
    ini.write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ini), "-p", "no:cacheprovider", "-n", "1", *options]
    place = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=directory, env=place, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return run(tmp_path_factory.mktemp("quiet"), "-q", "--durations=200")


def told(said: list[str], test: str) -> list[str]:
    start = f"told: {test} "
    return [line.removeprefix(start) for line in said if line.startswith(start)]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("test_plain", ["call passed"]),
        ("test_slow", ["setup passed", "call passed"]),
        ("test_broken", ["setup failed"]),
        ("test_fails", ["call failed"]),
        ("test_loud", ["setup passed", "call failed", "teardown passed"]),
        ("test_breaks_later", ["call passed", "teardown failed"]),
        ("test_noted", ["setup passed", "call passed", "teardown passed"]),
        ("test_skipped", ["setup skipped"]),
    ],
)
def test_a_part_is_told_when_there_is_something_to_tell(said: list[str], test: str, expected: list[str]) -> None:
    # On a busy machine any other part may take long enough to be listed, too.
    assert [part for part in told(said, test) if part in expected] == expected


def test_the_whole_adds_up(said: list[str]) -> None:
    assert "2 failed, 104 passed, 1 skipped, 2 errors" in said[-1]
    assert "a word of the fixture" in said


def test_most_of_what_went_well_is_not_told(said: list[str]) -> None:
    parts = [line for number in range(100) for line in told(said, f"test_busy[{number}]")]
    assert parts.count("call passed") == 100
    # Even on a busy machine some parts are quick.
    assert len(parts) < 300


def test_what_is_not_told_costs_all_the_same(said: list[str]) -> None:
    """What the quiet parts took counts with the next report."""
    [spent] = [float(line.removeprefix("spent: ")) for line in said if line.startswith("spent: ")]
    assert spent >= 100 * 0.002


def test_who_wants_to_see_tests_begin_sees_them(tmp_path: Path) -> None:
    said = run(tmp_path, "-v")
    assert told(said, "test_plain") == ["setup passed", "call passed", "teardown passed"]
