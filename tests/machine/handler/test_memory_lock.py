"""The limit of locked memory of a launcher whose guest has devices of the node."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.node.memory_lock import lift_memory_lock
from kvedge.handler.pod_errors import PodNotReady

pytestmark = pytest.mark.machine


def test_a_launcher_may_lock_all_its_memory_and_so_may_the_qemu_that_it_starts() -> None:
    small = (64 << 10, 64 << 10)
    script = "read go; sleep 60"
    with subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE) as started:
        resource.prlimit(started.pid, resource.RLIMIT_MEMLOCK, small)
        with HeldProcess.of(started.pid) as launcher:
            lift_memory_lock(launcher)
            lift_memory_lock(launcher)
        limits = Path(f"/proc/{started.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max locked memory")]
        assert line.split()[3:5] == ["unlimited", "unlimited"]
        started.kill()
    with pytest.raises(PodNotReady, match="limit of locked memory"):
        lift_memory_lock(launcher)
