"""The disk that lies in a claim's file system before a worker fills it: the claim's own, or somebody else's.

Called by whatever fills a claim. Volumes outlive claims, and users copy disks by hand: a disk without the mark of this
claim is neither taken for the new one nor written over. Touches the claim alone, and follows no link in it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

from kvedge.resources.data_volume_names import PRE_POPULATED, UPLOAD_TARGET
from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.storage.imports.import_errors import ImportFailure

# On a complete disk: the UID of the claim that it was made for.
_MARK: Final = "user.kvedge.claim"
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def find_present_disk(folder: int, uid: str, *, upload: bool) -> int:
    """The size of a disk that a worker of this claim has completed already, or 0 when there is none.

    Raises:
        ImportFailure: when somebody else's lies there, such as on a volume that was kept and is used again.
    """
    try:
        facts = os.stat(IMAGE_FILE, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(facts.st_mode):
        raise ImportFailure(f"{IMAGE_FILE} in the claim is no file: remove it, or use another claim")
    if facts.st_size and not _is_own(folder, uid):
        if upload:
            # For good, as the user waits at a terminal.
            raise ImportFailure(
                "the claim holds a disk already, and no upload is written over one: use another claim; one without"
                f" a DataVolume is taken as it is once the annotation {UPLOAD_TARGET} is off it",
                fatal=True,
            )
        raise ImportFailure(
            f"the volume of this claim holds an older {IMAGE_FILE}, which is neither taken for the new one nor"
            " written over: remove it, use another volume, or take it as it is with the annotation"
            f" {PRE_POPULATED}, the claim's name as its value, on the DataVolume"
        )
    return facts.st_size


def mark_disk(disk: int, uid: str) -> None:
    """Mark an open disk as that of a claim, as far as its file system takes marks.

    Without one, a worker whose last word got lost refuses its own disk; nothing else needs it.
    """
    with suppress(OSError):
        os.setxattr(disk, _MARK, uid.encode())


def mark_disk_in(folder: int, uid: str) -> None:
    """Mark the disk in a folder, where there is one."""
    try:
        opened = os.open(IMAGE_FILE, _FLAGS, dir_fd=folder)
    except OSError:
        return
    try:
        mark_disk(opened, uid)
    finally:
        os.close(opened)


def _is_own(folder: int, uid: str) -> bool:
    """Whether the disk carries this claim's mark; a file that cannot be read, or has none, is somebody else's."""
    try:
        opened = os.open(IMAGE_FILE, _FLAGS, dir_fd=folder)
    except OSError:
        return False
    try:
        return os.getxattr(opened, _MARK) == uid.encode()
    except OSError:
        return False
    finally:
        os.close(opened)
