"""The files behind a connection, and whether they are still those that it was made from.

Used by connection_settings, which notes each file just before it reads it, and by live_connection, which looks again.
Asks for the files' states and never opens one. Links are followed: a kubelet renews its certificate by pointing
`kubelet-client-current.pem` at another file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct


class FileState(Struct, frozen=True):
    """What is another number as soon as a file is written anew, replaced, or as a link to it points elsewhere."""

    modified_ns: int
    device: int
    inode: int
    size: int


def read_file_state(path: str) -> FileState | None:
    """The state of a file, or None when it is not there or cannot be looked at."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileState(found.st_mtime_ns, found.st_dev, found.st_ino, found.st_size)


def states(paths: list[str]) -> dict[str, FileState | None]:
    """The state of each."""
    return {path: read_file_state(path) for path in paths}


def is_changed(noted: Mapping[str, FileState | None]) -> bool:
    """Whether any of these files is not what was noted of it."""
    return any(read_file_state(path) != state for path, state in noted.items())
