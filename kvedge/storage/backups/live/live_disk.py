"""A disk that its guest reads and writes while it comes back from its backup.

Why the guest's disk is this worker's, and not an overlay of QEMU's that is flattened later: with an overlay and a copy
there are two places that hold parts of the truth, a moment at which one takes over from the other, and a copy that
begins anew after each crash of QEMU. Here all is in one file, of which each block is either *absent*, and read from the
backup, or *there*, and the backup is not asked for it again. The cost is that the guest's requests go through this
process until it is started again.

One rule keeps all of the guest's writes, whatever is killed and whenever the power fails: **no byte of the guest goes
into a block before the block's bit is on stable storage, and no bit goes there before the block itself has.** So a
block without a bit holds nothing but what the backup has, and may be read from there again; one with a bit is the only
truth. The file gets the name `disk.img` by one rename once no bit is missing; until then no launcher, export or copy
finds a disk in the claim.

Called by the NBD server and by the thread that copies. Touches the claim's directory alone, and follows no link in it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from kvedge.resources.disks.claim_places import IMAGE_FILE, LIVE_IMAGE
from kvedge.runtime.linux.files import rename_new
from kvedge.storage.arriving_mark import mark_returning, unmark_returning
from kvedge.storage.backups.live.block_map import BLOCK, BlockMap, LiveFacts, make_map, remove_map
from kvedge.storage.imports.sinks.import_target import data_runs
from kvedge.storage.imports.sinks.present_disk import find_present_disk, mark_disk
from kvedge.storage.sparse_file import write_all

_MODE: Final = 0o660
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Blocks that the guest has read and that are not there yet.
_REMEMBERED: Final = 16
# struct flock: type, whence, start, length, process.
_FLOCK: Final = struct.Struct("hhqqi4x")
# QEMU's locks of an image that is written: see launcher/disks/image_locks.py, which asks for them.
_USED_RIGHTS: Final = (100, 101)
_KEPT_OFF: Final = 201
# It says that the guest was told of a write that may be missing.
_LOST: Final = f"{LIVE_IMAGE}.lost"


class DiskInUse(Exception):
    """Another process has the image."""


class UsedItself(Exception):
    """The disk is complete, and a guest has its image."""


class Source(Protocol):
    """The disk in its backup."""

    def read(self, position: int, size: int) -> bytes:
        """All of these bytes. Raises BackupFailure."""


class LiveDisk:
    """One disk; `read`, `write` and `flush` are for one thread, `copy_some` for another."""

    def __init__(self, folder: int, facts: LiveFacts, source: Source) -> None:
        """Open or begin it in an open directory, which stays the caller's.

        Raises:
            DiskInUse: while another process has it.
            UsedItself: when it is complete, and needs nobody any more.
            MapUnusable: when what lies there is another disk's.
            ImportFailure: when somebody else's disk lies there.
            OSError: as the file system has it.
        """
        self.size = facts.size
        self._folder, self._facts, self._source = folder, facts, source
        self._map: BlockMap | None = None
        self._asking = threading.Lock()
        self._seen: OrderedDict[int, bytes] = OrderedDict()
        self._waiting = 0
        self._broken = False
        self._next = 0
        self._shares = False
        # Whether the image has its name, which may not be on stable storage yet.
        self._named = False
        # Before anything is read: another worker may still write the image and its map.
        self._lock_folder()
        self._file = self._open()
        try:
            self._take_locks()
            if not self.is_complete and os.fstat(self._file).st_size != self.size:
                raise OSError(errno.EIO, "the image is shorter or longer than the disk")
        except BaseException:
            self.close()
            raise

    @property
    def is_complete(self) -> bool:
        """Whether it has its name, and the backup is not needed any more."""
        return self._map is None

    @property
    def present(self) -> int:
        """How many bytes are there."""
        return self.size if self._map is None else min(self.size, self._map.present * BLOCK)

    def close(self) -> None:
        """Let go of the image, and of its locks."""
        os.close(self._file)
        if self._map is not None:
            self._map.close()
        with suppress(OSError):
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def share(self) -> bool:
        """Let a QEMU open the complete image itself; False once one has."""
        if not self._shares:
            self._lock(fcntl.F_UNLCK)
            self._shares = True
        return not self._is_opened()

    def take_back(self) -> bool:
        """Keep each QEMU off the image again, for a guest that comes through us; False when one has it."""
        if self._shares:
            # First ours, then a look: of two who do so at once at most one goes on.
            self._lock(fcntl.F_RDLCK)
            if self._is_opened():
                self._lock(fcntl.F_UNLCK)
                return False
            self._shares = False
        return True

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes of the disk. Raises BackupFailure, OSError."""
        pieces = []
        while size:
            block, start = divmod(position, BLOCK)
            length = min(size, BLOCK - start)
            pieces.append(self._read_block(block, start, length))
            position += length
            size -= length
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write_at(self, position: int, data: memoryview) -> None:
        """Write into blocks that are there then. Raises BackupFailure, OSError."""
        blocks = range(position // BLOCK, (position + len(data) - 1) // BLOCK + 1)
        if not all(self._has(block) for block in blocks):
            with self._hurry():
                self._bring([*blocks, *self._seen])
        while data:
            written = os.pwrite(self._file, data, position)
            position += written
            data = data[written:]

    def flush(self) -> None:
        """Have all that was written on stable storage. Raises OSError, and for good once that has failed."""
        if self._broken:
            raise OSError(errno.EIO, "an earlier write did not reach the disk")
        try:
            os.fdatasync(self._file)
        except OSError:
            # The kernel tells this once, and then takes the pages for clean.
            self._broken = True
            self._note_loss()
            raise

    def copy_some(self, blocks: int) -> bool:
        """Bring the next blocks that are absent; False when none is, and the disk then has its name.

        Raises:
            BackupFailure: when the backup cannot be read.
            OSError: when they cannot be written.
        """
        with self._asking:
            if self._map is None:
                return False
            wanted: list[int] = []
            while self._next < self._map.count and len(wanted) < blocks:
                if not self._map.has(self._next):
                    wanted.append(self._next)
                self._next += 1
            try:
                self._bring(wanted)
            except BaseException:
                self._next = wanted[0] if wanted else 0
                raise
            if self._map.present == self._map.count:
                self._complete()
                return False
            return True

    @property
    def is_awaited(self) -> bool:
        """Whether the guest waits for a block: who copies lets it go first."""
        return self._waiting > 0

    def _has(self, block: int) -> bool:
        held = self._map
        return held is None or held.has(block)

    def _read_block(self, block: int, start: int, length: int) -> bytes:
        if not self._has(block):
            with self._hurry():
                if not self._has(block):
                    return self._fetch(block)[start : start + length]
        found = os.pread(self._file, length, block * BLOCK + start)
        if len(found) != length:
            raise OSError(errno.EIO, "the image is shorter than the disk")
        return found

    def _fetch(self, block: int) -> bytes:
        """A block from the backup; the last ones that the guest has asked for are kept in memory."""
        found = self._seen.pop(block, None)
        if found is None:
            found = self._source.read(block * BLOCK, min(BLOCK, self.size - block * BLOCK))
        self._seen[block] = found
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return found

    def _bring(self, blocks: Iterable[int]) -> None:
        """Have these blocks there: first they themselves on stable storage, then their bits."""
        if self._map is None:
            # Completed while the guest waited for it.
            return
        new = sorted({block for block in blocks if not self._map.has(block)})
        for block in new:
            data = self._seen.get(block)
            if data is None:
                data = self._source.read(block * BLOCK, min(BLOCK, self.size - block * BLOCK))
            for start, end in data_runs(data):
                write_all(self._file, block * BLOCK + start, data[start:end])
        if new:
            self.flush()
            self._map.add(new)
        for block in new:
            self._seen.pop(block, None)

    def _hurry(self) -> _Hurry:
        return _Hurry(self)

    def _complete(self) -> None:
        """Give the image its name: the one moment at which it becomes a disk for everybody."""
        assert self._map is not None
        self.flush()
        if not self._named:
            os.fchmod(self._file, _MODE)
            mark_disk(self._folder, self._file, self._facts.uid, needed=True)
            os.fsync(self._file)
            # Nobody else's disk is written over, whoever has put one there meanwhile.
            rename_new(self._folder, LIVE_IMAGE, IMAGE_FILE)
            self._named = True
        # Where this fails the next try goes on from here; until then the worker counts it as not complete.
        os.fsync(self._folder)
        unmark_returning(self._folder)
        done, self._map = self._map, None
        self._seen.clear()
        done.close()
        remove_map(self._folder)

    def _lock_folder(self) -> None:
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DiskInUse("another worker serves it") from error
        except OSError as error:
            # Some network file systems lock no directories: there the image's lock has to do.
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS):
                raise

    def _note_loss(self) -> None:
        """Have the next worker know it, too: what a guest was told is written may be missing."""
        with suppress(OSError):
            made = os.open(_LOST, _FLAGS | os.O_CREAT, _MODE, dir_fd=self._folder)
            try:
                os.fsync(made)
            finally:
                os.close(made)
            os.fsync(self._folder)

    def _check_loss(self) -> None:
        try:
            os.stat(_LOST, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        raise DiskInUse(
            "what its guest had written did not reach the storage, which has failed or was full: delete the VM, and"
            " restore it once more"
        )

    def _open(self) -> int:
        self._check_loss()
        if not _is_there(self._folder, LIVE_IMAGE) and find_present_disk(self._folder, self._facts.uid, upload=False):
            file = _open_regular(self._folder, IMAGE_FILE)
            # Killed between the name and this.
            os.fsync(self._folder)
            remove_map(self._folder)
            unmark_returning(self._folder)
            return file
        mark_returning(self._folder)
        try:
            file = _open_regular(self._folder, LIVE_IMAGE)
        except FileNotFoundError:
            # The map comes first: no image is ever without one.
            make_map(self._folder, self._facts)
            self._make_image()
            file = _open_regular(self._folder, LIVE_IMAGE)
        try:
            self._map = BlockMap(self._folder, self._facts)
        except BaseException:
            os.close(file)
            raise
        return file

    def _make_image(self) -> None:
        """An empty image, which has its name when its length is on disk."""
        new = f"{LIVE_IMAGE}.new"
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=self._folder)
        made = os.open(new, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE, dir_fd=self._folder)
        try:
            os.ftruncate(made, self.size)
            os.fsync(made)
        finally:
            os.close(made)
        os.rename(new, LIVE_IMAGE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def _take_locks(self) -> None:
        """Keep other workers off, and each QEMU that would open the image."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DiskInUse("another worker serves it") from error
        if self._is_opened():
            if self.is_complete:
                raise UsedItself
            raise DiskInUse("another process has its image")
        self._lock(fcntl.F_RDLCK)

    def _is_opened(self) -> bool:
        """Whether another process has the image, or is to be kept off it."""
        return any(_is_taken(self._file, place) for place in (_USED_RIGHTS[1], _KEPT_OFF))

    def _lock(self, how: int) -> None:
        for place in (*_USED_RIGHTS, _KEPT_OFF):
            # A file system without such locks has none of QEMU's either.
            with suppress(OSError):
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(how, os.SEEK_SET, place, 1, 0))


class _Hurry:
    """Holds a disk's lock for its guest, before whom the thread that copies steps back."""

    def __init__(self, disk: LiveDisk) -> None:
        self._disk = disk

    def __enter__(self) -> None:
        self._disk._waiting += 1
        self._disk._asking.acquire()

    def __exit__(self, *_: object) -> None:
        self._disk._waiting -= 1
        self._disk._asking.release()


def is_there(folder: int) -> bool:
    """Whether a directory has a complete disk, whose ever it is."""
    return _is_there(folder, IMAGE_FILE)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _open_regular(folder: int, name: str) -> int:
    opened = os.open(name, _FLAGS, dir_fd=folder)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise OSError(errno.EINVAL, "not a regular file", name)


def _is_taken(image: int, place: int) -> bool:
    try:
        answer = fcntl.fcntl(image, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except OSError:
        return False
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
