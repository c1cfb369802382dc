"""Device nodes of the handler's own, which device plugins name to the kubelet instead of the host's.

Used by the device plugins. A container runtime makes a container's node after the one it is told of: with the host's
/dev/kvm the launcher would get a node of root's, and libvirt, which looks at it as soon as the launcher starts, would
take the node's capabilities for those of a host without KVM. These belong to the launcher's user; they lie in a
directory that only root can enter, so that nobody on the host gains anything by them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID

_MODE: Final = 0o660


def make_launcher_node(directory: Path, device: str) -> str:
    """The path of a node in `directory` for the same device as the host's `device`, made when it is not there.

    The host's own path where it is no character device, or where this process may make none.
    """
    try:
        number = _read_number(device)
        if number is None:
            return device
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / device.removeprefix("/dev/").replace("/", "-")
        if not _is_made(path, number):
            _make(path, number)
    except OSError:
        # The handler claims the node in the Pod then.
        return device
    return str(path)


def _read_number(device: str) -> int | None:
    facts = os.stat(device)
    return facts.st_rdev if stat.S_ISCHR(facts.st_mode) else None


def _is_made(path: Path, number: int) -> bool:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return False
    wanted = (stat.S_IFCHR | _MODE, number, LAUNCHER_UID, LAUNCHER_GID)
    return (facts.st_mode, facts.st_rdev, facts.st_uid, facts.st_gid) == wanted


def _make(path: Path, number: int) -> None:
    staged = path.with_name(f".{path.name}")
    with contextlib.suppress(FileNotFoundError):
        staged.unlink()
    os.mknod(staged, stat.S_IFCHR | _MODE, number)
    # mknod's mode is cut by the umask.
    staged.chmod(_MODE)
    os.chown(staged, LAUNCHER_UID, LAUNCHER_GID)
    staged.replace(path)
