"""A disk on a claim whose bytes come with a guest from another node, or from another claim here: its place, which is
worthless until it is whole.

Called by `claim_disk` for the place, as the guest's user, by `incoming_guest` when the guest goes on here or is not
wanted, and by `disk_move` for copies on this node. A file
beside the image says that it is an unfinished copy: whoever would use the image refuses it. A device has no room for
such a word; what came to it is made unreadable when the guest is not wanted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kvedge.launcher.disks.image_locks import is_locked
from kvedge.launcher.launcher_errors import ClaimUnusable, DiskFull
from kvedge.resources.disks.claim_places import IMAGE_FILE, claim_directory, device_path
from kvedge.storage.arriving_mark import ARRIVING, RETURNING, SETTLED, read_arriving, write_arriving
from kvedge.storage.beneath import hold_directory, hold_open_beneath, open_beneath

if TYPE_CHECKING:
    from kvedge.launcher.disks.disk_plan import ClaimPlan

log = logging.getLogger(__name__)

_MODE: Final = 0o660
# Tables of partitions, and nearly every file system, begin in these bytes of a device; one begins later.
_HEAD: Final = 4096
_LATE_SIGNATURE: Final = (0x10040, b"_BHRfS_M")
_WIPED: Final = 1 << 20
_REMEDY: Final = "put the volume back on the claim that it had, and choose another one or empty this one"


class CopyPlace(NamedTuple):
    """The place of a copy that is made while its guest runs here; the words are those of `ClaimPlan`."""

    volume: str
    claim: str
    path: str
    copied: int
    run: str
    incoming: str
    file: str = IMAGE_FILE

    @property
    def field(self) -> str:
        """What a user knows it by."""
        return f"volume {self.volume}"


def refuse_arriving(directory: int, plan: ClaimPlan | CopyPlace) -> None:
    """Refuse a claim whose image is an unfinished copy. Raises ClaimUnusable."""
    found = read_arriving(directory)
    if found == [RETURNING]:
        text = "its disk is still coming back from a backup"
        raise ClaimUnusable(plan.field, plan.claim, text, "wait until the restore is complete, and restart the VM")
    if found:
        text = f"{plan.file} is the unfinished copy of a disk of the VMI {found[0]}, which has not moved here"
        raise ClaimUnusable(plan.field, plan.claim, text, _REMEDY)


def make_arriving(directory: int, plan: ClaimPlan | CopyPlace, free: int) -> None:
    """Make a sparse image of the size that is to come, and say beside it that it is no disk yet.

    What is there may be used when it is empty, or came by an earlier attempt of the same VMI.

    Raises:
        ClaimUnusable: when it holds something else.
        DiskFull: when there is no room.
        OSError: as the file system has it.
    """
    found = read_arriving(directory)
    if found and found[0] != plan.run:
        refuse_arriving(directory, plan)
    try:
        image = open_beneath(directory, IMAGE_FILE, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        image = -1
    try:
        used = 0 if image < 0 else _check_image(image, plan, is_ours=bool(found))
        if plan.copied > free + used:
            raise DiskFull(plan.path, f"the disk that comes has {plan.copied} bytes, and {free} are free")
        write_arriving(directory, f"{plan.run} {plan.incoming}\n", _MODE)
        if image < 0:
            image = open_beneath(directory, IMAGE_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=_MODE)
            os.fchmod(image, _MODE)
        if found:
            # First to nothing, so that nothing is left of the attempt before. An empty one keeps what it has allocated.
            os.ftruncate(image, 0)
        os.ftruncate(image, plan.copied)
        os.fsync(image)
    finally:
        if image >= 0:
            os.close(image)
    _sync(directory)


def _check_image(image: int, plan: ClaimPlan | CopyPlace, *, is_ours: bool) -> int:
    """How many bytes it takes up. Raises ClaimUnusable for one that must not be written over."""
    found = os.fstat(image)
    if not stat.S_ISREG(found.st_mode):
        raise ClaimUnusable(plan.field, plan.claim, f"found {plan.file}, but it's no regular file", _REMEDY)
    if is_locked(image, writes=True):
        raise ClaimUnusable(plan.field, plan.claim, f"{plan.file} is open in another QEMU", _REMEDY)
    if not is_ours and not _is_empty(image, found):
        text = f"{plan.file} is there and holds data, which a disk that moves to this claim would destroy"
        raise ClaimUnusable(plan.field, plan.claim, text, _REMEDY)
    return found.st_blocks * 512


def _is_empty(image: int, found: os.stat_result) -> bool:
    if not found.st_blocks:
        return True
    try:
        os.lseek(image, 0, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    return False


def check_device(device: int, plan: ClaimPlan | CopyPlace) -> None:
    """Whether a disk may come to an open device: it is large enough, and nothing begins on it.

    Raises:
        ClaimUnusable: when it may not.
    """
    size = os.lseek(device, 0, os.SEEK_END)
    if size < plan.copied:
        text = f"the device of volume {plan.volume} has {size} bytes, and the disk that comes {plan.copied}"
        raise ClaimUnusable(plan.field, plan.claim, text, _REMEDY)
    at, signature = _LATE_SIGNATURE
    if any(os.pread(device, _HEAD, 0)) or os.pread(device, len(signature), at) == signature:
        text = f"the device of volume {plan.volume} holds data, which a disk that moves to this claim would destroy"
        remedy = f"choose another claim, or empty it (dd if=/dev/zero of=… bs=1M count={_WIPED >> 20})"
        raise ClaimUnusable(plan.field, plan.claim, text, remedy)


def settle_copy(path: str) -> None:
    """The copy in the directory at `path` is what its source is while nobody writes: it may be used. May be repeated.

    Its word keeps its place under another name, so that taking it back needs no room.

    Raises:
        OSError: when that cannot be made to last.
    """
    with hold_directory(path) as directory:
        with contextlib.suppress(FileNotFoundError):
            os.rename(ARRIVING, SETTLED, src_dir_fd=directory, dst_dir_fd=directory)
        _sync(directory)


def unsettle_copy(path: str) -> None:
    """The source is about to be written, and not the copy: nobody may use that one any more. May be repeated.

    Raises:
        OSError: when that cannot be made to last; then nothing may be written.
    """
    with hold_directory(path) as directory:
        with contextlib.suppress(FileNotFoundError):
            os.rename(SETTLED, ARRIVING, src_dir_fd=directory, dst_dir_fd=directory)
        if not read_arriving(directory):
            raise FileNotFoundError(errno.ENOENT, "the word is gone that the copy is none yet", path)
        _sync(directory)


def keep_copy(path: str) -> None:
    """The guest goes on with the copy: it is a disk like any other. May be repeated."""
    with contextlib.suppress(FileNotFoundError), hold_directory(path) as directory:
        os.unlink(SETTLED, dir_fd=directory)


def drop_copy(path: str, incoming: str) -> None:
    """The copy is not wanted, and no QEMU has it open: the claim is empty again.

    Raises:
        OSError: when it cannot be removed; a copy that is left keeps its word that it is no disk.
    """
    with hold_directory(path) as directory:
        if incoming in read_arriving(directory):
            os.unlink(IMAGE_FILE, dir_fd=directory)
            os.unlink(ARRIVING, dir_fd=directory)
            _sync(directory)


def accept_copies(root: str, volumes: Iterable[str]) -> None:
    """The guest is whole here, and nowhere else: its images are disks from now on. May be repeated.

    Raises:
        OSError: when one cannot be accepted.
    """
    for volume in volumes:
        with contextlib.suppress(FileNotFoundError), hold_directory(root + claim_directory(volume)) as directory:
            os.unlink(ARRIVING, dir_fd=directory)
            _sync(directory)


def drop_copies(root: str, volumes: Iterable[str], migration: str) -> None:
    """The guest is not wanted here, and no QEMU has its images open: nobody takes them for disks. May be repeated."""
    for volume in volumes:
        try:
            _drop(root, volume, migration)
        except OSError as error:
            # A file keeps its word that it is no disk.
            log.warning("an unfinished copy is left", extra={"facts": {"volume": volume, "why": str(error)}})


def _drop(root: str, volume: str, migration: str) -> None:
    with contextlib.suppress(FileNotFoundError), hold_directory(root + claim_directory(volume)) as directory:
        # One that went on here is no copy any more; another migration's is not ours.
        if migration in read_arriving(directory):
            os.unlink(IMAGE_FILE, dir_fd=directory)
            os.unlink(ARRIVING, dir_fd=directory)
            _sync(directory)
        return
    wipe_device(root + device_path(volume))


def wipe_device(path: str) -> None:
    """What came to a device is not wanted, and no QEMU has it open: nothing begins on it any more.

    Raises:
        OSError: when it cannot be written.
    """
    device = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if stat.S_ISBLK(os.fstat(device).st_mode):
            os.pwrite(device, bytes(_WIPED), 0)
            os.fsync(device)
    finally:
        os.close(device)


def _sync(directory: int) -> None:
    with hold_open_beneath(directory, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        os.fsync(opened)
