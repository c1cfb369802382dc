"""The limits of a launcher whose guest has devices of the node, or runs in real time."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.node.launcher_limits import allow_realtime, lift_memory_lock
from kvedge.handler.pod_errors import PodNotReady
from tests.support.needs import may_lift_limits

pytestmark = pytest.mark.machine
SMALL = (64 << 10, 64 << 10)
BOTH = pytest.mark.parametrize(
    ("lift", "words"),
    [(lift_memory_lock, "limit of locked memory"), (allow_realtime, "vCPUs in real time")],
    ids=["locked memory", "real time"],
)
Lift = Callable[[HeldProcess], None]


@pytest.fixture
def launcher() -> Iterator[HeldProcess]:
    with subprocess.Popen(["/bin/sleep", "60"]) as started, HeldProcess.of(started.pid) as held:
        resource.prlimit(started.pid, resource.RLIMIT_MEMLOCK, SMALL)
        resource.prlimit(started.pid, resource.RLIMIT_RTPRIO, (0, 0))
        yield held
        started.kill()


@pytest.mark.skipif(not may_lift_limits(), reason="needs CAP_SYS_RESOURCE")
def test_a_launcher_may_lock_all_the_memory_that_it_has(launcher: HeldProcess) -> None:
    lift_memory_lock(launcher)
    lift_memory_lock(launcher)
    limits = Path(f"/proc/{launcher.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max locked memory")]
    assert line.split()[3:5] == ["unlimited", "unlimited"]


@pytest.mark.skipif(not may_lift_limits(), reason="needs CAP_SYS_RESOURCE")
def test_a_launcher_may_have_the_least_priority_in_real_time(launcher: HeldProcess) -> None:
    allow_realtime(launcher)
    allow_realtime(launcher)
    assert resource.prlimit(launcher.pid, resource.RLIMIT_RTPRIO) == (1, 1)


@pytest.mark.skipif(may_lift_limits(), reason="may lift limits")
@BOTH
def test_a_handler_that_may_not_lift_it_says_what_it_lacks(launcher: HeldProcess, lift: Lift, words: str) -> None:
    with pytest.raises(PodNotReady, match=f"{words}.*run the handler with CAP_SYS_RESOURCE"):
        lift(launcher)
    assert resource.prlimit(launcher.pid, resource.RLIMIT_MEMLOCK) == SMALL


@BOTH
def test_a_launcher_that_has_ended_is_told_as_such(lift: Lift, words: str) -> None:
    with subprocess.Popen(["/bin/true"]) as started:
        launcher = HeldProcess.of(started.pid)
    with launcher, pytest.raises(PodNotReady, match=words):
        lift(launcher)
