"""What the launcher says of disks that move, for the domain's status.

Called by `disk_mover`. Asks libvirt how far copies are, and nothing else.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from kvedge.launcher.disk_move.disk_move_plan import Stage
from kvedge.launcher.disk_move.disk_move_record import MoveRecord, MovingDisk
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.libvirt.domain_facts import DomainFacts
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_COPYING,
    DISK_MOVE_DONE,
    DISK_MOVE_FAILED,
    DISK_MOVE_NONE,
    DISK_MOVE_READY,
    DISK_MOVE_SETTLED,
    DiskCopy,
    DiskMove,
)
from kvedge.rpc.launcher_pb2 import MovingDisk as MovingDiskWord

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

_STATES: Final = {
    Stage.NONE: DISK_MOVE_NONE,
    Stage.COPYING: DISK_MOVE_COPYING,
    Stage.SETTLING: DISK_MOVE_READY,
    Stage.SETTLED: DISK_MOVE_SETTLED,
    Stage.EXCHANGING: DISK_MOVE_SETTLED,
    Stage.STANDING: DISK_MOVE_FAILED,
    Stage.DONE: DISK_MOVE_DONE,
    Stage.FAILED: DISK_MOVE_FAILED,
}


def describe_move(
    record: MoveRecord, facts: DomainFacts | None, session: LibvirtSession, *, is_ready: bool
) -> DiskMove | None:
    """The word; None when no disk was to move. `is_ready`: what is copied is complete, and on storage."""
    if record.stage is Stage.NONE:
        return None
    state = _STATES[record.stage]
    found = DiskMove(
        move_id=record.id,
        state=DISK_MOVE_READY if state == DISK_MOVE_COPYING and is_ready else state,
        message=record.message,
        started_unix_ms=record.started_ms,
        ended_unix_ms=record.ended_ms,
        stands=record.stage is Stage.STANDING,
    )
    present = {} if facts is None else {disk.name: disk for disk in facts.disks}
    for disk in record.disks:
        has_moved = disk.volume in present and present[disk.volume].source == disk.path
        found.disks.append(_describe_disk(disk, session, has_moved=has_moved, is_open=record.stage.is_open))
    return found


def _describe_disk(disk: MovingDisk, session: LibvirtSession, *, has_moved: bool, is_open: bool) -> MovingDiskWord:
    word = MovingDiskWord(
        copy=DiskCopy(
            volume=disk.volume, source_claim=disk.source_claim, claim=disk.claim, place=disk.place, block=disk.block
        ),
        moved=has_moved,
        total_bytes=disk.bytes,
        copied_bytes=disk.bytes if has_moved else 0,
    )
    if is_open and not has_moved:
        with contextlib.suppress(LauncherError):
            progress = session.copies.progress(disk.target)
            word.total_bytes, word.copied_bytes = progress.total or disk.bytes, progress.copied
    return word
