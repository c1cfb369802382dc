"""A file of the user's that appears under its name when it is whole and on disk, or not at all.

Used by exports and downloads. Writes beside the file that is named, and replaces nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kvedge.client.errors import UsageError
from kvedge.runtime.durable_files import find_unfinished, name_unfinished, put_new_durably


@contextmanager
def write_file(path: Path) -> Iterator[BinaryIO]:
    """A file beside that one, which gets its name when all went well and is gone otherwise.

    Raises:
        UsageError: there is such a file, or no such directory.
        OSError: of the file system.
    """
    check_free(path)
    remove_unfinished(path)
    staged = name_unfinished(path)
    try:
        # Disks hold secrets of their guest.
        descriptor = os.open(staged, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
        put_new_durably(staged, path)
    except FileExistsError as error:
        staged.unlink(missing_ok=True)
        raise UsageError(f"{path}: was made by somebody else meanwhile: name another file") from error
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def remove_unfinished(path: Path) -> None:
    """Remove what exports to this place have left that were killed: it may be as large as the disks."""
    for left in find_unfinished(path):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def check_free(path: Path) -> None:
    """Whether a file of that name can be made; raises UsageError otherwise."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path}: is there already: name another file, or remove it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: there is no such directory")
