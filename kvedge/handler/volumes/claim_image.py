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

from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.vmi import ClaimInfo
from kvedge.resources.values.quantities import QuantityError, parse_bytes
from kvedge.runtime.linux.privileges import act_as
from kvedge.storage import blank_image
from kvedge.storage.arriving_mark import read_arriving
from kvedge.storage.beneath import open_beneath
from kvedge.storage.blank_image import MEBIBYTE, count_free_bytes, fitting_bytes, no_room

_STAGED: Final = f".{IMAGE_FILE}.hotplug"


class ImageRefused(Exception):
    """The claim holds no image that a guest can have; the text is for the user."""


@contextlib.contextmanager
def hold_claim_image(claim: int, copy: str = "") -> Iterator[int]:
    """A descriptor (O_PATH) of the image in a claim's directory; an unfinished copy is one for who makes it: `copy`.

    Raises:
        ImageRefused: when it is no regular file, or empty, or the unfinished copy of a disk.
        FileNotFoundError: when there is none.
    """
    try:
        if (found := read_arriving(claim)) and found != copy.split():
            text = f"{IMAGE_FILE} is the unfinished copy of a disk of the VMI {found[0]}, which is not complete"
            raise ImageRefused(f"{text}; empty the claim, or use another one")
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
    size = image_size(info, count_free_bytes(claim))
    act_as(LAUNCHER_UID, LAUNCHER_GID)
    try:
        blank_image.make_image(claim, _STAGED, size)
    except OSError as error:
        raise ImageRefused(_explain(claim, error)) from error


def _explain(claim: int, error: OSError) -> str:
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
    fitting = fitting_bytes(size, free)
    if fitting is None:
        raise ImageRefused(no_room(IMAGE_FILE, size, free))
    return fitting
