"""Another database in the place of a damaged one: what is put aside, in which order, and the note about it.

Used by `object_store`, which writes the database anew from memory while it is in use, and by `object_store_copies`,
which puts a copy in its place at a start. Owns the directories `damaged-*` beside the store.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from kvedge.runtime.durable_files import sync, write_durably
from kvedge.standalone.apiserver.store.object_store_file import StoreError, check_file, name_damage, prepare
from kvedge.standalone.apiserver.store.stored import Stored

log = logging.getLogger(__name__)

# A dying disk damages the store again and again; what was damaged must not fill it up.
_DAMAGED_KEPT: Final = 2
_NOTE: Final = "restored.json"


class Restored(msgspec.Struct, rename="camel", frozen=True):
    """What was done about a damaged store; times are `20260102T030405Z`.

    `copy` and `copied_at` are empty when it was written anew from memory, and nothing was lost.
    """

    damage: str
    copy: str
    copied_at: str
    restored_at: str
    revision: int


def coming_file(store: Path) -> Path:
    """Where the new database is made."""
    return store.with_name(f"{store.name}.coming")


def write_anew(path: Path, objects: Iterable[Stored], revision: int) -> None:
    """Make a database with these objects.

    Raises:
        sqlite3.Error, OSError: there is no room, or the disk does not take it.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        prepare(connection)
        connection.execute("BEGIN")
        rows = ((*stored.key, stored.revision, stored.body) for stored in objects)
        connection.executemany("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
        connection.execute("COMMIT")
        # One file, which can be renamed: the log is written back and gone.
        connection.execute("PRAGMA journal_mode = DELETE")


def put_in_place(store: Path, restored: Restored) -> None:
    """Put the damaged database aside and the coming one in its place.

    Each step leaves either the old database, none (which counts as damaged), or the new one.

    Raises:
        OSError: the disk does not take it.
    """
    coming = coming_file(store)
    sync(coming)
    aside = _make_aside(store, restored.restored_at)
    write_durably(aside / _NOTE, msgspec.json.encode(restored))
    for suffix in ("", "-wal", "-shm"):
        part = store.with_name(store.name + suffix)
        if part.exists():
            part.rename(aside / part.name)
    sync(aside)
    coming.rename(store)
    sync(store.parent)
    for old in sorted(_find_damaged(store))[:-_DAMAGED_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def take_up(store: Path, least: int) -> None:
    """Finish what a kill interrupted between the two steps: the old database is away, the new one is whole.

    Args:
        least: the revision of the newest copy; an older leftover is none that anybody waits for.
    """
    coming = coming_file(store)
    if store.exists() or not coming.exists():
        return
    try:
        check_file(coming)
        if _revision(coming) >= least:
            coming.rename(store)
            sync(store.parent)
    except StoreError as error:
        log.warning("%s is of no use: %s", coming, error)


def _revision(path: Path) -> int:
    with name_damage(path), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT value FROM counters WHERE name = 'revision'").fetchone()[0])


def find_last_restored(store: Path) -> tuple[Restored, Path] | None:
    """What was last put back, and where the damaged files are; None once somebody has removed those."""
    for directory in sorted(_find_damaged(store), reverse=True):
        try:
            return msgspec.json.decode((directory / _NOTE).read_bytes(), type=Restored), directory
        except (OSError, msgspec.DecodeError):
            # Moved aside by hand, or not finished: it tells nothing.
            continue
    return None


def _make_aside(store: Path, moment: str) -> Path:
    number = 1
    while True:
        aside = store.parent / (f"damaged-{moment}" if number == 1 else f"damaged-{moment}.{number}")
        try:
            aside.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return aside


def _find_damaged(store: Path) -> list[Path]:
    return [path for path in store.parent.glob("damaged-*") if path.is_dir()]
