"""A test run that was killed leaves a box behind; the next run's box of the same test begins all the same."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.machine.agent.box import box, marks
from tests.support.values import replace

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]
CIDR = "10.243.24.0/24"

KILLED_RUN = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from tests.machine.agent.box import Box
    box = Box(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    box.start_agent()
    box.in_phase(box.create("left", "sleep 1000").metadata.name, "Running")
    os.kill(os.getpid(), signal.SIGKILL)
    """
)


def test_a_box_of_a_killed_run_is_in_nobodys_way(tmp_path: Path, busybox: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    done = subprocess.run([sys.executable, "-c", KILLED_RUN, str(left), str(busybox), CIDR], check=False, timeout=60)
    assert done.returncode == -9
    with box(tmp_path / "next", busybox, CIDR) as one:
        one.start_agent()
        one.in_phase(one.create("next", "sleep 1000").metadata.name, "Running")
        assert marks(one.config)
        assert marks(replace(one.config, data_dir=left, kubelet=left / "kubelet")) == []
    assert subprocess.run(["pgrep", "-f", str(left)], capture_output=True, check=False).stdout == b""
