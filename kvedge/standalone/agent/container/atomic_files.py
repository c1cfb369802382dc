"""A directory of small files that changes as a whole, laid out as the kubelet's AtomicWriter has it.

Called for secret and configMap volumes. Readers see `..data/<key>` of one version or of the next, never a mixture:

    ..2026_01_02_03_04_05.123456/<key>   the files
    ..data -> ..2026_01_02_03_04_05.123456
    <key> -> ..data/<key>
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

DATA_LINK: Final = "..data"


class FileContent(Struct, frozen=True):
    """One file: what is in it, and its mode."""

    data: bytes
    mode: int


class BadPath(ValueError):
    """A key's path leads out of the volume; the text names it."""


def write_files(target: Path, files: Mapping[str, FileContent], group: int | None) -> None:
    """Make `target` hold exactly `files` (relative path to content), readable by `group` when one is given.

    Raises:
        BadPath: for an absolute path or one with `..`.
        OSError: as the file system has it.
    """
    for path in files:
        _check(path)
    version = Path(tempfile.mkdtemp(prefix="..", dir=target))
    try:
        for path, content in files.items():
            _write(version / path, content, group)
        _open_to(version, group)
        _point_link(target / DATA_LINK, version.name)
    except BaseException:
        shutil.rmtree(version)
        raise
    wanted = {path.split("/", 1)[0] for path in files}
    for name in wanted:
        if not (target / name).is_symlink():
            _point_link(target / name, f"{DATA_LINK}/{name}")
    for entry in list(target.iterdir()):
        if entry.name in wanted or entry.name in (DATA_LINK, version.name):
            continue
        if entry.is_symlink():
            entry.unlink()
        else:
            shutil.rmtree(entry)


def _check(path: str) -> None:
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or parts[0].startswith("..") or "\0" in path:
        raise BadPath(f"{path!r} is no path within a volume")


def _write(path: Path, content: FileContent, group: int | None) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o755)
        _open_to(parent, group)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content.data)
        mode = content.mode
        if group is not None:
            os.fchown(descriptor, -1, group)
            # The kubelet adds this for an fsGroup, whatever the volume's mode says.
            mode |= 0o440
        os.fchmod(descriptor, mode)


def _open_to(directory: Path, group: int | None) -> None:
    directory.chmod(0o755)
    if group is not None:
        os.chown(directory, -1, group)


def _point_link(link: Path, target: str) -> None:
    temporary = link.with_name(f"{link.name}_tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    temporary.replace(link)
