"""The image of a hostDisk that is to be made when it is absent.

Called by the sync loop before a guest starts. The directory is the host's and mostly root's, so that the launcher could
not make it. The directory is opened once, and is the one that the launcher's Pod has; what is there already is never
touched, neither its bytes nor its owner, and no link is followed.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from typing import Final

from kvedge.handler.held_process import HeldProcess, identity_of
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.disks.volume_facts import DISK_OR_CREATE, claim_directory, host_place
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import HostDisk
from kvedge.resources.values.quantities import QuantityError, parse_bytes
from kvedge.storage.beneath import hold_directory
from kvedge.storage.blank_image import (
    MEBIBYTE,
    count_free_bytes,
    explain_smaller,
    fitting_bytes,
    make_image,
    no_room,
)

log = logging.getLogger(__name__)

SMALLER: Final = "ToleratedSmallPV"


class HostDiskImages:
    """Those of all VMIs of this node; keeps nothing."""

    def __init__(self, tell: Callable[[VirtualMachineInstance, str, str], None], node: str) -> None:
        """`tell` records an event of a VMI: a reason and a text. `node` is this node's name."""
        self._tell = tell
        self._node = node

    def prepare(self, vmi: VirtualMachineInstance, launcher: HeldProcess) -> None:
        """Make what is absent and may be made.

        Raises:
            PodNotReady: when it cannot be; the text names the volume.
        """
        for volume in vmi.spec.volumes:
            disk = volume.host_disk
            if disk is None or disk.type != DISK_OR_CREATE:
                continue
            comes = vmi.status.node_name not in ("", self._node)
            try:
                note = _make(vmi, volume.name, disk, launcher, node=self._node if comes else "")
            except OSError as error:
                raise PodNotReady(f"volume {volume.name}: {disk.path}: {error.strerror or error}") from error
            if note:
                self._tell(vmi, SMALLER, note)


def _make(vmi: VirtualMachineInstance, volume: str, disk: HostDisk, launcher: HeldProcess, *, node: str) -> str:
    directory, file = host_place(disk)
    with hold_directory(directory) as folder:
        if launcher.identify_directory(claim_directory(volume)) != identity_of(os.fstat(folder)):
            raise PodNotReady(
                f"volume {volume}: {directory} is no longer the directory that the Pod has; restart the VM"
            )
        if _is_there(folder, file):
            return ""
        if node:
            # The guest writes to it on the node that it leaves: here it would go on with an empty disk.
            raise PodNotReady(f"volume {volume}: {disk.path} is not on node {node}; mount what both nodes share there")
        size, free = _read_wanted_bytes(volume, disk), count_free_bytes(folder)
        fitting = fitting_bytes(size, free)
        if fitting is None:
            raise PodNotReady(no_room(disk.path, size, free))
        make_image(folder, f".kvedge.{vmi.metadata.uid}", fitting, file, (LAUNCHER_UID, LAUNCHER_GID))
        log.info("image made", extra={"facts": {"volume": volume, "path": disk.path, "size": fitting}})
    if fitting == size:
        return ""
    return explain_smaller(size, free, f"volume {volume}, {disk.path}")


def _is_there(folder: int, file: str) -> bool:
    try:
        os.stat(file, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


def _read_wanted_bytes(volume: str, disk: HostDisk) -> int:
    try:
        size = parse_bytes(disk.capacity or 0) // MEBIBYTE * MEBIBYTE
    except QuantityError as error:
        raise PodNotReady(f"volume {volume}: hostDisk.capacity: {error}") from error
    if disk.capacity is None:
        raise PodNotReady(f"{disk.path} does not exist; make it, or set hostDisk.capacity of volume {volume}")
    if size < MEBIBYTE:
        raise PodNotReady(f"the size for volume {volume} is too low, must be at least 1MiB: raise hostDisk.capacity")
    return size
