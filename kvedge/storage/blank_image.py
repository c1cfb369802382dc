"""A raw image of zeros in a claim that has none: at a start, and when the claim is hotplugged.

Called by the launcher's preparation and by the handler, each as the guest's user; by the handler as root for a
hostDisk, whose directory is root's. What a claim holds comes from others:
what lies in the way is removed and never opened, no link is followed, and an image that is there is never replaced.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE
from kvedge.runtime.linux.files import name_new
from kvedge.storage.beneath import hold_open_beneath

MEBIBYTE: Final = 1 << 20
# KubeVirt's defaults: the share that a file system keeps, and how much smaller than the claim an image may become.
RESERVE_BYTES: Final = 131072
_TOLERATED_PERCENT: Final = 10
# The group may write it: an import or an upload, which comes with the group of the claim.
_MODE: Final = 0o660
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def count_free_bytes(directory: int) -> int:
    """What an image may take of the file system of a directory."""
    space = os.fstatvfs(directory)
    return max(0, space.f_bavail * space.f_bsize - RESERVE_BYTES)


def fitting_bytes(size: int, free: int) -> int | None:
    """The size of an image where `free` bytes are left: the one wanted, or up to a tenth less; None for no room."""
    if size <= free:
        return size
    if size * (100 - _TOLERATED_PERCENT) // 100 > free:
        return None
    return free // MEBIBYTE * MEBIBYTE


def no_room(path: str, size: int, free: int) -> str:
    """What a user hears when there is none, in KubeVirt's words."""
    return (
        f"unable to create {path}, not enough space, demanded size {size} B is bigger than available space {free} B,"
        f" also after taking {_TOLERATED_PERCENT} % toleration into account"
    )


def explain_smaller(size: int, free: int, where: str) -> str:
    """What a user hears of an image that is somewhat smaller than was asked for, in KubeVirt's words."""
    return (
        f"PV size too small: expected {size} B, found {free} B. Using it anyway, it is within {_TOLERATED_PERCENT} %"
        f" toleration ({where})"
    )


def make_image(
    directory: int, staged: str, size: int, name: str = IMAGE_FILE, owner: tuple[int, int] | None = None
) -> None:
    """Make a sparse image, which appears under its name when it is whole and on disk, or not at all.

    `staged` is its name until then, and no other process's. An image that has appeared meanwhile stays. `owner` are the
    user and the group that it is given to; without them it is the caller's.

    Raises:
        OSError: as the file system has it.
    """
    _remove(directory, staged)
    try:
        with hold_open_beneath(directory, staged, _NEW, mode=_MODE) as image:
            os.ftruncate(image, size)
            os.fchmod(image, _MODE)
            if owner is not None:
                os.fchown(image, *owner)
            os.fsync(image)
        with contextlib.suppress(FileExistsError):
            name_new(directory, staged, name)
    finally:
        _remove(directory, staged)
    with hold_open_beneath(directory, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        os.fsync(opened)


def _remove(directory: int, name: str) -> None:
    # Gone, or on a file system that is read-only: the next attempt tries again, and the step that matters refuses it.
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=directory)
