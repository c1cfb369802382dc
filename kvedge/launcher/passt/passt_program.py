"""Whether this node can serve a guest by passt: what keeps it from that, before anything is started.

Called by the preparation of a VMI. Runs passt once, for its options.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from kvedge.launcher.passt.passt_command import CONNECTION_OPTION, PROGRAM, needed_descriptors
from kvedge.rpc.launcher_pb2 import Passt

_SECONDS: Final = 10.0
_INSTALL: Final = "install the package passt on the node, or use masquerade: {}"

# What is in the way, and what to do.
Obstacle = tuple[str, str]


def find_obstacle(asked: Sequence[Passt]) -> Obstacle | None:
    """Why no guest can have this here; None when it can."""
    program = shutil.which(PROGRAM)
    if program is None:
        return "this node has no passt", _INSTALL
    if CONNECTION_OPTION not in _read_options(program):
        return f"this node's passt is older than November 2022 and knows no {CONNECTION_OPTION}", _INSTALL
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return judge_descriptors(asked, most)


def judge_descriptors(asked: Sequence[Passt], most: int) -> Obstacle | None:
    """What is in the way where a process has at most so many files open. Pure."""
    needed = sum(needed_descriptors(each) for each in asked)
    if most in (-1, resource.RLIM_INFINITY) or needed <= most:
        return None
    what = "all ports" if any(each.all_ports for each in asked) else "these ports"
    return (
        f"for {what} passt has {needed} sockets, and a process of this node's Pods at most {most} open files",
        "list the guest's ports in this interface's ports, or raise the limit of the container runtime (LimitNOFILE)",
    )


def _read_options(program: str) -> str:
    try:
        # It prints them as an error, among complaints that no system log is there.
        done = subprocess.run([program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")
