"""The disk that lies in a claim's file system before a worker fills it: the claim's own, or somebody else's.

Called by whatever fills a claim. Volumes outlive claims, and users copy disks by hand: a disk without the mark of this
claim is neither taken for the new one nor written over. Touches the claim alone, and follows no link in it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from kvedge.resources.data_volume_names import PRE_POPULATED, UPLOAD_TARGET
from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.storage.imports.import_errors import ImportFailure

# On a complete disk: the UID of the claim that it was made for.
_MARK: Final = "user.kvedge.claim"
# The same, as a file, where file systems keep no attributes of users: NFS before 4.2, FAT.
_BESIDE: Final = f".{IMAGE_FILE}.claim"
_LONGEST_MARK: Final = 200
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
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


def mark_disk(folder: int, disk: int, uid: str, *, needed: bool = False) -> None:
    """Mark an open disk of a folder as that of a claim: on the disk, or beside it where files take no attributes.

    Without a mark, a worker whose last word got lost refuses its own disk; nothing else needs it. A disk that fills its
    place exactly goes without one, unless it is `needed`.

    Raises:
        OSError: when it is needed, and there is no room for it: once there is some, the worker is done at its next try.
    """
    try:
        os.setxattr(disk, _MARK, uid.encode())
    except OSError as error:
        if needed and error.errno in _NO_ROOM:
            raise
        try:
            _mark_beside(folder, disk, uid)
        except OSError as beside:
            if needed and beside.errno in _NO_ROOM:
                raise
    else:
        # Of another disk, on a volume that is used again.
        with suppress(OSError):
            os.unlink(_BESIDE, dir_fd=folder)


def mark_disk_in(folder: int, uid: str) -> None:
    """Mark the disk in a folder, where there is one."""
    try:
        opened = os.open(IMAGE_FILE, _FLAGS, dir_fd=folder)
    except OSError:
        return
    try:
        mark_disk(folder, opened, uid)
    finally:
        os.close(opened)


def _mark_beside(folder: int, disk: int, uid: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_BESIDE, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(_BESIDE, flags, 0o600, dir_fd=folder)
    try:
        os.write(opened, _line(disk, uid))
        os.fsync(opened)
    finally:
        os.close(opened)


def _line(disk: int, uid: str) -> bytes:
    """The claim and the very file: another one that is put in its place is not marked."""
    return f"{uid} {os.fstat(disk).st_ino}\n".encode()


def _is_own(folder: int, uid: str) -> bool:
    """Whether the disk carries this claim's mark; a file that cannot be read, or has none, is somebody else's."""
    try:
        opened = os.open(IMAGE_FILE, _FLAGS, dir_fd=folder)
    except OSError:
        return False
    try:
        return os.getxattr(opened, _MARK) == uid.encode()
    except OSError as error:
        return error.errno == errno.ENOTSUP and _is_marked_beside(folder, opened, uid)
    finally:
        os.close(opened)


def _is_marked_beside(folder: int, disk: int, uid: str) -> bool:
    try:
        opened = os.open(_BESIDE, _FLAGS, dir_fd=folder)
    except OSError:
        return False
    try:
        return os.read(opened, _LONGEST_MARK) == _line(disk, uid)
    except OSError:
        return False
    finally:
        os.close(opened)
