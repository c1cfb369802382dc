"""The word beside an image in a claim that it is the unfinished copy of a disk, and no disk.

Written by the launcher that awaits the disk's guest, or copies the disk of its own, by the handler that makes the place
of a copy, and by the worker of a disk's return; read by whoever would use the image. What a claim holds comes from
others: no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE, LIVE_IMAGE
from kvedge.runtime.linux.files import name_new
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


def write_arriving(directory: int, text: str, mode: int, *, replace: bool = True) -> None:
    """Write the word so that it lasts, as a whole or not at all: one that is cut short would be nobody's, and stay.

    Raises:
        FileExistsError: without `replace`, when a word is there.
        OSError: when it cannot be made to last.
    """
    _drop_stage(directory)
    with hold_open_beneath(directory, _NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=mode) as made:
        # By the file itself: the umask has cut it.
        os.fchmod(made, mode)
        os.write(made, text.encode())
        os.fsync(made)
    if replace:
        os.rename(_NEW, ARRIVING, src_dir_fd=directory, dst_dir_fd=directory)
    else:
        name_new(directory, _NEW, ARRIVING)
        _drop_stage(directory)
    with hold_open_beneath(directory, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        os.fsync(opened)


def _drop_stage(directory: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_NEW, dir_fd=directory)


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
    # Launchers read it as another user.
    write_arriving(directory, RETURNING, 0o644)


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
