"""Whether a launcher may have the kernel run its guest's vCPUs in real time: with a limit of the priority, like memory.

Called before a guest with `realtime` starts. libvirt sets the priority of vCPU threads. As an unprivileged user it
needs the limit of its process. KubeVirt's handler sets the priorities itself.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.pod_errors import PodNotReady

log = logging.getLogger(__name__)

# That of the vCPUs, and no more.
_PRIORITY: Final = (1, 1)


def allow_realtime(launcher: HeldProcess) -> None:
    """Let a launcher, and QEMU that it will start, run threads in real time; may be repeated.

    Raises:
        PodNotReady: when it has ended, or the kernel refuses.
    """
    try:
        if resource.prlimit(launcher.pid, resource.RLIMIT_RTPRIO) == _PRIORITY:
            return
        # By its number: what got the number meanwhile may be before others of this node, and no more.
        resource.prlimit(launcher.pid, resource.RLIMIT_RTPRIO, _PRIORITY)
    except (OSError, ValueError) as error:
        raise PodNotReady(
            f"the node cannot let the launcher run vCPUs in real time, as spec.domain.cpu.realtime asks: {error}; run"
            " the handler with CAP_SYS_RESOURCE"
        ) from error
    log.info("real-time priority allowed", extra={"facts": {"pid": launcher.pid}})
