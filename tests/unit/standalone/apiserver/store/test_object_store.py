"""The database file: what is committed, what is refused, what is said when it cannot be used."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kvedge.standalone.apiserver.store.object_store import ObjectStore, RevisionMismatch, StoreWriteFailed
from kvedge.standalone.apiserver.store.object_store_file import StoreBusy, StoreCorrupt, StoreTooNew
from kvedge.standalone.apiserver.store.stored import Change, ObjectKey, Write

_KEY = ObjectKey("widgets", "n", "a")


def write(name: str = "a", expected: int = 0, deletes: bool = False, **spec: Any) -> Write:
    """A write of a Widget."""
    obj = {"metadata": {"name": name}, "spec": spec}
    return Write(ObjectKey("widgets", "n", name), expected, obj, deletes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "kvedge.db"


@pytest.fixture
def store(path: Path) -> Iterator[ObjectStore]:
    """An open store that takes writes."""
    made = ObjectStore(path)
    made.open()
    made.start(lambda changes: None)
    yield made
    made.stop()


def rows(path: Path) -> list[tuple[str, int]]:
    """The names and revisions in the file, read by somebody else."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, revision FROM objects ORDER BY name").fetchall()


def test_an_answered_write_is_in_the_file(store: ObjectStore, path: Path) -> None:
    change = store.submit(write(x=1)).result(60)
    assert change.current.revision == 2
    assert change.current.load() == {"metadata": {"name": "a", "resourceVersion": "2"}, "spec": {"x": 1}}
    assert rows(path) == [("a", 2)]


def test_each_write_has_its_own_revision_and_knows_what_was_before(store: ObjectStore) -> None:
    created = store.submit(write(x=1)).result(60)
    updated = store.submit(write(expected=2, x=2)).result(60)
    deleted = store.submit(write(expected=3, deletes=True, x=2)).result(60)
    assert [change.type for change in (created, updated, deleted)] == ["ADDED", "MODIFIED", "DELETED"]
    assert [change.revision for change in (created, updated, deleted)] == [2, 3, 4]
    assert updated.previous is created.current
    assert deleted.previous is updated.current
    assert deleted.current.load()["metadata"]["resourceVersion"] == "4"


def test_a_write_on_an_old_base_is_refused(store: ObjectStore, path: Path) -> None:
    store.submit(write()).result(60)
    with pytest.raises(RevisionMismatch) as caught:
        store.submit(write(expected=7)).result(60)
    assert (caught.value.expected, caught.value.found) == (7, 2)
    with pytest.raises(RevisionMismatch):
        store.submit(write()).result(60)
    with pytest.raises(RevisionMismatch):
        store.submit(write("other", expected=3, deletes=True)).result(60)
    assert rows(path) == [("a", 2)]


def test_writes_that_wait_together_share_a_commit(path: Path) -> None:
    store = ObjectStore(path)
    store.open()
    commits: list[int] = []
    entered, go = threading.Event(), threading.Event()

    def on_commit(changes: Sequence[Change]) -> None:
        commits.append(len(changes))
        entered.set()
        go.wait(60)

    store.start(on_commit)
    first = store.submit(write("first"))
    assert entered.wait(60)
    others = [store.submit(write(f"w{number}")) for number in range(50)]
    go.set()
    for future in (first, *others):
        future.result(60)
    store.stop()
    assert commits == [1, 50]


def test_within_a_commit_each_write_sees_those_before_it(path: Path) -> None:
    store = ObjectStore(path)
    store.open()
    futures = [
        store.submit(write(x=1)),
        store.submit(write(expected=2, x=2)),
        store.submit(write(expected=2, x=3)),
        store.submit(write(expected=3, deletes=True)),
        store.submit(write(x=4)),
    ]
    store.start(lambda changes: None)
    assert [future.exception(5) is None for future in futures] == [True, True, False, True, True]
    store.stop()
    assert rows(path) == [("a", 5)]


def test_the_revision_goes_on_after_a_restart(path: Path) -> None:
    first = ObjectStore(path)
    first.open()
    first.start(lambda changes: None)
    first.submit(write()).result(60)
    first.submit(write(expected=2, deletes=True)).result(60)
    first.stop()
    second = ObjectStore(path)
    assert second.open() == []
    assert second.revision == 3
    second.start(lambda changes: None)
    assert second.submit(write()).result(60).revision == 4
    second.stop()


def test_a_write_that_was_given_up_before_its_turn_is_not_made(path: Path) -> None:
    store = ObjectStore(path)
    store.open()
    given_up, kept = store.submit(write("given-up")), store.submit(write("kept"))
    assert given_up.cancel()
    store.start(lambda changes: None)
    kept.result(60)
    store.stop()
    assert rows(path) == [("kept", 2)]


def test_a_full_disk_fails_the_write_and_loses_nothing(store: ObjectStore, path: Path) -> None:
    store.submit(write(x=1)).result(60)
    connection = store._connection
    assert connection is not None
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreWriteFailed, match=r"cannot be written: .*full; nothing was changed"):
        store.submit(write("big", text="x" * 1_000_000)).result(60)
    assert rows(path) == [("a", 2)]
    connection.execute("PRAGMA max_page_count = 1000000")
    assert store.submit(write("big", text="x" * 1_000_000)).result(60).revision == 3


def test_what_cannot_be_encoded_is_refused_and_the_others_are_made(store: ObjectStore) -> None:
    with pytest.raises(TypeError):
        store.submit(write("odd", value=object())).result(60)
    assert store.submit(write("good")).result(60).revision == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_writer_that_has_ended(path: Path) -> None:
    store = ObjectStore(path)
    store.open()

    def fail(changes: Sequence[Change]) -> None:
        raise ZeroDivisionError

    store.start(fail)
    assert store.failure() is None
    with pytest.raises(StoreWriteFailed, match="writer ended: ZeroDivisionError"):
        store.submit(write()).result(60)
    with pytest.raises(StoreWriteFailed):
        store.submit(write("b")).result(60)
    assert "ZeroDivisionError" in str(store.failure())
    store.stop()


def test_the_file_survives_what_the_promise_says(store: ObjectStore) -> None:
    connection = store._connection
    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    # 2 is FULL: NORMAL may lose acknowledged commits when the power fails.
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_a_copy_is_whole_while_the_store_is_used(store: ObjectStore, path: Path, tmp_path: Path) -> None:
    for number in range(20):
        store.submit(write(f"w{number:02}")).result(60)
    target = tmp_path / "copy.db"
    store.copy_to(target)
    assert len(rows(target)) == 20
    assert target.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob("*.unfinished"))
    again = ObjectStore(target)
    assert len(again.open()) == 20
    again.stop()


def test_only_one_process_may_have_it_open(store: ObjectStore, path: Path) -> None:
    with pytest.raises(StoreBusy, match="in use by another process"):
        ObjectStore(path).open()


def test_a_newer_schema_is_refused_with_a_remedy(path: Path) -> None:
    store = ObjectStore(path)
    store.open()
    store.stop()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreTooNew, match=r"schema version 2, this kvedge knows up to 1.*another data directory"):
        ObjectStore(path).open()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    again = ObjectStore(path)
    again.open()
    again.stop()


def test_somebody_elses_file_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("hello" * 1000)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        ObjectStore(path).open()
    assert path.read_text() == "hello" * 1000
