"""The limit of the priority of a launcher whose guest runs in real time."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.node.realtime_limit import allow_realtime
from kvedge.handler.pod_errors import PodNotReady
from tests.support.needs import may_lift_limits

pytestmark = pytest.mark.machine


@pytest.fixture
def launcher() -> Iterator[HeldProcess]:
    with subprocess.Popen(["/bin/sleep", "60"]) as started, HeldProcess.of(started.pid) as held:
        resource.prlimit(started.pid, resource.RLIMIT_RTPRIO, (0, 0))
        yield held
        started.kill()


@pytest.mark.skipif(not may_lift_limits(), reason="needs CAP_SYS_RESOURCE")
def test_a_launcher_may_have_the_least_priority_in_real_time(launcher: HeldProcess) -> None:
    allow_realtime(launcher)
    allow_realtime(launcher)
    assert resource.prlimit(launcher.pid, resource.RLIMIT_RTPRIO) == (1, 1)


@pytest.mark.skipif(may_lift_limits(), reason="may lift limits")
def test_a_handler_that_may_not_lift_it_says_what_it_lacks(launcher: HeldProcess) -> None:
    with pytest.raises(PodNotReady, match=r"vCPUs in real time.*run the handler with CAP_SYS_RESOURCE"):
        allow_realtime(launcher)


def test_a_launcher_that_has_ended_is_told_as_such() -> None:
    with subprocess.Popen(["/bin/true"]) as started:
        launcher = HeldProcess.of(started.pid)
    with launcher, pytest.raises(PodNotReady, match="vCPUs in real time"):
        allow_realtime(launcher)
