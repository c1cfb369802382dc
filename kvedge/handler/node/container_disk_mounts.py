"""Hands the file systems of container disks to a launcher whose kubelet cannot mount images as volumes.

Called by the sync loop before a guest starts. In such a Pod each image has a container of its own, and the launcher and
that container have one empty volume in common, at the path where the launcher looks for the image. The handler finds
the container by that volume, which no process without privileges can move or counterfeit, copies the mount of its
root, and puts the copy over the empty volume in the launcher's mount namespace. Nothing is mounted on the host, so
nothing is left there: the copy goes when the launcher's namespace goes.

Images are hostile: no path of theirs is resolved but beneath their own root, and only to compare what is there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.handler.held_process import HeldProcess, Identity, identify_directory, identity_of
from kvedge.handler.launchers.launcher_socket import volume_directory
from kvedge.handler.own_thread import in_own_thread
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.types.image_trees import ImageTree, image_trees
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.linux.mounts import (
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    MS_PRIVATE,
    attach_mount,
    copy_mount,
    set_mount_attributes,
)
from kvedge.runtime.linux.namespaces import CLONE_NEWNS, setns
from kvedge.storage.beneath import AS_ROOT, hold_directory, hold_open_beneath

log = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY
_HARMLESS: Final = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC


class _Handed(Struct, frozen=True):
    """One image that the launcher does not have yet, and the volume that it shares with the image's container."""

    tree: ImageTree
    volume: Identity


class ContainerDiskMounts:
    """The images of all VMIs of this node; keeps nothing: what has been handed over is seen in the launcher."""

    def __init__(self, kubelet: Path) -> None:
        self._kubelet = kubelet

    def prepare(self, vmi: VirtualMachineInstance, launcher: HeldProcess, pod_uid: str) -> None:
        """Give the launcher every image that it does not have; what it has stays as it is.

        Raises:
            PodNotReady: when an image's container is not there, or the kernel refuses.
        """
        shared = [
            _Handed(tree, found) for tree in image_trees(vmi) if (found := self._identify_volume(pod_uid, tree.name))
        ]
        if not shared:
            # The kubelet has mounted the images itself, or there are none.
            return
        try:
            missing = [item for item in shared if launcher.identify_directory(item.tree.path) == item.volume]
            if missing:
                self._hand_over(missing, launcher)
        except OSError as error:
            raise PodNotReady(f"the node cannot hand over the images of container disks: {error}") from error

    def _identify_volume(self, pod_uid: str, name: str) -> Identity | None:
        """Which directory of the host the empty volume is; None when the Pod has none of that name."""
        try:
            facts = os.stat(volume_directory(self._kubelet, pod_uid, name), follow_symlinks=False)
        except FileNotFoundError:
            return None
        return identity_of(facts) if stat.S_ISDIR(facts.st_mode) else None

    def _hand_over(self, missing: list[_Handed], launcher: HeldProcess) -> None:
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(launcher.namespace("mnt"))
            sources = [(item, stack.enter_context(_hold_container(item, launcher))) for item in missing]
            for item, source in sources:
                in_own_thread(partial(_move_tree, item, source, target))
                log.info("image handed over", extra={"facts": {"volume": item.tree.name, "image": item.tree.image}})


def _move_tree(item: _Handed, source: int, target: int) -> None:
    """Runs in a thread of its own, which is in the container's mount namespace first and then in the launcher's."""
    setns(source, CLONE_NEWNS)
    with hold_directory("/") as root:
        if identify_directory(root, item.tree.path) != item.volume:
            raise PodNotReady(f"the container of {item.tree.subject} has changed while it was looked at")
        # The image's own files only: nothing of what the container runtime has mounted among them.
        copied = copy_mount(root, recursive=False)
    try:
        set_mount_attributes(copied, _HARMLESS, MS_PRIVATE, recursive=False)
        setns(target, CLONE_NEWNS)
        with (
            hold_directory("/") as root,
            hold_open_beneath(root, item.tree.path.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as place,
        ):
            if identity_of(os.fstat(place)) == item.volume:
                attach_mount(copied, place)
    finally:
        os.close(copied)


@contextlib.contextmanager
def _hold_container(item: _Handed, launcher: HeldProcess) -> Iterator[int]:
    """The mount namespace of the image's container: in the launcher's network, and with the volume they share."""
    network, own_mounts = launcher.identity("net"), launcher.identity("mnt")
    with contextlib.ExitStack() as stack:
        for name in os.listdir(_PROC):
            if not name.isdigit():
                continue
            # A process may end while it is looked at.
            with contextlib.suppress(OSError), HeldProcess.of(int(name)) as process:
                if process.identity("net") != network or process.identity("mnt") == own_mounts:
                    continue
                if process.identify_directory(item.tree.path) != item.volume:
                    continue
                found = stack.enter_context(process.namespace("mnt"))
                break
        else:
            raise PodNotReady(
                f"the container {item.tree.name} with {item.tree.subject} ({item.tree.image}) is not running (yet)"
            )
        yield found
