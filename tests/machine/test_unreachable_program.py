"""A program that launchers could not run is told by `kvedge standalone` and `kvedge node` at once, before anything is
made: really started, from places in a mount namespace of their own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.cli.exits import Exit
from tests.support.checkout_clone import clone_at

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]
ROLES = (
    ["standalone", "--data-dir"],
    ["node", "--kubeconfig", "/nonexistent", "--data-dir"],
    ["handler", "--kubeconfig", "/nonexistent", "--data-dir"],
)


def refused(data: Path, role: list[str], python: Path, *before: str) -> str:
    """What it says as it exits with the code of a host that lacks something, having made nothing."""
    command = [*before, str(python), "-m", "kvedge", *role, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == Exit.HOST, done.stdout + done.stderr
    assert not data.exists()
    return done.stderr


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role[0])
def test_a_checkout_that_was_cloned_for_its_user_alone_is_refused(role: list[str], tmp_path: Path) -> None:
    with clone_at(tmp_path / "kvedge") as clone:
        subprocess.run(["chmod", "-R", "go=", clone / "kvedge"], check=True)
        told = refused(tmp_path / "data", role, clone / ".venv/bin/python")
        assert f"{clone}/kvedge has mode 0700; run `chmod -R go+rX {clone}/kvedge`" in told


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role[0])
def test_a_file_system_without_execution_is_refused(role: list[str], tmp_path: Path) -> None:
    packages = Path(sys.prefix)
    noexec = f"mount --bind '{packages}' '{packages}' && mount -o remount,bind,noexec '{packages}' && exec \"$@\""
    told = refused(tmp_path / "data", role, packages / "bin/python", "unshare", "--mount", "sh", "-c", noexec, "sh")
    assert re.search(rf"error: {packages}/\S+\.so is on a file system that is mounted noexec; move the program", told)
    assert "Traceback" not in told
