"""A disk that comes back from its backup while its guest uses it: QEMU reads and writes it by NBD, from the worker that
brings it back.

Called by `claim_disk`, as the guest's user. Whoever finds such a disk never takes the image itself, of which parts are
missing. Asks the socket in the claim whether the worker is there, and has no other client.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from typing import Final

from kvedge.launcher.disks.disk_plan import ClaimPlan
from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.resources.disks.claim_places import LIVE_IMAGE, LIVE_SOCKET

_GREETING: Final = b"NBDMAGICIHAVEOPT"
_SECONDS: Final = 5.0
_LATER: Final = "it starts by itself once the worker is there; `kubectl get backuprestores` tells how far it is"


def find_returning(root: int, plan: ClaimPlan) -> DiskSource | None:
    """The disk by its worker; None where the claim has none that comes back.

    Raises:
        ClaimUnusable: when it cannot be used now, or not by this guest.
    """
    if plan.host_file or not _is_there(root, LIVE_IMAGE, stat.S_ISREG):
        return None
    if plan.copied or plan.comes:
        text = "its disk is still coming back from a backup, and cannot come here with a guest"
        raise ClaimUnusable(plan.field, plan.claim, text, "wait until the restore is complete, and restart the VM")
    if not plan.exclusive:
        text = "its disk is still coming back from a backup, and is for one guest until then"
        raise ClaimUnusable(plan.field, plan.claim, text, "wait until the restore is complete")
    if not _is_there(root, LIVE_SOCKET, stat.S_ISSOCK) or not _greets(f"/proc/self/fd/{root}/{LIVE_SOCKET}"):
        text = "its disk is still coming back from a backup, and the worker that serves it is away or has a guest"
        raise ClaimUnusable(plan.field, plan.claim, text, _LATER)
    return DiskSource(
        path=f"{plan.directory}/{LIVE_SOCKET}",
        format="raw",
        served=True,
        readonly=plan.read_only,
        thick=plan.thick,
    )


def _is_there(root: int, name: str, is_kind: Callable[[int], bool]) -> bool:
    try:
        found = os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return is_kind(found.st_mode)


def _greets(path: str) -> bool:
    """Whether a worker would serve us: one that has a guest closes the connection at once."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(_SECONDS)
            asked.connect(path)
            found = b""
            while len(found) < len(_GREETING):
                piece = asked.recv(len(_GREETING) - len(found))
                if not piece:
                    return False
                found += piece
            return found == _GREETING
    except OSError:
        return False
