"""How much memory a launcher's processes may lock: all of it, for a guest with devices of the node, or a VMI that asks.

Called by the sync loop before a guest starts. VFIO locks the whole of the guest's memory and windows beside it. libvirt
sets QEMU's own limit to just that, but as an unprivileged user it cannot go beyond what the launcher has. The Pod's
memory limit still holds. KubeVirt's handler does the same.
"""

from __future__ import annotations

import logging
import resource

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.pod_errors import PodNotReady

log = logging.getLogger(__name__)

_ALL = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def lift_memory_lock(launcher: HeldProcess) -> None:
    """Let a launcher, and QEMU that it will start, lock as much memory as they have; may be repeated.

    Raises:
        PodNotReady: when it has ended, or the kernel refuses.
    """
    try:
        if resource.prlimit(launcher.pid, resource.RLIMIT_MEMLOCK) == _ALL:
            return
        # By its number: a process that got the number meanwhile has no more memory than before.
        resource.prlimit(launcher.pid, resource.RLIMIT_MEMLOCK, _ALL)
    except (OSError, ValueError) as error:
        raise PodNotReady(
            f"the node cannot lift the launcher's limit of locked memory, which devices of the node need: {error}; run"
            " the handler with CAP_SYS_RESOURCE"
        ) from error
    log.info("limit of locked memory lifted", extra={"facts": {"pid": launcher.pid}})
