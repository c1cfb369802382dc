"""The files of a drop-in directory: which there are, which of them are whole, and how they are opened.

Called by the loops of images and manifests. Reads the directory only; follows no link, waits for no writer.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from kvedge.storage.beneath import hold_directory, open_regular

# Device, inode, size, and the times of the last change of content and of the inode, in ns: a file that has been
# touched differs in one of them, whatever its clock says.
Signature: TypeAlias = tuple[int, int, int, int, int]

# Programs name a file so while they write it: browsers, wget, rsync (which begins with a dot), editors.
_UNFINISHED: Final = (".part", ".partial", ".tmp", ".temp", ".crdownload", ".download", ".filepart", ".swp", "~")
_PIECE: Final = 1 << 20


class NotYet(Exception):
    """The file changes while it is looked at, or somebody has it open for writing: the next look will tell."""


class NotTrusted(Exception):
    """The directory, or an entry of it, cannot be used; the text says why and what to do."""


class DroppedFile(Struct, frozen=True):
    """A file as one look found it; `name` is relative to the directory."""

    name: str
    signature: Signature


class Look(Struct, frozen=True):
    """What one look at a directory found: files by name, and what was left out, each with its reason."""

    files: dict[str, DroppedFile]
    refused: dict[str, str]


class SettledFiles:
    """Remembers the look before, so that a file that is still being copied is left alone."""

    def __init__(self) -> None:
        self._before: dict[str, Signature] = {}

    def choose_settled(self, look: Look) -> list[DroppedFile]:
        """The files that have not changed since the last look, in the order of their names."""
        before, self._before = self._before, {name: file.signature for name, file in look.files.items()}
        return [file for name, file in sorted(look.files.items()) if before.get(name) == file.signature]


def look_at(directory: Path, *, recursive: bool, skip: frozenset[str] = frozenset()) -> Look:
    """All files of a drop-in directory; hidden ones and those that are called unfinished are not seen.

    Args:
        directory: where to look.
        recursive: also in the directories below it, without following links.
        skip: entries of the directory itself that are not the user's.

    Raises:
        NotTrusted: others than its owner may write there, so that they would be administrators here.
        OSError: when it cannot be read.
    """
    _check_trust(directory)
    look = Look({}, {})
    _look_into(directory, "", look, recursive=recursive, skip=skip)
    return look


def _look_into(directory: Path, below: str, look: Look, *, recursive: bool, skip: frozenset[str]) -> None:
    with os.scandir(directory / below) as entries:
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED) or name in skip:
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(facts.st_mode):
                look.files[name] = DroppedFile(name, _signature(facts))
            elif stat.S_ISDIR(facts.st_mode):
                if recursive:
                    _look_into(directory, name, look, recursive=True, skip=skip)
            else:
                what = "a symbolic link" if stat.S_ISLNK(facts.st_mode) else "no regular file"
                look.refused[name] = f"it is {what}, which is not followed; copy the file itself into {directory}"


def _check_trust(directory: Path) -> None:
    facts = directory.stat()
    if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotTrusted(
            f"{directory} may be written by others than root, who would be administrators of this box: "
            f"chown root {directory}; chmod go-w {directory}"
        )


@contextmanager
def open_whole(directory: Path, file: DroppedFile) -> Iterator[int]:
    """The file, open for reading, if it is still what the look found and nobody writes to it.

    Raises:
        NotYet: it changed, or is being written.
        OSError: it cannot be read.
    """
    with hold_directory(directory) as root:
        try:
            opened = open_regular(root, file.name)
        except FileNotFoundError as error:
            raise NotYet(file.name) from error
    try:
        if _signature(os.fstat(opened)) != file.signature or _has_writer(opened):
            raise NotYet(file.name)
        yield opened
        if _signature(os.fstat(opened)) != file.signature:
            raise NotYet(file.name)
    finally:
        os.close(opened)


def compute_digest(opened: int, keep_on: Callable[[], None]) -> str:
    """`sha256:…` of an open file's content; `keep_on` is called now and then and may raise."""
    digest = hashlib.sha256()
    position = 0
    while piece := os.pread(opened, _PIECE, position):
        digest.update(piece)
        position += len(piece)
        keep_on()
    return f"sha256:{digest.hexdigest()}"


def _has_writer(opened: int) -> bool:
    """Whether the kernel knows of somebody who has the file open for writing: it then refuses a read lease."""
    try:
        fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        # Other errors: a file of another user, or a file system without leases. Then the signature has to do.
        return error.errno == errno.EAGAIN
    fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _signature(facts: os.stat_result) -> Signature:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
