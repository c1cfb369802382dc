"""The place of a disk's copy in a claim: a new image, and a word beside it that it is no disk until it is whole.

Called by `volume_hand_over` and `hotplug_volumes`. Acts as the guest's user, in a thread of its own, on the directory
of a claim: what that user may not do there is not done, and a link leads nowhere. Whoever would use the image as a disk
refuses it while the word is there.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.own_thread import in_own_thread
from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.resources.disks.hotplug_places import CLAIM_PLACE
from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.linux.privileges import act_as
from kvedge.storage.arriving_mark import ARRIVING, read_arriving, write_arriving
from kvedge.storage.beneath import AS_ROOT, hold_open_beneath, open_beneath

_MODE: Final = 0o660
# What the launcher makes of it is as large as the disk.
_FIRST_BYTES: Final = 1 << 20


def make_copy_place(claim: int, words: str) -> None:
    """Make the word and then the image, unless they are there. The calling thread is the guest's user from then on.

    Raises:
        ImageRefused: when the claim holds something else.
        OSError: as the file system has it.
    """
    act_as(LAUNCHER_UID, LAUNCHER_GID)
    found = read_arriving(claim)
    if found and found != words.split():
        raise ImageRefused(f"the claim holds another unfinished copy, of VMI {found[0]}")
    if not found:
        if _is_there(claim):
            raise ImageRefused(f"found {IMAGE_FILE}, which a copy would destroy")
        write_arriving(claim, f"{words}\n", _MODE, replace=False)
    if not _is_there(claim):
        image = open_beneath(claim, IMAGE_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=_MODE)
        try:
            # By the file itself: the umask has cut it.
            os.fchmod(image, _MODE)
            os.ftruncate(image, _FIRST_BYTES)
        finally:
            os.close(image)
        _sync(claim)


def accept_copy(source: HeldProcess, words: str) -> None:
    """The copy in the claim of this attachment Pod is whole: it is a disk from now on. May be repeated.

    Raises:
        ImageRefused: when the claim holds another unfinished copy, or none.
        OSError: as the file system has it.
    """
    with (
        source.root() as root,
        hold_open_beneath(root, CLAIM_PLACE.lstrip("/"), os.O_PATH | os.O_DIRECTORY, resolve=AS_ROOT) as claim,
    ):
        in_own_thread(partial(_accept, claim, words))


def _accept(claim: int, words: str) -> None:
    act_as(LAUNCHER_UID, LAUNCHER_GID)
    found = read_arriving(claim)
    if found and found != words.split():
        raise ImageRefused(f"the claim holds another unfinished copy, of VMI {found[0]}")
    if not _is_there(claim):
        raise ImageRefused(f"{IMAGE_FILE} is gone")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ARRIVING, dir_fd=claim)
    _sync(claim)


def _is_there(claim: int) -> bool:
    try:
        os.stat(IMAGE_FILE, dir_fd=claim, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _sync(claim: int) -> None:
    with hold_open_beneath(claim, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        os.fsync(opened)
