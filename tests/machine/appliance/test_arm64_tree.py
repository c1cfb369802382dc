"""The program and unit tests of it as programs of arm64, in a tree of Debian for it that QEMU translates.

`packaging/arm64` makes the tree, which takes packages of Debian's and minutes: with KVEDGE_TEST_ARM64=1 this runs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kvedge import __version__

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        not os.environ.get("KVEDGE_TEST_ARM64"),
        reason="set KVEDGE_TEST_ARM64=1: packaging/arm64 makes a tree of arm64 with mmdebstrap and qemu-user-static",
    ),
]
PYTHON = ".venv-unit/bin/python"


def run(*command: str) -> str:
    """What a command in the tree prints, in a copy of this checkout there."""
    done = subprocess.run(
        [str(ROOT / "packaging/arm64"), "run", *command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def environment() -> None:
    run("packaging/environment", "unit")


def test_the_program_runs_as_one_of_arm64() -> None:
    assert run(PYTHON, "-c", "import platform; print(platform.machine())").splitlines()[-1] == "aarch64"
    assert f"kvedge {__version__}" in run(PYTHON, "-m", "kvedge", "version")


# Of what depends on the architecture, and of what is small: all of them would take hours, translated.
@pytest.mark.parametrize("folder", ["tests/unit/resources/values", "tests/unit/launcher/domain/elements"])
def test_unit_tests_pass_as_programs_of_arm64(folder: str) -> None:
    assert " passed" in run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder)
