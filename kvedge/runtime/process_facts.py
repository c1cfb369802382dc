"""What the kernel says of a process: its status, and the Pods whose cgroups it is in.

Called to look for launchers in /proc: by the handler before it calls a run failed, and when a host ends. Reads
/proc. Everything here raises FileNotFoundError or ProcessLookupError when the process has ended.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kvedge.runtime.linux.process_stat import ProcessStat

_UUID: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
# A kubelet's: .../pod0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e/..., or with underscores and .slice where systemd makes the
# cgroups. The node agent's of one box: .../kvedge-pod-0d2b9d9c-....scope, or .../kvedge/kv0/0d2b9d9c-... .
_POD: Final = re.compile(rf"(?:pod-?|/kvedge/[^/\n]+/)({_UUID})(?![\w-])")
# PF_KTHREAD of the kernel's include/linux/sched.h.
_KERNEL_THREAD: Final = 0x00200000


def pods_of(process: Path) -> frozenset[str]:
    """The Pods whose cgroups a process is in: mostly one or none, more where a node is itself in a Pod.

    In the hierarchies of version 1 a process leaves them as soon as it begins to end.
    """
    text = (process / "cgroup").read_text(errors="replace")
    return frozenset(uid.replace("_", "-") for uid in _POD.findall(text))


def process_status(process: Path) -> dict[str, str]:
    """The lines of its status file."""
    lines = (process / "status").read_text(errors="replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def is_kernel_thread(process: Path) -> bool:
    """Whether it is the kernel's own: those that work for a guest are in the cgroup of its Pod."""
    return bool(ProcessStat((process / "stat").read_bytes()).flags & _KERNEL_THREAD)
