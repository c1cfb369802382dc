"""The database file of the object store: its tables, its checks, its lock, and what is said when it cannot be used.

Used by `object_store`, which keeps it open, and `object_store_copies`, which checks copies of it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from kvedge.standalone.apiserver.store.stored import ObjectKey, Stored

# Raised with every change of the tables below; a newer database is refused, an older one would be migrated.
SCHEMA_VERSION: Final = 1
# "kved": tells a kvedge database from any other SQLite file.
APPLICATION_ID: Final = 0x6B766564
_LOG_BYTES: Final = 16 << 20
# SQLite's codes for a bad file; the low byte of a code is its class.
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counters VALUES ('revision', 1);
"""


class StoreError(Exception):
    """The database cannot be used; the message says what is wrong and what to do."""


class StoreCorrupt(StoreError):
    """The database is damaged; `detail` is what is wrong with it."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


class StoreTooNew(StoreError):
    """The database was written by a newer kvedge."""


class StoreBusy(StoreError):
    """Another process has the database open."""


@contextmanager
def store_lock(path: Path) -> Iterator[None]:
    """Own a database: two processes with a cache each would overwrite one another.

    The kernel frees the lock when its holder dies.

    Raises:
        StoreBusy: somebody else has it.
    """
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreBusy(
                f"{path} is in use by another process; stop the kvedge that runs on this data directory"
            ) from error
        yield
    finally:
        os.close(descriptor)


def check_file(path: Path) -> int:
    """Check a database that nobody writes to; returns how many objects it holds.

    Raises:
        StoreCorrupt, StoreTooNew: it is no good.
    """
    with name_damage(path), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        check(connection, path)
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise corrupt(path, "it is no database of kvedge")
        return len(load(connection))


def revision_of(path: Path) -> int:
    """The revision that a database counts from, whether somebody writes to it or not.

    Raises:
        StoreError: it is no good, or not there.
    """
    with name_damage(path), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT value FROM counters WHERE name = 'revision'").fetchone()
    if row is None:
        raise corrupt(path, "it counts no revisions")
    return int(row[0])


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Have SQLite read every page.

    Raises:
        StoreCorrupt, StoreTooNew: it is no good.
    """
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA_VERSION:
        raise StoreTooNew(
            f"{path} has schema version {found}, this kvedge knows up to {SCHEMA_VERSION}: it was written by a newer"
            " kvedge. Run that version again, or start with another data directory (a copy of the database from"
            " before the upgrade is in the directory 'backup')."
        )
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    if problems != ["ok"]:
        raise corrupt(path, "; ".join(problems))


def prepare(connection: sqlite3.Connection) -> None:
    """Make an open database keep the promise, and give a new one its tables."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # A burst leaves a long log behind; after the next checkpoint it is cut to this.
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def load(connection: sqlite3.Connection) -> list[Stored]:
    """All objects, each of which can be read: SQLite checks its pages, not what is written on them."""
    objects = [
        Stored(ObjectKey(resource, namespace, name), revision, body)
        for resource, namespace, name, revision, body in connection.execute(
            "SELECT resource, namespace, name, revision, body FROM objects"
        )
    ]
    for stored in objects:
        stored.check()
    return objects


@contextmanager
def name_damage(path: Path) -> Iterator[None]:
    """Turn what SQLite, or a body that is no object, says about a file into StoreCorrupt."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if is_damage(error):
            raise corrupt(path, str(error)) from error
        # A full disk, or one that cannot be written: nothing is wrong with what is on it.
        raise StoreError(f"the object store {path} cannot be opened: {error}") from error
    except (sqlite3.DatabaseError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise corrupt(path, str(error)) from error


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is no good, and not that it cannot be reached or written."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def is_full(error: sqlite3.Error) -> bool:
    """Whether an error says that the disk has no room."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def corrupt(path: Path, detail: str) -> StoreCorrupt:
    """The error for a damaged file."""
    detail = " ".join(detail.split())
    return StoreCorrupt(
        f"the object store {path} is damaged ({detail}). Move it aside and put back the newest copy from the"
        " directory 'backup', or start with an empty one and apply the manifests again.",
        detail,
    )
