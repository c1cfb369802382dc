"""The word beside an image in a claim that it is the unfinished copy of a disk, and no disk.

Written by the launcher that awaits the disk's guest, or copies the disk of its own; read by whoever would use the
image. What a claim holds comes from others: no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE, LIVE_IMAGE
from kvedge.storage.beneath import hold_open_beneath

# It holds the UIDs of the VMI whose guest comes, and of the migration by which it does.
ARRIVING: Final = f".{IMAGE_FILE}.arriving"
# The same word of a copy that is complete, until its guest goes on with it; nobody refuses an image for it.
SETTLED: Final = f".{IMAGE_FILE}.arrived"
_NEW: Final = f"{ARRIVING}.new"
_LONGEST: Final = 256
# Instead of the UIDs: of a disk that comes back from a backup. It has the word for versions of kvedge that know no such
# disks: they refuse the claim, where they would make an empty image in it and start a guest with that.
RETURNING: Final = "restore-from-a-backup"


def read_arriving(directory: int) -> list[str]:
    """The UIDs of the VMI and of the migration; empty when there is no such word.

    A disk that still comes back from a backup, which its guest may use by the worker's socket alone, is unfinished too.

    Raises:
        OSError: when it cannot be read.
    """
    return _read_mark(directory) or ([RETURNING] if _is_returning(directory) else [])


def _read_mark(directory: int) -> list[str]:
    """What the word itself says. Raises OSError."""
    try:
        with hold_open_beneath(directory, ARRIVING, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as mark:
            return os.read(mark, _LONGEST).decode(errors="replace").split() or ["?"]
    except FileNotFoundError:
        return []


def mark_returning(directory: int) -> None:
    """Say that a disk comes back here, before it does; the word of an earlier disk gives way, as that is not there.

    Raises:
        OSError: when that cannot be made to last, or somebody else's unfinished disk is there; then nothing may come.
    """
    found = _read_mark(directory)
    if found == [RETURNING]:
        return
    if found and (_has(directory, IMAGE_FILE) or _has(directory, LIVE_IMAGE)):
        # A guest may be about to come with it.
        raise FileExistsError(
            errno.EEXIST,
            f"the volume holds another unfinished disk ({' '.join(found)}): remove {IMAGE_FILE}, {LIVE_IMAGE} and"
            f" {ARRIVING}, or use another volume",
        )
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_NEW, dir_fd=directory)
    made = os.open(_NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        # Launchers read it as another user.
        os.fchmod(made, 0o644)
        os.write(made, RETURNING.encode())
        os.fsync(made)
    finally:
        os.close(made)
    # A word that is cut short would be nobody's, and stay.
    os.rename(_NEW, ARRIVING, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def unmark_returning(directory: int) -> None:
    """It is a disk like any other, or was never begun. May be repeated. Raises OSError."""
    if _read_mark(directory) != [RETURNING]:
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ARRIVING, dir_fd=directory)
    os.fsync(directory)


def _is_returning(directory: int) -> bool:
    return _has(directory, LIVE_IMAGE)


def _has(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
