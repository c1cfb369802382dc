"""What is left of guests that are to go is killed, and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.handler.fencing.guest_killer import kill_left

VMI = "22222222-2222-2222-2222-222222222222"
OTHER = "44444444-4444-4444-4444-444444444444"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def show(proc: Path, pid: int, vmi: str) -> None:
    """A process as /proc has a launcher."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(f"qemu\0{vmi}\0".encode())
    (folder / "status").write_text("Name:\tx\nState:\tS (some)\nUid:\t107\t107\t107\t107\nThreads:\t1\n")
    (folder / "cgroup").write_text("0::/\n")


def test_a_process_of_the_guest_is_killed(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    show(tmp_path, sleeper.pid, VMI)
    assert kill_left({VMI: ""}, tmp_path) == 1
    assert sleeper.wait(10) == -9


def test_a_process_of_another_guest_is_left_alone(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    show(tmp_path, sleeper.pid, OTHER)
    assert kill_left({VMI: ""}, tmp_path) == 0
    assert sleeper.poll() is None
