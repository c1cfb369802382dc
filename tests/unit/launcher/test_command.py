"""What a launcher is told, and what becomes of one that fails before it serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.launcher.command import launcher_command
from kvedge.launcher.launcher_options import LauncherOptions

# As the monitor starts another launcher, and as a launcher starts anew that owns a guest by now.
COMMAND = (sys.executable, "-P", "-m", "kvedge", "launcher")
# A thread that serves is no reason to stay.
PROGRAM = """
import sys, threading
import kvedge.launcher.launcher_process as process
def run_launcher(options):
    threading.Thread(target=threading.Event().wait).start()
    raise RuntimeError("libvirt cannot be opened")
process.run_launcher = run_launcher
from kvedge.launcher.command import launcher_command
sys.exit(launcher_command(sys.argv[1:]))
"""


def test_an_architecture_without_guests_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--namespace", "n", "--name", "v", "--uid", "u"]
    assert launcher_command([*named, "--guest-architecture", "riscv64"]) == 2
    assert "'riscv64' is neither x86_64 nor aarch64" in capsys.readouterr().err


def test_the_guests_architecture_is_handed_on_to_a_launcher_that_starts_again() -> None:
    options = LauncherOptions(namespace="n", name="v", uid="u", guest_architecture="aarch64")
    assert options.arguments()[-2:] == ["--guest-architecture", "aarch64"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(COMMAND, "NotADirectoryError", id="its directories cannot be made"),
        pytest.param((sys.executable, "-c", PROGRAM), "libvirt cannot be opened", id="it has threads by then"),
    ],
)
def test_a_launcher_that_fails_itself_does_not_say_that_the_run_has_failed(
    tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").touch()
    options = LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path / "file"), incoming="m-1")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [*command, *options.arguments()], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    # 0 and 1 are verdicts: the monitor would end the guest.
    assert done.returncode == 70
    assert said in done.stderr
