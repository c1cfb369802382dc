"""Finding the disk in a container disk's file system.

Called where the image's tree is mounted: by the handler on the host, by the launcher in its Pod. The tree is hostile:
everything is opened beneath it, no link is followed, and only a regular file is a disk. Standard library only, as the
launcher imports it.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from msgspec import Struct

from kvedge.storage.beneath import hold_directory, hold_open_beneath, open_regular

DISK_DIRECTORY: Final = "disk"
# QEMU's user; an image whose disk this user cannot read is of no use.
QEMU_UID: Final = 107
_QCOW2_MAGIC: Final = b"QFI\xfb"


class ContainerDiskError(Exception):
    """The image holds no usable disk; the message is KubeVirt's where KubeVirt has one."""


class ContainerDisk(Struct, frozen=True):
    """A disk in an image: its path relative to the tree, its format by its own magic, its size in bytes."""

    path: str
    format: str
    size: int


def find_disk(tree: str | os.PathLike[str], path: str = "") -> ContainerDisk:
    """Find the disk at `path` in the tree, or the only file in /disk when `path` is empty.

    Raises:
        ContainerDiskError: when there is none, or more than one, or it is no plain readable file.
    """
    with hold_directory(tree) as root:
        return find_disk_at(root, path)


def find_disk_at(root: int, path: str = "") -> ContainerDisk:
    """:func:`find_disk` for a tree that is already open.

    Raises:
        ContainerDiskError: as :func:`find_disk`.
    """
    relative = _clean(path) if path else f"{DISK_DIRECTORY}/{_find_only_file(root)}"
    try:
        opened = open_regular(root, relative)
    except OSError as error:
        raise ContainerDiskError(_explain(error, relative)) from error
    try:
        facts = os.fstat(opened)
        if not _readable_by_qemu(facts):
            raise ContainerDiskError(_explain_unreadable(relative))
        magic = os.pread(opened, len(_QCOW2_MAGIC), 0)
    finally:
        os.close(opened)
    return ContainerDisk(relative, "qcow2" if magic == _QCOW2_MAGIC else "raw", facts.st_size)


def _clean(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise ContainerDiskError(f"invalid path {path!r}: it must name a file in the image, without ..")
    return "/".join(parts)


def _find_only_file(root: int) -> str:
    try:
        with (
            hold_open_beneath(root, DISK_DIRECTORY, os.O_RDONLY | os.O_DIRECTORY) as folder,
            os.scandir(folder) as entries,
        ):
            # Two are enough to know that there are too many.
            names = [entry.name for entry, _ in zip(entries, range(2), strict=False)]
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise ContainerDiskError(f"no folder /{DISK_DIRECTORY} found in the image") from error
        raise ContainerDiskError(_explain(error, DISK_DIRECTORY)) from error
    if not names:
        raise ContainerDiskError(f"no file found in folder /{DISK_DIRECTORY}, no disk present")
    if len(names) > 1:
        raise ContainerDiskError(f"more than one file found in folder /{DISK_DIRECTORY}, only one disk is allowed")
    return names[0]


def _explain_unreadable(path: str) -> str:
    return (
        f"disk file /{path} is not readable by user {QEMU_UID}: "
        f"build the image with `COPY --chown={QEMU_UID}:{QEMU_UID}`"
    )


def _explain(error: OSError, path: str) -> str:
    if error.errno == errno.EACCES:
        # In an image volume nobody but that user has looked before.
        return _explain_unreadable(path)
    reasons = {
        errno.ENOENT: "no such file in the image",
        errno.ELOOP: "it is a symbolic link, or lies behind one; links are not followed",
        errno.EXDEV: "it leads out of the image",
        errno.EINVAL: "it is not a regular file",
        errno.ENOTDIR: "it is not a directory",
    }
    return f"invalid disk path /{path}: {reasons.get(error.errno or 0, error.strerror)}"


def _readable_by_qemu(facts: os.stat_result) -> bool:
    if facts.st_uid == QEMU_UID:
        return bool(facts.st_mode & stat.S_IRUSR)
    if facts.st_gid == QEMU_UID:
        return bool(facts.st_mode & stat.S_IRGRP)
    return bool(facts.st_mode & stat.S_IROTH)
