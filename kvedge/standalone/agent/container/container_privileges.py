"""What a container's processes may do: user, groups, capabilities, limits.

Called by the container starter's children, last before the command runs. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import TYPE_CHECKING

from kvedge.runtime.linux import privileges

if TYPE_CHECKING:
    from kvedge.standalone.agent.container.container_spec import ProcessSpec

# In the order of their numbers (capabilities(7)).
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)

# systemd's defaults for services: a high soft limit makes programs slow that close every possible descriptor, and
# libvirt is one of them.
_OPEN_FILES = (1024, 524288)


def set_limits(spec: ProcessSpec) -> None:
    """Resource limits and the out-of-memory score; as root, before the user is changed."""
    # Without CAP_SYS_RESOURCE, as inside some containers, the limits that this process has must do.
    with contextlib.suppress(ValueError, OSError):
        # QEMU locks guest memory for devices that are passed through.
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES[1] if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_OPEN_FILES[0], limit), limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(PermissionError), open("/proc/self/oom_score_adj", "w") as stream:
        stream.write(str(spec["oom_score_adj"]))


def set_sysctls(sysctls: dict[str, str]) -> None:
    """Write sysctls of the namespaces this process is in; the names were checked by whoever planned the Pod."""
    for name, value in sysctls.items():
        with open(f"/proc/sys/{name.replace('.', '/')}", "w") as stream:
            stream.write(value)


def last_capability() -> int:
    """The highest that this kernel knows; to be asked before the image's file system is the root."""
    with open("/proc/sys/kernel/cap_last_cap") as stream:
        return int(stream.read())


def become_user(spec: ProcessSpec, last: int) -> None:
    """Give up all capabilities but those of the spec, and become its user and groups."""
    kept = {CAPABILITIES.index(name) for name in spec["capabilities"]}
    for number in range(last + 1):
        if number not in kept:
            privileges.drop_from_bounding_set(number)
    os.setgroups(spec["groups"])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    # A user other than root has lost them by now; only root keeps what the spec gives.
    privileges.set_capabilities(sum(1 << number for number in kept) if spec["uid"] == 0 else 0)
    if spec["no_new_privileges"]:
        privileges.set_no_new_privileges()


def reset_signals() -> None:
    """Python ignores some signals, and a container's command would inherit that."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
