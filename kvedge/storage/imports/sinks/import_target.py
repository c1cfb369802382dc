"""Where an image is put: `disk.img` in a claim's file system, or a claim of mode Block.

Called by whatever fills a claim. A file gets its name when it is complete and on disk; until then it has another one,
which the next attempt removes, or goes on with where it can tell how much of it is on disk. A device has no such name:
it is written in place, and again from the beginning after a kill. The claim may hold anything already: no link in it is
followed. Touches the claim alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.resources.types.import_job import ImportJob
from kvedge.runtime.linux.allocation import allocate, allocate_zeros, begin_writeback, device_size, zero_range
from kvedge.storage.imports.import_errors import ImportFailure, TooSmall
from kvedge.storage.imports.sinks.present_disk import find_present_disk, mark_disk
from kvedge.storage.sparse_file import write_all

# The names of what is not complete: of an image, of what an image is converted from, and of an archive's files.
UNFINISHED: Final = f".{IMAGE_FILE}.part"
# How much of it is on disk, where a worker may go on with it.
_PLACE: Final = f"{UNFINISHED}.place"
_NEW_PLACE: Final = f"{_PLACE}.new"
_LONGEST_PLACE: Final = 4096
SPOOLED: Final = ".kvedge-import.part"
# User and group of the VM's QEMU may write it, nobody else reads it.
_MODE: Final = 0o660
_SECTOR: Final = 512
# The piece that is compared with zeros; a multiple of every file system's block.
_BLOCK: Final = 64 << 10
_ZEROS: Final = bytes(_BLOCK)
# The most that may lie in memory before the disk begins to write it.
_WRITEBACK: Final = 32 << 20
_ZERO_STEP: Final = 1 << 30


class ImportTarget(Protocol):
    """A disk that is being written; positions and sizes are bytes.

    `limit` is the largest disk that fits. What was neither written nor zeroed is undefined on a device.
    """

    limit: int

    def begin(self, zeroed: int = 0) -> None:
        """Write from now on; the first `zeroed` bytes read as zeros where nothing is written."""

    def write(self, position: int, data: bytes) -> None:
        """Put data there; runs of zeros take no space where that is possible."""

    def descriptor(self) -> int:
        """What is written to, for the kernel's own copying."""

    def finish(self, virtual_size: int) -> int:
        """Have it on disk and give it its name; returns the size of the guest's disk."""

    def discard(self) -> None:
        """Leave nothing behind of what is not finished."""

    def close(self) -> None:
        """Let go of the claim."""


def check_fits(target: ImportTarget, virtual_size: int) -> None:
    """Whether a disk of this size fits.

    Raises:
        TooSmall: when it does not.
    """
    if virtual_size > target.limit:
        raise TooSmall(virtual_size, target.limit)


class FileTarget:
    """`disk.img` in the file system of a claim."""

    def __init__(self, directory: Path, size: int, *, preallocate: bool = False, uid: str = "") -> None:
        """`uid` is the claim's."""
        self.directory = directory
        self.uid = uid
        self._folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock()
        self.limit = _count_usable(self._folder, size)
        self._grows = bool(size)
        self._preallocate = preallocate
        self._file = -1
        self._writeback = _Writeback()

    def present(self, *, upload: bool = False) -> int:
        """The size of a disk that a worker of this claim has completed already, or 0 when there is none.

        Raises:
            ImportFailure: when somebody else's lies there, such as on a volume that was kept and is used again.
        """
        return find_present_disk(self._folder, self.uid, upload=upload)

    def begin(self, zeroed: int = 0) -> None:
        """A new file; all of it reads as zeros."""
        self._remove(_PLACE)
        self._remove(UNFINISHED)
        if self._file >= 0:
            os.close(self._file)
        self._file = self._make_file(UNFINISHED)

    def go_on(self, content: str) -> int:
        """Take what an earlier worker has left of the same content; how much of it is on disk, 0 for none."""
        with suppress(OSError, ValueError, TypeError, LookupError):
            there = json.loads(self._read_place())
            position, wanted = int(there["position"]), (there["content"], there["file"])
            file = os.open(UNFINISHED, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
            found = os.fstat(file)
            is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            is_its = is_file and wanted == (content, found.st_ino)
            if is_its and 0 < position <= min(self.limit, found.st_size):
                # What came after it may be on disk or not.
                os.ftruncate(file, position)
                self._file = file
                return position
            os.close(file)
        return 0

    def keep_place(self, content: str, position: int) -> None:
        """Have all before `position` on disk, and write down that it is."""
        if os.fstat(self._file).st_size < position:
            # It ends in zeros. A file that is shorter later on has lost something.
            os.ftruncate(self._file, position)
        os.fdatasync(self._file)
        place = {"content": content, "file": os.fstat(self._file).st_ino, "position": position}
        self._remove(_NEW_PLACE)
        made = self._make_file(_NEW_PLACE)
        try:
            write_all(made, 0, json.dumps(place).encode())
            os.fsync(made)
        finally:
            os.close(made)
        os.rename(_NEW_PLACE, _PLACE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def write(self, position: int, data: bytes) -> None:
        """Put data there, leaving holes for zeros."""
        for start, end in data_runs(data):
            write_all(self._file, position + start, data[start:end])
            self._writeback.note_written(self._file, end - start)

    def descriptor(self) -> int:
        """The open file."""
        return self._file

    def finish(self, virtual_size: int) -> int:
        """Grow it to the claim's size, have it on disk, rename it."""
        size = max(self.limit if self._grows else 0, virtual_size + -virtual_size % _SECTOR)
        os.ftruncate(self._file, size)
        if self._preallocate:
            allocate(self._file, size)
        os.fchmod(self._file, _MODE)
        mark_disk(self._folder, self._file, self.uid)
        os.fsync(self._file)
        self._remove(SPOOLED)
        self._remove(_PLACE)
        os.rename(UNFINISHED, IMAGE_FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)
        return size

    def discard(self) -> None:
        """Remove what is not complete."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._remove(_PLACE)
        self._remove(UNFINISHED)
        self._remove(SPOOLED)

    def close(self) -> None:
        """Let another worker have the claim."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        os.close(self._folder)

    def spool(self) -> int:
        """A new file beside it, for what has to be read here and there; the caller closes it."""
        self._remove(SPOOLED)
        return self._make_file(SPOOLED)

    def drop_spool(self) -> None:
        """Remove that file."""
        self._remove(SPOOLED)

    def _make_file(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=self._folder)

    def _read_place(self) -> bytes:
        file = os.open(_PLACE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            return os.read(file, _LONGEST_PLACE)
        finally:
            os.close(file)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ImportFailure("another worker fills this claim; it is tried again once that one has ended") from error
        except OSError as error:
            # Some network file systems lock no directories: there the claim's access mode has to do.
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS):
                raise


class DeviceTarget:
    """A claim of mode Block, written in place."""

    def __init__(self, device: Path, size: int, *, preallocate: bool = False) -> None:
        """`preallocate` has all of it zeroed first, so that a thin device has its space; elsewhere that takes long."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        self._device = os.open(device, flags)
        there = device_size(self._device)
        self.limit = min(size, there) if size else there
        self._preallocate = preallocate
        self._zeroed = 0
        self._writeback = _Writeback()

    def begin(self, zeroed: int = 0) -> None:
        """Zero the first bytes."""
        self._zeroed = 0
        if self._preallocate:
            zeroed = self.limit
        for start in range(0, zeroed, _ZERO_STEP):
            self._write_zeros(start, min(_ZERO_STEP, zeroed - start))
        self._zeroed = zeroed

    def write(self, position: int, data: bytes) -> None:
        """Put data there; zeros are discarded or zeroed by the device."""
        before = 0
        for start, end in data_runs(data):
            self._leave_zero(position + before, start - before)
            write_all(self._device, position + start, data[start:end])
            self._writeback.note_written(self._device, end - start)
            before = end
        self._leave_zero(position + before, len(data) - before)

    def descriptor(self) -> int:
        """The open device."""
        return self._device

    def finish(self, virtual_size: int) -> int:
        """Have it on the device; the guest sees the whole device."""
        os.fsync(self._device)
        return self.limit

    def discard(self) -> None:
        """Nothing: the next attempt writes it again, and no VM starts from it before."""

    def close(self) -> None:
        """Let go of the device."""
        os.close(self._device)

    def _leave_zero(self, position: int, size: int) -> None:
        if size > 0 and position + size > self._zeroed:
            self._write_zeros(position, size)

    def _write_zeros(self, position: int, size: int) -> None:
        zero = allocate_zeros if self._preallocate else zero_range
        if zero(self._device, position, size):
            return
        for start in range(position, position + size, _BLOCK):
            write_all(self._device, start, _ZEROS[: min(_BLOCK, position + size - start)])


class _Writeback:
    """Has what was written go to disk while more comes, rather than all at the end."""

    def __init__(self) -> None:
        self._waiting = 0

    def note_written(self, into: int, size: int) -> None:
        """So many bytes more."""
        self._waiting += size
        if self._waiting >= _WRITEBACK:
            self._waiting = 0
            begin_writeback(into)


def open_target(job: ImportJob, directory: Path, device: Path) -> FileTarget | DeviceTarget:
    """The claim of a job.

    Raises:
        ImportFailure: when another worker fills it.
        OSError: when it cannot be opened for writing.
    """
    if job.block:
        return DeviceTarget(device, job.size, preallocate=job.preallocate)
    return FileTarget(directory, job.size, preallocate=job.preallocate, uid=job.uid)


def _count_usable(folder: int, size: int) -> int:
    """What a disk may have: the size that is asked for, or what a file system has that is smaller than that.

    A directory of the host has room for several claims: there the size counts, and the place may be over-committed.
    """
    facts = os.fstatvfs(folder)
    free = facts.f_bavail * facts.f_frsize
    free -= free % (1 << 20)
    if not size or not facts.f_blocks:
        # Some file systems do not tell what they have.
        return size or free
    return min(size, free) if facts.f_blocks * facts.f_frsize < size else size


def data_runs(data: bytes) -> list[tuple[int, int]]:
    """The parts of `data` that are not zero, as begin and end, merged; looked at in blocks of 64 KiB."""
    runs: list[tuple[int, int]] = []
    for start in range(0, len(data), _BLOCK):
        # A block that does not begin with zero is not compared.
        if not data[start]:
            block = data[start : start + _BLOCK]
            if block == (_ZEROS if len(block) == _BLOCK else bytes(len(block))):
                continue
        end = min(start + _BLOCK, len(data))
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs
