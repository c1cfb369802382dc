"""What a VMI says of a claim that a disk moves to."""

from __future__ import annotations

import pytest

from kvedge.handler.volumes.move_words import describe_move
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_COPYING,
    DISK_MOVE_DONE,
    DISK_MOVE_FAILED,
    DISK_MOVE_NONE,
    DISK_MOVE_READY,
    DISK_MOVE_SETTLED,
    DiskCopy,
    DiskMove,
    DiskMoveState,
    DiskTarget,
    DomainStatus,
    MovingDisk,
)


def a_status(state: DiskMoveState, message: str = "", copied: int = 0, total: int = 1000) -> DomainStatus:
    copy = DiskCopy(volume="root", source_claim="old", claim="new", place="place")
    disk = MovingDisk(copy=copy, total_bytes=total, copied_bytes=copied)
    return DomainStatus(disk_move=DiskMove(move_id="m-1", state=state, message=message, disks=[disk]))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (a_status(DISK_MOVE_COPYING), "Disk root is copied from claim old: 0 % of 1000 bytes"),
        (a_status(DISK_MOVE_COPYING, copied=579), "Disk root is copied from claim old: 55 % of 1000 bytes"),
        (a_status(DISK_MOVE_COPYING, copied=1000), "Disk root is copied from claim old: 95 % of 1000 bytes"),
        (a_status(DISK_MOVE_COPYING, total=0), "Disk root is copied from claim old: it begins"),
        (a_status(DISK_MOVE_READY), "Disk root is copied from claim old, and is about to be exchanged"),
        (a_status(DISK_MOVE_SETTLED), "Disk root is copied from claim old, and is about to be exchanged"),
        (a_status(DISK_MOVE_FAILED, "full"), "Disk root has stayed on claim old: full"),
        (a_status(DISK_MOVE_DONE), None),
        (a_status(DISK_MOVE_NONE), None),
    ],
)
def test_how_far_it_is(status: DomainStatus, words: str | None) -> None:
    found = describe_move(status, "place")
    assert (None if found is None else found[1]) == words
    assert describe_move(status, "other") is None


def test_a_disk_that_has_moved() -> None:
    status = a_status(DISK_MOVE_DONE)
    status.disks.append(DiskTarget(name="root", target="vda", place="place"))
    assert describe_move(status, "place") == (
        "DiskMoved",
        "Disk root is on this claim since it moved while the guest ran",
    )
