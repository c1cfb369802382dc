"""The disks of a move, and the places that they move to: found, made, judged, flushed.

Called by `disk_mover`, which decides. Touches the claims that the handler has handed over.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kvedge.launcher.disk_move.disk_move_plan import DiskState
from kvedge.launcher.disk_move.disk_move_record import MovingDisk
from kvedge.launcher.disks.arriving_disk import CopyPlace, check_device, drop_copy, make_arriving, wipe_device
from kvedge.launcher.launcher_errors import BadRequest, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts
from kvedge.resources.disks.moved_places import moved_path
from kvedge.rpc.launcher_pb2 import DiskCopy
from kvedge.storage.beneath import hold_directory
from kvedge.storage.blank_image import count_free_bytes

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


log = logging.getLogger(__name__)


def images_of(disks: Iterable[MovingDisk]) -> Iterator[MovingDisk]:
    """Those that move to files."""
    return (disk for disk in disks if not disk.block)


def find_disk(copy: DiskCopy, facts: DomainFacts, session: LibvirtSession, root: str) -> MovingDisk:
    """The disk of the guest that such an order is about; `root` is before the Pod's paths.

    Raises:
        BadRequest, WrongState: when there is none that can move there.
    """
    disk = next((each for each in facts.disks if each.name == copy.volume), None)
    field = f"volume {copy.volume}"
    if disk is None or disk.device != "disk" or disk.read_only or not disk.source:
        raise BadRequest(
            field,
            "it is no disk on a claim that the guest can write, and cannot move to another"
            " one; a disk that has come back from a backup can after the VM's next start",
        )
    sizes = session.disk_sizes(frozenset({copy.volume}))
    if copy.volume not in sizes:
        raise WrongState(f"{field}: its size is not known")
    path = root + moved_path(copy.place, block=copy.block)
    if disk.source == path:
        raise WrongState(f"{field} is on claim {copy.claim} already")
    return MovingDisk(
        copy.volume,
        disk.target,
        copy.source_claim,
        copy.claim,
        copy.place,
        path,
        copy.block,
        sizes[copy.volume].bytes,
    )


def make_place(disk: MovingDisk, move: str, vmi_uid: str) -> None:
    """Have the place of a copy there, empty, and known for no disk yet.

    Raises:
        LauncherError, OSError: when the claim takes none.
    """
    place = CopyPlace(disk.volume, disk.claim, disk.path, disk.bytes, vmi_uid, move)
    if disk.block:
        device = os.open(disk.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            check_device(device, place)
        finally:
            os.close(device)
        return
    with hold_directory(os.path.dirname(disk.path)) as directory:
        make_arriving(directory, place, count_free_bytes(directory))


def remove_copy(disk: MovingDisk, move: str) -> None:
    """Have nothing left of a copy that nobody wants; what cannot be removed is told of."""
    try:
        if disk.block:
            wipe_device(disk.path)
        else:
            drop_copy(os.path.dirname(disk.path), move)
    except OSError as error:
        log.warning("an unfinished copy is left", extra={"facts": {"volume": disk.volume, "why": str(error)}})


def explain_loss(disks: Iterable[MovingDisk]) -> str:
    """QEMU ends a copy that it cannot write, and tells nobody why."""
    for disk in images_of(disks):
        with contextlib.suppress(OSError), hold_directory(os.path.dirname(disk.path)) as directory:
            if count_free_bytes(directory) < 1 << 20:
                return f"claim {disk.claim} of volume {disk.volume} is full: free some space where it lies"
    return "QEMU has ended a copy after an error of its storage, or with an earlier launcher"


def judge_disk(disk: DomainDisk | None, path: str) -> DiskState:
    """How far a disk of the domain is on its way to `path`."""
    if disk is None:
        return DiskState.LOST
    if disk.source == path:
        return DiskState.EXCHANGED
    if disk.mirror != path:
        return DiskState.LOST
    return DiskState.FOLLOWING if disk.is_mirrored else DiskState.COPYING


def flush_disks(disks: Iterable[MovingDisk]) -> None:
    """Have what was copied on storage. Raises OSError."""
    for disk in disks:
        opened = os.open(disk.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
