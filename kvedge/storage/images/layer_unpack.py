"""Unpacking image layers into a tree, as if each were made to break out of it.

Called by the image store with a staging directory. The kernel resolves every name beneath the tree; devices, fifos,
extended attributes and set-user-id bits are left out, whiteouts are obeyed, and everything is counted.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import BinaryIO, Final

from msgspec import Struct, field

from kvedge.storage.beneath import AS_ROOT, hold_open_beneath, make_directories, open_beneath
from kvedge.storage.image_errors import BadImage
from kvedge.storage.sparse_file import write_sparse
from kvedge.storage.tar_reader import EntryKind, HeaderBudget, TarEntry, TarReader

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
# Set-user-id and set-group-id have no use in a tree that is mounted nosuid; on the host they would be a risk.
_MODE_MASK: Final = 0o1777
_MAX_DEPTH: Final = 128
# A file system's errors for a path that it cannot follow, and for a name or a link too many.
_IMPOSSIBLE: Final = frozenset(
    {errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENOENT, errno.ENAMETOOLONG, errno.EMLINK, errno.EISDIR}
)


class UnpackLimits(Struct, frozen=True):
    """What one image may take; sizes in bytes, of the unpacked content before holes are left out.

    `entries` counts files and every directory that is made, also those that only paths name.
    """

    total_bytes: int = 256 << 30
    entries: int = 500_000


class _LayerState(Struct):
    """What one layer has done so far; directories are known by (device, inode), as links give them many names."""

    # The entries that the layer brought: a directory, and a name in it.
    made: set[tuple[int, int, str]] = field(default_factory=set)
    # Directories with something of the layer's at any depth below them.
    kept: set[tuple[int, int]] = field(default_factory=set)
    # Directories in which nothing of lower layers is left. Each is emptied once, however often a layer asks for it.
    emptied: set[tuple[int, int]] = field(default_factory=set)


class LayerUnpacker:
    """Applies layers, lowest first, to one tree that is open as a directory descriptor."""

    def __init__(self, root: int, limits: UnpackLimits) -> None:
        self._root = root
        self._root_id = _read_identity(root)
        self._root_depth = _count_depth(root)
        self._bytes_left = limits.total_bytes
        self._entries_left = limits.entries
        self._headers = HeaderBudget()
        self.skipped = 0

    def apply(self, stream: BinaryIO) -> None:
        """Apply one uncompressed layer.

        Raises:
            BadImage: for what no honest layer holds.
            OSError: when the tree's file system fails (full, read-only).
        """
        state = _LayerState()
        reader = TarReader(stream, self._headers)
        for entry in reader:
            self._count(entry.size)
            path = _clean(entry.name)
            if path:
                self._apply_entry(reader, entry, path, state)

    def _count(self, size: int) -> None:
        self._entries_left -= 1
        self._bytes_left -= size
        if self._entries_left < 0:
            raise BadImage("the image holds too many files")
        if self._bytes_left < 0:
            raise BadImage("the image unpacks to more than an image may hold")

    def _apply_entry(self, reader: TarReader, entry: TarEntry, path: str, state: _LayerState) -> None:
        parent_path, _, name = path.rpartition("/")
        try:
            parent = self._parent(parent_path or ".")
            try:
                if name.startswith(_WHITEOUT):
                    _apply_whiteout(parent, name, state)
                    return
                self._note(parent, name, state)
                self._make(reader, entry, parent, name)
            finally:
                os.close(parent)
        except OSError as error:
            if error.errno in _IMPOSSIBLE:
                raise BadImage(f"layer entry {path[:256]!r} cannot be made: {os.strerror(error.errno)}") from error
            raise

    def _parent(self, path: str) -> int:
        try:
            try:
                return open_beneath(self._root, path, os.O_PATH | os.O_DIRECTORY, resolve=AS_ROOT)
            except FileNotFoundError:
                return make_directories(self._root, path, resolve=AS_ROOT, making=self._count_directory)
        except OSError as error:
            if error.errno in _IMPOSSIBLE:
                raise BadImage(
                    f"layer entry below {path[:256]!r} lies behind something that is no directory"
                ) from error
            raise

    def _count_directory(self, parent: int) -> None:
        """Count a directory that is about to be made; links must not make a tree too deep to be removed again."""
        self._count(0)
        if _count_depth(parent) - self._root_depth >= _MAX_DEPTH:
            raise BadImage(f"the image holds directories more than {_MAX_DEPTH} deep")

    def _note(self, parent: int, name: str, state: _LayerState) -> None:
        """Remember that the layer brings `name`, and that everything above holds something of the layer."""
        above = _read_identity(parent)
        state.made.add((*above, name))
        if above in state.kept:
            return
        folder = os.dup(parent)
        try:
            while above not in state.kept:
                state.kept.add(above)
                if above == self._root_id:
                    return
                upper = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
                os.close(folder)
                folder = upper
                above = _read_identity(folder)
        finally:
            os.close(folder)

    def _make(self, reader: TarReader, entry: TarEntry, parent: int, name: str) -> None:
        match entry.kind:
            case EntryKind.DIRECTORY:
                self._make_directory(parent, name, entry)
            case EntryKind.FILE:
                _remove(parent, name)
                _make_file(reader, entry, parent, name)
            case EntryKind.SYMLINK:
                _remove(parent, name)
                os.symlink(entry.link, name, dir_fd=parent)
                os.chown(name, entry.uid, entry.gid, dir_fd=parent, follow_symlinks=False)
            case EntryKind.HARDLINK:
                self._make_hard_link(entry, parent, name)
            case EntryKind.OTHER:
                self.skipped += 1

    def _make_directory(self, parent: int, name: str, entry: TarEntry) -> None:
        facts = _find_facts(parent, name)
        if facts is not None and not stat.S_ISDIR(facts.st_mode):
            _remove(parent, name)
            facts = None
        if facts is None:
            self._count_directory(parent)
            os.mkdir(name, 0o700, dir_fd=parent)
        with hold_open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY) as opened:
            os.fchown(opened, entry.uid, entry.gid)
            os.fchmod(opened, entry.mode & _MODE_MASK)

    def _make_hard_link(self, entry: TarEntry, parent: int, name: str) -> None:
        target_parent, _, target = _clean(entry.link).rpartition("/")
        try:
            flags = os.O_PATH | os.O_DIRECTORY
            with hold_open_beneath(self._root, target_parent or ".", flags, resolve=AS_ROOT) as folder:
                facts = os.stat(target, dir_fd=folder, follow_symlinks=False)
                if not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
                    raise BadImage(f"layer entry {entry.name[:256]!r} is a hard link to something that is no file")
                if _same_file(parent, name, facts):
                    return
                _remove(parent, name)
                os.link(target, name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise BadImage(
                f"layer entry {entry.name[:256]!r} is a hard link to {entry.link[:256]!r}, which is not there"
            ) from error


def _clean(name: str) -> str:
    """The path relative to the tree; a leading slash means the tree's root, as every other unpacker has it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadImage(f"layer entry {name[:256]!r} climbs out of the image")
    if len(parts) > _MAX_DEPTH or any(len(os.fsencode(part)) > 255 for part in parts):
        raise BadImage(f"layer entry {name[:64]!r}… has too long a path")
    return "/".join(parts)


def _make_file(reader: TarReader, entry: TarEntry, parent: int, name: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(name, flags, 0o600, dir_fd=parent)
    try:
        write_sparse(opened, reader.read, entry.size)
        os.fchown(opened, entry.uid, entry.gid)
        os.fchmod(opened, entry.mode & _MODE_MASK)
        os.utime(opened, (entry.mtime, entry.mtime))
    finally:
        os.close(opened)


def _apply_whiteout(parent: int, name: str, state: _LayerState) -> None:
    """`.wh.<name>` removes what lower layers put there; the opaque one empties the directory of theirs."""
    if name == _OPAQUE:
        _empty_directory(parent, state)
        return
    target = name.removeprefix(_WHITEOUT)
    if target in ("", ".", ".."):
        raise BadImage(f"layer entry {name[:256]!r} is a broken whiteout")
    if (*_read_identity(parent), target) not in state.made:
        _remove(parent, target)


def _empty_directory(directory: int, state: _LayerState) -> None:
    """Remove what lower layers put into a directory, at any depth."""
    here = _read_identity(directory)
    if here in state.emptied:
        return
    state.emptied.add(here)
    for name in _list_names(directory):
        facts = _find_facts(directory, name)
        if facts is not None and stat.S_ISDIR(facts.st_mode) and (facts.st_dev, facts.st_ino) in state.kept:
            with hold_open_beneath(directory, name, os.O_RDONLY | os.O_DIRECTORY) as below:
                _empty_directory(below, state)
        elif (*here, name) not in state.made:
            _remove(directory, name)


def _read_identity(directory: int) -> tuple[int, int]:
    facts = os.fstat(directory)
    return facts.st_dev, facts.st_ino


def _count_depth(directory: int) -> int:
    """How many directories lie above, in truth: links hide that from the path."""
    return os.readlink(f"/proc/self/fd/{directory}").count("/")


def _list_names(directory: int) -> list[str]:
    with hold_open_beneath(directory, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        return os.listdir(opened)


def _find_facts(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _same_file(parent: int, name: str, facts: os.stat_result) -> bool:
    there = _find_facts(parent, name)
    return there is not None and (there.st_dev, there.st_ino) == (facts.st_dev, facts.st_ino)


def _remove(parent: int, name: str) -> None:
    facts = _find_facts(parent, name)
    if facts is None:
        return
    if stat.S_ISDIR(facts.st_mode):
        # rmtree with dir_fd walks by descriptors and follows no link.
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)
