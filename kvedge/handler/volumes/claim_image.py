"""`disk.img` of a claim that is hotplugged: made when it is absent, as at a start.

Called by `volume_hand_over` in a thread that is in the attachment Pod's mount namespace. The thread acts as the guest's
user: what that user may not do in the claim is not done, and a link leads nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Final

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.quantities import QuantityError, parse_bytes
from kvedge.resources.types.vmi import ClaimInfo
from kvedge.resources.volume_facts import IMAGE_FILE
from kvedge.runtime.linux.privileges import act_as
from kvedge.storage.beneath import beneath, open_beneath

MEBIBYTE: Final = 1 << 20
# The group may write it: an import or an upload, which comes with the group of the claim.
_MODE: Final = 0o660
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# As at a start: what a file system keeps, and how much smaller than the claim an image may become.
RESERVE_BYTES: Final = 131072
TOLERATED_PERCENT: Final = 10


class ImageRefused(Exception):
    """The claim holds no image that a guest can have; the text is for the user."""


@contextlib.contextmanager
def claim_image(claim: int) -> Iterator[int]:
    """A descriptor (O_PATH) of the image in a claim's directory.

    Raises:
        ImageRefused: when it is no regular file, or empty.
        FileNotFoundError: when there is none.
    """
    try:
        opened = open_beneath(claim, IMAGE_FILE, os.O_PATH | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ImageRefused(f"{IMAGE_FILE} cannot be reached: {error.strerror}; put the image itself there") from error
    try:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode):
            raise ImageRefused(f"found {IMAGE_FILE}, but it's no regular file; remove it from the claim")
        if facts.st_size == 0:
            raise ImageRefused(f"{IMAGE_FILE} is empty; remove it from the claim, and it is made anew")
        yield opened
    finally:
        os.close(opened)


def make_image(claim: int, info: ClaimInfo) -> None:
    """Make a sparse image unless there is one. The calling thread is the guest's user from then on.

    Raises:
        ImageRefused: when there is no room, or the guest's user may not.
    """
    size = image_size(info, _free_bytes(claim))
    act_as(LAUNCHER_UID, LAUNCHER_GID)
    staged = f".{IMAGE_FILE}.hotplug"
    try:
        # Whatever lies there, a fifo for instance, is removed and never opened.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=claim)
        with beneath(claim, staged, _NEW, mode=_MODE) as made:
            os.ftruncate(made, size)
            os.fchmod(made, _MODE)
            os.fsync(made)
        with contextlib.suppress(FileExistsError):
            # Unlike a rename it replaces nothing: an import may have brought an image meanwhile.
            os.link(staged, IMAGE_FILE, src_dir_fd=claim, dst_dir_fd=claim, follow_symlinks=False)
        os.unlink(staged, dir_fd=claim)
        with beneath(claim, ".", os.O_RDONLY | os.O_DIRECTORY) as directory:
            os.fsync(directory)
    except OSError as error:
        raise ImageRefused(_words(claim, error)) from error


def _words(claim: int, error: OSError) -> str:
    text = f"{IMAGE_FILE} cannot be made by user {LAUNCHER_UID}: {error.strerror}"
    if error.errno not in (errno.EACCES, errno.EPERM):
        return text
    facts = os.fstat(claim)
    return (
        f"{text}; the claim belongs to {facts.st_uid}:{facts.st_gid} with mode {stat.S_IMODE(facts.st_mode):04o}:"
        f" have it belong to group {LAUNCHER_GID} with mode 0770"
    )


def image_size(info: ClaimInfo, free: int) -> int:
    """The size of an image where `free` bytes are left: the smaller of request and capacity, or up to a tenth less.

    Raises:
        ImageRefused: when that is unknown, or too much.
    """
    try:
        known = [parse_bytes(amount["storage"]) for amount in (info.capacity, info.requests) if "storage" in amount]
    except QuantityError as error:
        raise ImageRefused(f"the size of claim {info.claim_name}: {error}") from error
    size = min(known, default=0) // MEBIBYTE * MEBIBYTE
    if size < MEBIBYTE:
        raise ImageRefused(f"claim {info.claim_name} has no size that an image could have, must be at least 1MiB")
    if size <= free:
        return size
    if size * (100 - TOLERATED_PERCENT) // 100 > free:
        raise ImageRefused(
            f"unable to create {IMAGE_FILE}, not enough space, demanded size {size} B is bigger than available space"
            f" {free} B, also after taking {TOLERATED_PERCENT} % toleration into account"
        )
    return free // MEBIBYTE * MEBIBYTE


def _free_bytes(claim: int) -> int:
    space = os.fstatvfs(claim)
    return max(0, space.f_bavail * space.f_bsize - RESERVE_BYTES)
