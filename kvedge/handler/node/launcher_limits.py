"""What the kernel lets a launcher have beyond an ordinary process: locked memory, and vCPUs in real time.

Called by the sync loop before a guest starts that needs it. libvirt sets what QEMU gets, but as an unprivileged user it
cannot go beyond what the launcher has.

- VFIO locks the whole of the guest's memory and windows beside it. The Pod's memory limit still holds. KubeVirt's
  handler does the same.
- The priority of vCPU threads of a guest with `realtime`. KubeVirt's handler sets the priorities itself.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.pod_errors import PodNotReady

log = logging.getLogger(__name__)

_ALL: Final = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
# The priority of the vCPUs, and no more.
_PRIORITY: Final = (1, 1)


def lift_memory_lock(launcher: HeldProcess) -> None:
    """Let a launcher, and QEMU that it will start, lock as much memory as they have; may be repeated.

    Raises:
        PodNotReady: when it has ended, or the kernel refuses.
    """
    trouble = "lift the launcher's limit of locked memory, which devices of the node need"
    _set_limit(launcher, resource.RLIMIT_MEMLOCK, _ALL, trouble)


def allow_realtime(launcher: HeldProcess) -> None:
    """Let a launcher, and QEMU that it will start, run threads in real time; may be repeated.

    Raises:
        PodNotReady: when it has ended, or the kernel refuses.
    """
    trouble = "let the launcher run vCPUs in real time, as spec.domain.cpu.realtime asks"
    _set_limit(launcher, resource.RLIMIT_RTPRIO, _PRIORITY, trouble)


def _set_limit(launcher: HeldProcess, kind: int, wanted: tuple[int, int], doing: str) -> None:
    try:
        if resource.prlimit(launcher.pid, kind) == wanted:
            return
        # By its number: what got the number meanwhile has no more memory than before, and at most goes before others.
        resource.prlimit(launcher.pid, kind, wanted)
    except (OSError, ValueError) as error:
        raise PodNotReady(f"the node cannot {doing}: {error}; run the handler with CAP_SYS_RESOURCE") from error
    log.info("a launcher's limit was raised", extra={"facts": {"pid": launcher.pid, "limit": kind}})
