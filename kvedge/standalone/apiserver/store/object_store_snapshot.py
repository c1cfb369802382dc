"""Looks at an object store from outside, whether a process has it open or not: for backups and reports.

Used by `box_state` and by `kvedge report`. Reads the store only; a copy is written where the caller says.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.object_store_file import StoreError, load, name_damage
from kvedge.standalone.apiserver.store.stored import Stored


class SnapshotFailed(Exception):
    """A store could not be copied; the message says why."""


def copy_now(store: Path, target: Path) -> None:
    """Copy a store: a consistent state, checked and on disk.

    Raises:
        SnapshotFailed: the disk is full, or something in the store cannot be read.
    """
    try:
        ObjectStore(store).copy_to(target)
    except (sqlite3.Error, OSError, StoreError) as error:
        raise SnapshotFailed(f"{store} cannot be copied to {target}: {error}") from error


def read_objects(path: Path) -> list[Stored]:
    """All objects, as they are now.

    Raises:
        StoreError: it is no good, or not there.
    """
    with name_damage(path), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return load(connection)
