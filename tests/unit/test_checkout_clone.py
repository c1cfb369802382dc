# Tests: tests/support/checkout_clone.py, packaging/environment
"""A clone whose environment is made of links changes nothing in the checkout that it comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.checkout_clone import mark_as_made


def test_the_marks_of_the_checkout_stay_when_the_clone_gets_its_own(tmp_path: Path) -> None:
    checkout, clone = tmp_path / "checkout", tmp_path / "clone"
    (checkout / ".venv").mkdir(parents=True)
    clone.mkdir()
    marks = [checkout / ".venv" / name for name in (".made-run", ".made-test")]
    for mark in marks:
        mark.write_text("made here")
    subprocess.run(["cp", "--archive", "--link", checkout / ".venv", clone / ".venv"], check=True)
    (clone / "pyproject.toml").write_text("")
    mark_as_made(clone)
    assert len((clone / ".venv/.made-run").read_text().strip()) == 64
    # packaging/environment writes into whichever is there.
    assert not (clone / ".venv/.made-test").exists()
    assert [mark.read_text() for mark in marks] == ["made here", "made here"]
