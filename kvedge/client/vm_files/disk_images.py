"""Images of other programs: how large the disk in each is, and whether it can be sent.

Called by the readers of appliances and of libvirt's domains. Reads the first bytes of files, which may be hostile, and
hands none of them to a tool: the worker at the other end converts what is no raw disk, confined.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import struct
from array import array
from pathlib import Path
from typing import BinaryIO, Final, cast

from kvedge.client.errors import RefusedError
from kvedge.client.exports.remote_disk import CHUNK
from kvedge.client.uploads.upload_source import FileSource, RangedReader, UploadSource
from kvedge.client.vm_files.qcow2_view import Qcow2View
from kvedge.storage.image_errors import BadImage
from kvedge.storage.imports.disk_formats import HEAD_SIZE, QCOW2, RAW, recognise
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.qcow2_header import backing_file_of, check_qcow2_header
from kvedge.storage.sparse_file import find_data_extents

_HEAD: Final = 64 << 10
_SECTOR: Final = 512
VMDK: Final = "vmdk"
# Magic, version, flags, capacity in sectors.
_VMDK_HEADER: Final = struct.Struct("<4sIIQ")
# The byte of a file that QEMU has locked for others to see that it writes there.
_WRITES: Final = 101
_LOCK: Final = struct.Struct("hhqqi4x")


class RawDisk:
    """A raw disk, a file or a device, as an image without its holes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.disk_size = size_of(path)
        self._places = array("Q")
        with path.open("rb") as file:
            for start, end in find_data_extents(file.fileno(), self.disk_size):
                first = start - start % CHUNK
                if self._places and first <= self._places[-1]:
                    first = self._places[-1] + CHUNK
                self._places.extend(range(first, end, CHUNK))
        whole = self.disk_size + -self.disk_size % _SECTOR
        self._view = Qcow2View(whole, self._places, CHUNK, self._read_chunk)
        self._file: BinaryIO | None = None

    @property
    def size(self) -> int:
        """Of the image."""
        return self._view.size

    def identity(self) -> str:
        """The file's time and what of it is no hole, as a digest."""
        digest = hashlib.sha256(f"{self.disk_size} {self._path.stat().st_mtime_ns}".encode())
        digest.update(self._places.tobytes())
        return digest.hexdigest()

    def open(self) -> BinaryIO:
        """The image as a stream."""
        self._file = self._path.open("rb")
        return cast("BinaryIO", RangedReader(self.size, self._view.read_at, self._file.close))

    def _read_chunk(self, number: int) -> bytes:
        assert self._file is not None
        self._file.seek(self._places[number])
        return self._file.read(min(CHUNK, self.disk_size - self._places[number]))


def open_image(path: Path, format_: str = "", start: int = 0, size: int | None = None) -> tuple[int, UploadSource]:
    """The size of the disk in an image, and the image to be sent; a part of a file where `size` is given.

    `format_` is what its owner says that it is. Without it the first bytes tell.

    Raises:
        RefusedError: for an image that needs another file, is broken, or of a kind that is not taken.
        OSError: of the file.
    """
    source = FileSource(path, start, size)
    with source.open() as file:
        head = file.read(_HEAD)
    try:
        kind = format_ or recognise(head[:HEAD_SIZE])
        if kind == QCOW2:
            if backing := backing_file_of(head):
                raise RefusedError(
                    f"{path}: needs its backing file {backing[:200]!r}; flatten it: qemu-img convert -O qcow2 OLD NEW"
                )
            return check_qcow2_header(head).virtual_size, source
    except (ImportFailure, BadImage) as error:
        raise RefusedError(f"{path}: {error}") from error
    if kind == RAW:
        if size is not None:
            return size, source
        if size_of(path) % _SECTOR:
            # A text or a key that a document names as a disk; a guest would get to read it.
            raise RefusedError(f"{path}: is no raw disk: it has no whole sectors of {_SECTOR} bytes")
        disk = RawDisk(path)
        return disk.disk_size, disk
    if kind == VMDK and head.startswith(b"KDMV") and len(head) >= HEAD_SIZE:
        if sectors := int(_VMDK_HEADER.unpack_from(head)[3]):
            return sectors * _SECTOR, source
        raise RefusedError(f"{path}: is a VMDK without a size of its own, whose data may be in other files")
    raise RefusedError(f"{path}: images of kind {kind[:20]} are not taken; qemu-img convert -O qcow2 OLD NEW makes one")


def needs_room(source: UploadSource, disk_size: int) -> int:
    """What a claim needs beside the disk's size: an image that is converted there lies in it meanwhile."""
    return source.size if isinstance(source, FileSource) and source.size > disk_size else 0


def size_of(path: Path) -> int:
    """The size of a file or a block device."""
    with path.open("rb") as file:
        return file.seek(0, os.SEEK_END)


def is_disk(path: Path) -> bool:
    """Whether there is a file or a block device."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode)


def is_in_use(path: Path) -> bool:
    """Whether it is a device that is mounted here, or is part of what is."""
    if not stat.S_ISBLK(path.stat().st_mode):
        return False
    try:
        # Of a device, alone among files, this asks whether the kernel itself has claimed it.
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    return False


def is_written(path: Path) -> bool:
    """Whether a QEMU has the image open and may write it, by the lock that it holds then."""
    with path.open("rb") as file:
        wanted = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _WRITES, 1, 0)
        try:
            found = fcntl.fcntl(file.fileno(), fcntl.F_OFD_GETLK, wanted)
        except OSError:
            # A file system without locks tells nothing.
            return False
    return bool(_LOCK.unpack(found)[0] != fcntl.F_UNLCK)
