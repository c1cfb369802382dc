"""One reader of /proc/PID/stat, whatever a process calls itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kvedge.runtime.linux.process_stat import ProcessStat, read_stat

NAMES = pytest.mark.parametrize("name", ["sh", ") Z 1", "a (b) c", "\n", ""], ids=repr)


def line(name: str, state: str = "S") -> bytes:
    """A line with the number of each field as its value, as proc(5) counts them."""
    return f"1 ({name}) {state} {' '.join(map(str, range(4, 53)))}\n".encode()


@NAMES
def test_fields_are_counted_after_the_last_parenthesis(name: str) -> None:
    stat = ProcessStat(line(name))
    assert (stat.parent, stat.flags, stat.start_time, stat.wait_status) == (4, 9, 22, 52)
    assert stat.cpu_seconds == (14 + 15) / os.sysconf("SC_CLK_TCK")
    assert not stat.has_ended


@pytest.mark.parametrize(
    ("state", "ended"), [("R", False), ("S", False), ("D", False), ("T", False), ("Z", True), ("X", True)]
)
def test_a_process_has_ended_when_it_is_a_zombie_or_dead(state: str, ended: bool) -> None:
    assert ProcessStat(line("sh", state)).has_ended is ended


def test_the_kernel_s_line_is_read_as_psutil_reads_it() -> None:
    stat = read_stat(os.getpid())
    boot = next(int(row.split()[1]) for row in Path("/proc/stat").read_text().splitlines() if row.startswith("btime "))
    assert stat.parent == os.getppid()
    assert boot + stat.start_time / os.sysconf("SC_CLK_TCK") == pytest.approx(psutil.Process().create_time(), abs=1.5)


def test_a_child_that_nobody_has_waited_for_tells_its_exit() -> None:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stat = read_stat(child.pid)
    assert stat.has_ended
    assert os.waitstatus_to_exitcode(stat.wait_status) == 3
    child.wait()
    with pytest.raises(FileNotFoundError):
        read_stat(child.pid)
