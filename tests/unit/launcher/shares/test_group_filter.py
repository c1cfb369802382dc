"""The kernel lets go what the filter says; in a process of its own, as a filter stays for good."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvedge.launcher.shares.group_filter import filter_code

PROGRAM = """
import os
from kvedge.launcher.shares.group_filter import filter_code
from kvedge.runtime.linux.calls import libc
from kvedge.runtime.linux.privileges import filter_calls

# PR_SET_NO_NEW_PRIVS: as in a container, and so that nobody needs a privilege for a filter.
assert libc.prctl(38, 1, 0, 0, 0) == 0
before = os.getgroups()
filter_calls(filter_code())
os.setgroups([54321])
assert os.getgroups() == before
print(os.getuid() == os.geteuid(), os.getpid() > 0)
"""


def test_setgroups_succeeds_and_does_nothing_and_other_calls_go_on() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_each_machine_has_its_numbers(machine: str) -> None:
    assert len(filter_code(machine)) == 6 * 8
