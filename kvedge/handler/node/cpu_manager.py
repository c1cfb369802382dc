"""What this node does for guests that have CPUs for themselves, as labels of its Node.

Called by the node loop at each heartbeat. Reads the state of the kubelet's CPU manager, which the agent of one box
keeps in the same form, and a setting of the kernel. KubeVirt sets the labels behind its gate CPUManager; here a kubelet
that has the policy is enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from kvedge.resources.names import CPU_MANAGER, OLD_CPU_MANAGER, REALTIME

STATE_FILE: Final = "cpu_manager_state"
_STATIC: Final = "static"
# A node with very many Pods has some hundred kilobytes.
_LARGEST: Final = 4 << 20
_REALTIME_LIMIT: Final = Path("/proc/sys/kernel/sched_rt_runtime_us")
# Real-time work may have all of a CPU's time.
_NO_LIMIT: Final = "-1"


class _State(msgspec.Struct):
    policyName: str = ""  # noqa: N815 - the file's name


def read_cpu_labels(kubelet: Path, realtime_limit: Path = _REALTIME_LIMIT) -> dict[str, str]:
    """The labels; `kubelet` is its directory on this node."""
    static = "true" if _read_policy(kubelet / STATE_FILE) == _STATIC else "false"
    labels = {CPU_MANAGER: static, OLD_CPU_MANAGER: static}
    if _read(realtime_limit).strip() == _NO_LIMIT.encode():
        # KubeVirt's label has no value.
        labels[REALTIME] = ""
    return labels


def _read_policy(path: Path) -> str:
    try:
        return msgspec.json.decode(_read(path), type=_State).policyName
    except msgspec.DecodeError:
        # None, or a kubelet writes it at this moment: the next heartbeat looks again.
        return ""


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
