"""Notes beside the volumes of a place: what each was, and which VM had it, for the day on which the store is lost.

Called by drivers, which have found before that the place is the right one; read by `kvedge recover`. Touches
`.manifests` in a place, which is root's alone. A note is there after a power cut, whole or as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.runtime.durable_files import sync, write_durably

NOTES: Final = ".manifests"
_NAME: Final = re.compile(r"[a-z]{1,20}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A Kubernetes object has at most 1.5 MiB.
_LARGEST: Final = 4 << 20
_MOST: Final = 20_000


def write_note(place: Path, name: str, content: bytes) -> None:
    """Have a note there; one that says so already is not written again.

    Raises:
        OSError: as the file system has it.
    """
    folder = place / NOTES
    path = folder / _check_name(name)
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        folder.mkdir(mode=0o700, exist_ok=True)
    write_durably(path, content)


def drop_note(place: Path, name: str) -> None:
    """Remove a note; nothing happens when there is none.

    Raises:
        OSError: as the file system has it.
    """
    path = place / NOTES / _check_name(name)
    if path.exists():
        path.unlink(missing_ok=True)
        sync(path.parent)


def read_notes(place: Path) -> Iterator[tuple[str, bytes, float]]:
    """All notes of a place by their names, each with when it was written last; what is no file, or too large for one of
    ours, is left out.

    Raises:
        OSError: as the file system has it.
    """
    folder = place / NOTES
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir())[:_MOST]:
        if _NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            facts = path.stat()
            if facts.st_size <= _LARGEST:
                yield path.name, path.read_bytes(), facts.st_mtime


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a note")
    return name
