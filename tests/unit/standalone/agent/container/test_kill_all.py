# Tests: kvedge/standalone/agent/container/cgroups.py
"""Killing what is left of a Pod, and nobody else."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kvedge.standalone.agent.container.cgroups import kill_all


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    with ExitStack() as stack:
        found = [stack.enter_context(subprocess.Popen(["sleep", "1000"])) for _ in range(3)]
        for each in found:
            stack.callback(each.kill)
        yield found


def test_all_that_are_there_are_killed(running: list[subprocess.Popen[bytes]]) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    kill_all(lambda: {gone.pid, *(each.pid for each in running)})
    assert [each.wait(10) for each in running] == [-signal.SIGKILL] * 3


def test_whoever_has_the_number_of_one_that_ended_is_left_alone(running: list[subprocess.Popen[bytes]]) -> None:
    mine, other = running[0], running[1]
    seen = iter([{mine.pid, other.pid}, {mine.pid}])
    kill_all(lambda: next(seen))
    assert mine.wait(10) == -signal.SIGKILL
    assert other.poll() is None
