"""Checks a bundle and puts what is in it where it belongs on this site.

Called by `kvedge bundle show|unpack|install`. The whole bundle is read and compared with its checksums before the
first file is written; then all files are written under hidden names, checked once more, and only then renamed.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from kvedge.appliance.bundle.bundle_format import (
    DESCRIPTION,
    MOST_SUMS_BYTES,
    PROGRAM,
    SUMS,
    BundleError,
    Description,
    check_member,
    read_description,
    read_sums,
)
from kvedge.runtime.durable_files import sync
from kvedge.storage.beneath import STRICT, hold_directory, make_directories

_PIECE: Final = 1 << 20
# Where the program of a bundle lies until it is installed, below the data directory.
PROGRAM_PLACE: Final = "bundle/kvedge"


class Bundle(Struct, frozen=True):
    """A bundle whose content is what its checksums say; sizes are in bytes."""

    path: Path
    description: Description
    digests: dict[str, str]
    sizes: dict[str, int]

    @property
    def has_program(self) -> bool:
        """Whether the program is in it."""
        return PROGRAM in self.digests

    @property
    def files(self) -> list[str]:
        """Images and manifests."""
        return sorted(self.digests.keys() - {DESCRIPTION, PROGRAM})


def check_bundle(path: Path, sha256: str = "") -> Bundle:
    """Read a whole bundle; `sha256` is what the whole file must have, in hexadecimal, empty for any.

    Raises:
        BundleError: when it is cut off, was changed, or holds what a bundle may not hold.
    """
    if sha256:
        with _open(path) as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != sha256.lower().removeprefix("sha256:"):
            raise BundleError(f"{path} is not the bundle that was named: its sha256 is {found}")
    digests: dict[str, str] = {}
    sizes: dict[str, int] = {}
    description: Description | None = None
    for name, content, size in _members(path):
        if not digests:
            digests = read_sums(_read_first(path, name, content, size))
            continue
        if name not in digests or name in sizes:
            raise BundleError(f"{path}: {name!r} is not in {SUMS}, or is there twice: the bundle was changed")
        if name == DESCRIPTION:
            data = content.read(MOST_SUMS_BYTES)
            _compare(path, name, hashlib.sha256(data).hexdigest(), digests[name])
            description = read_description(data)
        else:
            _compare(path, name, _digest(content), digests[name])
        sizes[name] = size
    missing = sorted(digests.keys() - sizes.keys())
    if missing or description is None:
        raise BundleError(f"{path} is cut off: {(missing or [SUMS])[0]} is missing. Copy it here again")
    return Bundle(path, description, digests, sizes)


def unpack_bundle(bundle: Bundle, data_dir: Path) -> list[str]:
    """Put images and manifests into the data directory's drop-in directories, and the program beside them.

    Returns the paths that were written, relative to the data directory; files of the same name are replaced.

    Raises:
        BundleError: when the bundle has changed since it was checked, or a directory leads elsewhere; nothing has
            changed then.
        OSError: as the file system has it; nothing has changed then either.
    """
    data_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    with hold_directory(data_dir) as root:
        pending = _Pending(root)
        try:
            for name, content, _ in _members(bundle.path):
                if name in (SUMS, DESCRIPTION):
                    continue
                if name not in bundle.digests:
                    raise BundleError(f"{bundle.path} changed while it was unpacked")
                digest = pending.write(PROGRAM_PLACE if name == PROGRAM else name, content)
                _compare(bundle.path, name, digest, bundle.digests[name])
            return pending.put_in_place()
        finally:
            pending.close()


class _Content:
    """One member's content."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path = path
        self._stream = stream

    def read(self, size: int) -> bytes:
        """As of any stream.

        Raises:
            BundleError: the bundle ends before it does.
        """
        try:
            return self._stream.read(size)
        except tarfile.TarError as error:
            raise _cut_off(self._path, error) from error


class _Pending:
    """Files that are written and not yet in their places."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._files: list[tuple[int, str, str, str]] = []

    def write(self, path: str, content: _Content) -> str:
        """Write one under a hidden name; returns its sha256."""
        folder, _, name = path.rpartition("/")
        # Manifests may hold passwords of guests.
        mode = 0o700 if folder.startswith("manifests") else 0o755
        try:
            directory = make_directories(self._root, folder, mode=mode, resolve=STRICT)
        except OSError as error:
            raise BundleError(f"{folder} in the data directory cannot be used: {error.strerror}") from error
        hidden = f".{name}.{os.getpid()}.part"
        self._files.append((directory, hidden, name, path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        mode = {"bundle": 0o755, "images": 0o644}.get(path.partition("/")[0], 0o600)
        digest = hashlib.sha256()
        with open(os.open(hidden, flags, mode, dir_fd=directory), "wb") as out:
            while piece := content.read(_PIECE):
                digest.update(piece)
                out.write(piece)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.fsync(out.fileno())
        return digest.hexdigest()

    def put_in_place(self) -> list[str]:
        """Rename all of them."""
        done = []
        while self._files:
            directory, hidden, name, path = self._files[0]
            os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
            sync(Path("."), beneath=directory)
            self._files.pop(0)
            os.close(directory)
            done.append(path)
        return done

    def close(self) -> None:
        """Remove what has not found its place."""
        for directory, hidden, _, _ in self._files:
            with suppress(OSError):
                os.unlink(hidden, dir_fd=directory)
            os.close(directory)


def _members(path: Path) -> Iterator[tuple[str, _Content, int]]:
    """Each member with its content and its size; regular files only."""
    try:
        with _open(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for info in archive:
                if not info.isreg() or info.issparse():
                    raise BundleError(f"{path}: {info.name!r} is no plain file: the bundle was not packed by kvedge")
                check_member(info.name)
                stream = archive.extractfile(info)
                assert stream is not None
                yield info.name, _Content(path, stream), info.size
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _cut_off(path, error) from error


def _cut_off(path: Path, error: Exception) -> BundleError:
    return BundleError(f"{path} is cut off, or no bundle of kvedge: {error}. Copy it here again")


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error
    with stream:
        yield stream


def _read_first(path: Path, name: str, content: _Content, size: int) -> bytes:
    if name != SUMS or size > MOST_SUMS_BYTES:
        raise BundleError(f"{path} does not begin with {SUMS}: it is no bundle of kvedge")
    return content.read(size)


def _digest(content: _Content) -> str:
    digest = hashlib.sha256()
    while piece := content.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def _compare(path: Path, name: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise BundleError(f"{path}: {name} is not what {SUMS} says: the bundle is damaged or was changed. Get it again")
