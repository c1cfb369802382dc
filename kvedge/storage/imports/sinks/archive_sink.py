"""A tar archive unpacked into a claim's file system; compressed or not.

Called as the image sink is, for `contentType: archive`. The archive is a stranger's: nothing leaves the claim, no link
leads out of it or is followed, there are no devices, and number and size of files are bounded. Files are unpacked in
a directory of the claim, and moved to its top when all are there; owners are the worker's. Touches the claim alone.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import BinaryIO, Final

from kvedge.runtime.linux.files import syncfs
from kvedge.storage.beneath import STRICT, hold_open_beneath, make_directories, open_beneath
from kvedge.storage.decompress import open_decompressed
from kvedge.storage.image_errors import BadImage, TooMuch
from kvedge.storage.imports.import_errors import ImportFailure, TooSmall
from kvedge.storage.imports.sinks.import_target import FileTarget
from kvedge.storage.imports.sinks.present_disk import mark_disk_in
from kvedge.storage.tar_reader import EntryKind, TarEntry, TarReader

_UNPACKED: Final = ".kvedge-archive.part"
_MOST_ENTRIES: Final = 500_000
_DEEPEST: Final = 64
_CHUNK: Final = 1 << 20
# Headers and padding of so many files.
_OVERHEAD: Final = 1 << 30
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ArchiveSink:
    """Takes one archive; the same calls as the image sink's."""

    def __init__(self, target: FileTarget) -> None:
        self._claim = os.open(target.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._left = target.limit
        self._limit = target.limit
        self._uid = target.uid
        self._entries = 0
        self._root = -1

    def take(self, stream: BinaryIO) -> None:
        """Unpack it to its end.

        Raises:
            ImportFailure: when it is no archive, too large, or hostile.
            OSError: of the claim or of the stream.
        """
        self._remove()
        os.mkdir(_UNPACKED, 0o700, dir_fd=self._claim)
        self._root = os.open(_UNPACKED, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._claim)
        try:
            with open_decompressed(stream, self._limit + _OVERHEAD) as plain:
                reader = TarReader(plain)
                for entry in reader:
                    self._put(reader, entry)
                # Its end is followed by zeros, which belong to the checksum.
                while plain.read(_CHUNK):
                    continue
        except TooMuch as error:
            raise TooSmall(self._limit + 1, self._limit) from error
        except BadImage as error:
            raise ImportFailure(f"Unable to process data: {error}") from error
        while stream.read(_CHUNK):
            continue

    def finish(self) -> int:
        """Move all to the top of the claim; returns the bytes that the files have."""
        # When the worker is killed while it moves files, the next one takes a disk among them for the claim's own.
        mark_disk_in(self._root, self._uid)
        # A file has its name at the top only once its content is on disk.
        syncfs(self._claim, "the claim")
        for name in sorted(os.listdir(self._root)):
            # Of an attempt that was killed while it moved.
            _remove(self._claim, name)
            os.rename(name, name, src_dir_fd=self._root, dst_dir_fd=self._claim)
        self._remove()
        syncfs(self._claim, "the claim")
        os.close(self._claim)
        return self._limit - self._left

    def discard(self) -> None:
        """Leave nothing behind."""
        self._remove()
        with suppress(OSError):
            os.close(self._claim)

    def _remove(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1
        _remove(self._claim, _UNPACKED)

    def _put(self, reader: TarReader, entry: TarEntry) -> None:
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            raise ImportFailure(f"Unable to process data: the archive holds more than {_MOST_ENTRIES} files")
        self._left -= entry.size
        if self._left < 0:
            raise TooSmall(self._limit - self._left, self._limit)
        path = _resolve_inside(entry.name)
        if not path:
            return
        if path.partition("/")[0] == _UNPACKED:
            raise _refusal(entry.name, "has the name of a directory that is needed to unpack it")
        above, _, name = path.rpartition("/")
        try:
            folder = make_directories(self._root, above, mode=0o770, resolve=STRICT)
        except OSError as error:
            raise _refusal(entry.name, "lies behind a link or a file") from error
        try:
            self._make(reader, entry, folder, name, path)
        finally:
            os.close(folder)

    def _make(self, reader: TarReader, entry: TarEntry, folder: int, name: str, path: str) -> None:
        if entry.kind is EntryKind.DIRECTORY:
            with suppress(FileExistsError):
                os.mkdir(name, 0o770, dir_fd=folder)
            return
        if entry.kind is EntryKind.OTHER:
            raise _refusal(entry.name, "is a device or no plain file")
        with suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=folder)
        if entry.kind is EntryKind.SYMLINK:
            _check_ways_up(entry)
            _resolve_inside(os.path.join(os.path.dirname(path), entry.link), entry.name)
            os.symlink(entry.link, name, dir_fd=folder)
        elif entry.kind is EntryKind.HARDLINK:
            self._make_link(entry, folder, name)
        else:
            with open(os.open(name, _FLAGS, 0o600, dir_fd=folder), "wb") as made:
                while data := reader.read(_CHUNK):
                    made.write(data)
                os.fchmod(made.fileno(), entry.mode & 0o777 | 0o660)

    def _make_link(self, entry: TarEntry, folder: int, name: str) -> None:
        _check_ways_up(entry)
        target, _, last = _resolve_inside(entry.link, entry.name).rpartition("/")
        try:
            with hold_open_beneath(self._root, target or ".", os.O_PATH | os.O_DIRECTORY, resolve=STRICT) as there:
                os.close(open_beneath(there, last, os.O_PATH, resolve=STRICT))
                os.link(last, name, src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise _refusal(entry.name, f"is a link to what is not there: {error.strerror}") from error


def _resolve_inside(name: str, entry: str = "") -> str:
    """A path below the claim's top, without `.`; empty for the top itself.

    Raises:
        ImportFailure: when it leads out.
    """
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and entry and parts:
            # A link may go up, as long as it stays inside.
            parts.pop()
        elif part == ".." or name.startswith("/"):
            raise _refusal(entry or name, "leaves the claim")
        elif part not in ("", "."):
            parts.append(part)
    if len(parts) > _DEEPEST:
        raise _refusal(entry or name, f"is more than {_DEEPEST} directories deep")
    return "/".join(parts)


def _check_ways_up(entry: TarEntry) -> None:
    """`..` only before all names: a name may be, or become, a link of the archive, and then leads up elsewhere.

    Raises:
        ImportFailure: when a name comes first.
    """
    parts = [part for part in entry.link.split("/") if part not in ("", ".")]
    names = [part for part in parts if part != ".."]
    if ".." in parts[len(parts) - len(names) :]:
        raise _refusal(entry.name, "is a link that goes up behind a name, which may be a link too")


def _refusal(name: str, why: str) -> ImportFailure:
    return ImportFailure(f"Unable to process data: {name[:200]!r} of the archive {why}; make the archive without it")


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=folder)
