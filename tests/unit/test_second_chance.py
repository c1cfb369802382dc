# Tests: tests/support/second_chance.py
"""The files that a run of pytest names for their second chance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support.second_chance import SecondChance

def pytest_configure(config):
    SecondChance.register(config)
"""
FILES = {
    "test_good.py": "def test_good(): pass\n",
    "test_bad.py": "def test_bad(): assert False\ndef test_worse(): assert False\n",
    "test_none.py": "import nothing_of_that_name\n",
    "test_end.py": "import pytest\n@pytest.fixture\ndef it():\n    yield\n    assert False\ndef test_end(it): pass\n",
}


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "two processes"])
def test_each_file_that_fails_at_any_moment_is_named_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    place = tmp_path / "failed"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            "--continue-on-collection-errors",
            *options,
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TESTS_FAILED_FILES": str(place)},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert place.read_text().splitlines() == ["test_bad.py", "test_end.py", "test_none.py"]
