"""The objects on disk: the only module that writes to the SQLite database.

The API server submits writes; one thread commits them, many to a transaction when many wait (a commit is one fsync,
whatever it holds), and hands what was committed to `on_commit`. A write that was answered is on disk: WAL with
synchronous=FULL.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from kvedge.runtime.durable_files import put_durably
from kvedge.standalone.apiserver.store.object_store_file import (
    StoreError,
    check,
    check_file,
    corrupt,
    is_damage,
    is_full,
    load,
    name_damage,
    prepare,
    store_lock,
)
from kvedge.standalone.apiserver.store.object_store_mend import Restored, coming_file, put_in_place, write_anew
from kvedge.standalone.apiserver.store.stored import (
    LARGEST_OBJECT,
    Change,
    ChangeType,
    ObjectKey,
    ObjectTooLarge,
    Stored,
    Write,
)

log = logging.getLogger(__name__)

# So many writes may share a commit; more would keep the first of them waiting.
_BATCH = 256
# Writers wait when so many are queued: the disk, not memory, sets the pace.
_QUEUE = 4096


class StoreWriteFailed(StoreError):
    """A commit failed (a full disk, an I/O error): nothing of it was stored."""


class StoreFull(StoreWriteFailed):
    """A commit failed as the disk has no room; it may succeed when there is some again."""


class RevisionMismatch(Exception):
    """The key does not have the expected revision now. `found` is the one it has, 0 when there is no such object."""

    def __init__(self, key: ObjectKey, expected: int, found: int) -> None:
        super().__init__(f"{'/'.join(key)} is at revision {found}, not {expected}")
        self.key = key
        self.expected = expected
        self.found = found


Commit = Callable[[Sequence[Change]], None]
_Pending = tuple[Write, "Future[Change]"]


class ObjectStore:
    """A database file and its writer thread.

    `open()` checks and loads it, `start(on_commit)` begins to take writes. `on_commit` is called in the writer thread
    with the changes of each commit in their order, before any of their futures is done.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock: contextlib.ExitStack | None = None
        self._broken: str | None = None
        # Writes, "mend" for what the file needs, and None for the end.
        self._waiting: queue.Queue[_Pending | Literal["mend"] | None] = queue.Queue(_QUEUE)
        self._damage = ""
        # How often the file was written anew.
        self.mended = 0
        self._thread: threading.Thread | None = None
        self._on_commit: Commit = lambda changes: None
        self._current: dict[ObjectKey, Stored] = {}
        self.revision = 0

    def open(self, must_exist: bool = False) -> list[Stored]:
        """Check the database and return its objects; a new file gets its tables.

        Args:
            must_exist: a file that is missing or empty has been lost, and is not a beginning.

        Raises:
            StoreBusy, StoreCorrupt, StoreTooNew: see there.
            StoreError: it cannot be read or written, as on a full disk.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(store_lock(self._path))
        try:
            if must_exist and not (self._path.exists() and self._path.stat().st_size):
                raise corrupt(self._path, "the file is missing or empty, and copies of it are there")
            self._path.touch(mode=0o600, exist_ok=True)
            with name_damage(self._path):
                objects = self._open()
        except OSError as error:
            self._close()
            raise StoreError(f"the object store {self._path} cannot be opened: {error.strerror}") from error
        except StoreError:
            self._close()
            raise
        self._current = {stored.key: stored for stored in objects}
        return objects

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=2, isolation_level=None, check_same_thread=False)
        self._connection = connection
        check(connection, self._path)
        prepare(connection)
        return connection

    def _open(self) -> list[Stored]:
        connection = self._connect()
        self.revision = connection.execute("SELECT value FROM counters WHERE name = 'revision'").fetchone()[0]
        return load(connection)

    def skip_to(self, revision: int) -> None:
        """Count on from a higher revision. Only before `start()`."""
        assert self._connection is not None
        assert self._thread is None
        assert revision >= self.revision
        self._connection.execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
        self.revision = revision

    def start(self, on_commit: Commit) -> None:
        """Begin to commit writes."""
        self._on_commit = on_commit
        self._thread = threading.Thread(target=self._run, name="kvedge-store-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Write) -> Future[Change]:
        """Queue a write.

        The future fails with RevisionMismatch, ObjectTooLarge or StoreWriteFailed; when it succeeds, it is on disk.
        """
        future: Future[Change] = Future()
        self._waiting.put((write, future))
        if self._broken is not None:
            self._refuse_waiting()
        return future

    def stop(self) -> None:
        """Commit what was submitted and close the file."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None
        self._close()

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy of the database while it is in use; it appears under its name when it is whole,
        checked and on disk.

        Raises:
            sqlite3.Error, OSError, StoreError: it could not be made; nothing is left of it.
        """
        unfinished = target.with_name(target.name + ".unfinished")
        unfinished.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as source:
                source.execute("VACUUM INTO ?", (str(unfinished),))
            unfinished.chmod(0o600)
            check_file(unfinished)
            # SQLite leaves it to the kernel when such a copy reaches the disk.
            put_durably(unfinished, target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def mend(self, damage: str) -> None:
        """Have the file written anew from memory, as something in it cannot be read any more."""
        self._damage = damage
        self._waiting.put("mend")

    def failure(self) -> str | None:
        """Why nothing is written any more, or None while the writer thread works."""
        return self._broken

    def _run(self) -> None:
        batch: list[_Pending] = []
        try:
            while True:
                batch, stopping = self._next_batch()
                if batch:
                    self._commit(batch)
                if self._damage:
                    self._mend(self._damage)
                if stopping:
                    return
        except BaseException as error:
            # A fault of ours. Callers must not wait for a thread that is no more; the thread's own hook reports it.
            self._broken = f"the object store's writer ended: {type(error).__name__}: {error}"
            for _, future in batch:
                if not future.done():
                    future.set_exception(StoreWriteFailed(self._broken))
            self._refuse_waiting()
            raise

    def _refuse_waiting(self) -> None:
        while True:
            try:
                pending = self._waiting.get_nowait()
            except queue.Empty:
                return
            if pending is not None and pending != "mend" and pending[1].set_running_or_notify_cancel():
                pending[1].set_exception(StoreWriteFailed(str(self._broken)))

    def _next_batch(self) -> tuple[list[_Pending], bool]:
        batch: list[_Pending] = []
        pending = self._waiting.get()
        while pending is not None:
            if pending != "mend":
                batch.append(pending)
            if len(batch) >= _BATCH:
                return batch, False
            try:
                pending = self._waiting.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: list[_Pending]) -> None:
        """Apply a batch in order: each write sees those before it.

        Those that do not fit are refused, the rest is committed.
        """
        connection = self._connection
        assert connection is not None
        done: list[tuple[Future[Change], Change]] = []
        refused: list[tuple[Future[Change], Exception]] = []
        overlay: dict[ObjectKey, Stored | None] = {}
        revision = self.revision
        try:
            connection.execute("BEGIN IMMEDIATE")
            for write, future in batch:
                if not future.set_running_or_notify_cancel():
                    continue
                previous = overlay[write.key] if write.key in overlay else self._current.get(write.key)
                found = previous.revision if previous else 0
                if found != write.expected:
                    refused.append((future, RevisionMismatch(write.key, write.expected, found)))
                    continue
                try:
                    change = _change(write, revision + 1, previous)
                except (TypeError, ValueError, OverflowError) as error:
                    refused.append((future, error))
                    continue
                revision += 1
                _execute(connection, change)
                overlay[write.key] = None if write.deletes else change.current
                done.append((future, change))
            connection.execute("UPDATE counters SET value = ? WHERE name = 'revision'", (revision,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._abandon(connection, error, batch)
            return
        self.revision = revision
        self._remember(overlay)
        self._on_commit([change for _, change in done])
        for future, change in done:
            future.set_result(change)
        for future, problem in refused:
            future.set_exception(problem)

    def _remember(self, overlay: dict[ObjectKey, Stored | None]) -> None:
        for key, stored in overlay.items():
            if stored is None:
                self._current.pop(key, None)
            else:
                self._current[key] = stored

    def _abandon(self, connection: sqlite3.Connection, error: sqlite3.Error, batch: list[_Pending]) -> None:
        log.error("the object store could not commit %d writes: %s", len(batch), error)
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if is_damage(error):
            self._damage = str(error)
        failure = StoreFull if is_full(error) else StoreWriteFailed
        for _, future in batch:
            # A future that was cancelled before its turn takes no answer.
            if not future.cancelled():
                future.set_exception(
                    failure(f"the object store {self._path} cannot be written: {error}; nothing was changed")
                )

    def _mend(self, damage: str) -> None:
        """Everything that was ever answered is in memory: a file that is no good is replaced by a new one with it."""
        self._damage = ""
        moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        log.error("the object store %s is damaged (%s): it is written anew from memory", self._path, damage)
        try:
            write_anew(coming_file(self._path), self._current.values(), self.revision)
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            put_in_place(self._path, Restored(damage, "", "", moment, self.revision))
            with name_damage(self._path):
                self._connect()
        except (sqlite3.Error, OSError, StoreError) as error:
            # The process ends, and the next start puts back what it can.
            self._broken = f"the object store {self._path} is damaged ({damage}) and cannot be written anew: {error}"
            self._refuse_waiting()
            return
        self.mended += 1

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _change(write: Write, revision: int, previous: Stored | None) -> Change:
    write.obj["metadata"]["resourceVersion"] = str(revision)
    current = Stored(write.key, revision, msgspec.json.encode(write.obj))
    if len(current.body) > LARGEST_OBJECT and not write.deletes:
        raise ObjectTooLarge(f"{'/'.join(write.key)} would have {len(current.body)} bytes")
    if write.deletes:
        return Change(ChangeType.DELETED, current, previous)
    return Change(ChangeType.MODIFIED if previous else ChangeType.ADDED, current, previous)


def _execute(connection: sqlite3.Connection, change: Change) -> None:
    if change.type is ChangeType.DELETED:
        connection.execute("DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", change.current.key)
        return
    connection.execute(
        "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
        (*change.current.key, change.revision, change.current.body),
    )
