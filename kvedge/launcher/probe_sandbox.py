"""A launcher Pod's view of the host, for a probe that runs outside any Pod.

Called by `capability_probe`, as root. libvirt throws its cache away when what it sees differs from what it saw when the
cache was made: above all whether /dev/kvm is there and open to its user. So the probe sees what a Pod sees: a mount and
a PID namespace, a /dev with a few devices, an empty /run, user 107 without privileges.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from typing import Any, Final

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.linux.mounts import MS_PRIVATE, MS_REC, mount
from kvedge.runtime.linux.namespaces import CLONE_NEWNS, CLONE_NEWPID, unshare
from kvedge.runtime.linux.privileges import set_no_new_privileges

_NODES: Final = ("null", "zero", "full", "random", "urandom", "tty")
# The answer of a probe holds a seed of some 100 KB.
_LARGEST_ANSWER: Final = 16 << 20


class SandboxError(LauncherError):
    """The sandbox cannot be made, or what ran in it failed; the text says why."""


def run_in_sandbox(work: Callable[[], dict[str, Any]], *, kvm: bool) -> dict[str, Any]:
    """Run `work()` as PID 1's child in the sandbox; its JSON answer comes back through a pipe.

    `kvm` says whether /dev/kvm is there, and with it /dev/sev of a host that has it.

    Raises:
        SandboxError: when not root, when the namespaces cannot be made, or with the words of the LauncherError that
        `work` raised.
    """
    if os.geteuid() != 0:
        raise SandboxError("the node's abilities can be probed by root only; run kvedge as root")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_run_inside(work, writing, kvm=kvm))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read(_LARGEST_ANSWER)
    os.waitpid(child, 0)
    try:
        document = json.loads(answer)
    except ValueError as error:
        raise SandboxError("the probe ended without an answer") from error
    if "error" in document:
        raise SandboxError(str(document["error"]))
    return dict(document)


def _run_inside(work: Callable[[], dict[str, Any]], pipe: int, *, kvm: bool) -> int:
    """Make the namespaces, then let a PID 1 that reaps run the work."""
    try:
        unshare(CLONE_NEWNS | CLONE_NEWPID)
        # The first child is PID 1 of the new namespace.
        child = os.fork()
        if child == 0:
            _mount_all(kvm=kvm)
            _drop()
            os._exit(_as_pid_1(work, pipe))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except OSError as error:
        _send(pipe, {"error": f"cannot make a sandbox for the probe: {error}"})
        return 1


def _as_pid_1(work: Callable[[], dict[str, Any]], pipe: int) -> int:
    from kvedge.launcher.launcher_options import LauncherOptions
    from kvedge.launcher.monitor import run_monitor

    def launcher(_options: LauncherOptions) -> int:
        try:
            _send(pipe, work())
        except (LauncherError, OSError) as error:
            _send(pipe, {"error": str(error)})
            return 1
        return 0

    return run_monitor(LauncherOptions(namespace="probe", name="probe", uid="probe"), launcher)


def _send(pipe: int, document: dict[str, Any]) -> None:
    with os.fdopen(pipe, "w", closefd=False) as file:
        json.dump(document, file)


def _mount_all(*, kvm: bool) -> None:
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    # Nodes are made before the old /dev is hidden, for the numbers.
    accelerators = ("kvm", *(("sev",) if os.path.exists("/dev/sev") else ())) if kvm else ()
    numbers = {name: os.stat(f"/dev/{name}").st_rdev for name in (*_NODES, *accelerators)}
    mount("dev", "/dev", "tmpfs", 0, "mode=755")
    os.mkdir("/dev/shm", 0o1777)
    for name, number in numbers.items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o600, number)
        os.chmod(f"/dev/{name}", 0o666)
    os.symlink("/proc/self/fd", "/dev/fd")
    mount("run", "/run", "tmpfs", 0, "mode=755")
    for directory in ("kubevirt", "kubevirt-private", "kubevirt-ephemeral-disks", "libvirt"):
        os.mkdir(f"/run/{directory}", 0o700)
        os.chown(f"/run/{directory}", LAUNCHER_UID, LAUNCHER_GID)
    mount("proc", "/proc", "proc", 0)


def _drop() -> None:
    os.setgroups([])
    os.setresgid(LAUNCHER_GID, LAUNCHER_GID, LAUNCHER_GID)
    os.setresuid(LAUNCHER_UID, LAUNCHER_UID, LAUNCHER_UID)
    set_no_new_privileges()
