"""What a VMI's `volumeStatus` says of a claim that a disk moves to in place: how far it is, and why it does not go on.

Called by `hotplug_plan`. Pure. The entry has the name of the claim's place in the launcher.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.disks.moved_places import DISK_MOVED
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_COPYING,
    DISK_MOVE_DONE,
    DISK_MOVE_FAILED,
    DISK_MOVE_READY,
    DISK_MOVE_SETTLED,
    DomainStatus,
    MovingDisk,
)

COPYING: Final = "DiskCopying"
FAILED: Final = "DiskMoveFailed"
_LONGEST: Final = 512
# Each word is a write of the VMI.
_STEP_PERCENT: Final = 5


def describe_move(status: DomainStatus, place: str) -> tuple[str, str] | None:
    """Reason and message for the claim at a place; None when the launcher says nothing of it."""
    volume = next((disk.name for disk in status.disks if disk.place == place), "")
    if volume:
        return DISK_MOVED, f"Disk {volume} is on this claim since it moved while the guest ran"
    move = status.disk_move
    disk = next((each for each in move.disks if each.copy.place == place), None)
    if disk is None or move.state == DISK_MOVE_DONE:
        return None
    what = f"Disk {disk.copy.volume}"
    if move.state == DISK_MOVE_FAILED:
        return FAILED, f"{what} has stayed on claim {disk.copy.source_claim}: {move.message or 'not said why'}"[
            :_LONGEST
        ]
    if move.state == DISK_MOVE_COPYING:
        return COPYING, f"{what} is copied from claim {disk.copy.source_claim}: {_describe_progress(disk)}"
    if move.state in (DISK_MOVE_READY, DISK_MOVE_SETTLED):
        return COPYING, f"{what} is copied from claim {disk.copy.source_claim}, and is about to be exchanged"
    return None


def _describe_progress(disk: MovingDisk) -> str:
    if not disk.total_bytes:
        return "it begins"
    percent = min(disk.copied_bytes * 100 // disk.total_bytes, 99)
    return f"{percent // _STEP_PERCENT * _STEP_PERCENT} % of {disk.total_bytes} bytes"
