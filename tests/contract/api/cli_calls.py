"""Calls that kvedge and virtctl are both given, for a VM named clitest.

Used by test_cli.py, which compares what they do and say.
"""

from __future__ import annotations

from typing import Final

# What is typed, and what is there when it is.
STOPPED: Final = "a VM"
RUNNING: Final = "a VM that runs"
CALLS: Final = [
    ("start clitest", STOPPED),
    ("start clitest --paused", STOPPED),
    ("start clitest --paused=true --dry-run=true", STOPPED),
    ("start clitest", RUNNING),
    ("stop clitest", STOPPED),
    ("stop clitest", RUNNING),
    ("stop clitest --force --grace-period 3", RUNNING),
    ("stop clitest --force=false --dry-run", RUNNING),
    ("restart clitest", STOPPED),
    ("restart clitest --force --grace-period=0", RUNNING),
    ("restart clitest --force --grace-period=5", RUNNING),
    ("pause vm clitest", RUNNING),
    ("pause virtualmachineinstance clitest", RUNNING),
    ("pause vmi clitest", STOPPED),
    ("unpause virtualmachine clitest", RUNNING),
    ("unpause vmi clitest --dry-run", STOPPED),
    ("reset clitest", RUNNING),
    ("soft-reboot clitest", RUNNING),
    ("guestosinfo clitest", RUNNING),
    ("userlist clitest", RUNNING),
    ("fslist clitest", STOPPED),
    ("start absent", STOPPED),
    ("migrate clitest", STOPPED),
    ("migrate clitest", RUNNING),
    ("migrate absent", STOPPED),
    ("migrate-cancel clitest", RUNNING),
    ("stop clitest --force", RUNNING),
    ("port-forward vm/clitest 80 --stdio", STOPPED),
    ("port-forward clitest 80", STOPPED),
    ("ssh clitest", STOPPED),
    ("scp a b", STOPPED),
    ("vnc screenshot clitest -f -", STOPPED),
    ("expose vm clitest --name x", STOPPED),
    ("expose vm clitest --name x --port 1 --protocol foo", STOPPED),
]
