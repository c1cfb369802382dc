"""Copies of the embedded API's store: made at the start and by schedule, put back when the store is damaged."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kvedge import __version__
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.loops import copy_loop
from kvedge.standalone.apiserver.store import object_store_copies, object_store_mend
from kvedge.standalone.apiserver.store.copy_plan import copies_of
from kvedge.standalone.apiserver.store.object_store import ObjectStore, StoreWriteFailed
from kvedge.standalone.apiserver.store.object_store_copies import REVISION_GAP, CopyFailed, StoreCopies
from kvedge.standalone.apiserver.store.object_store_file import StoreCorrupt, StoreTooNew, check_file
from kvedge.standalone.apiserver.store.stored import ObjectKey, Write
from tests.contract.apiserver.conftest import embedded
from tests.support.api_client import ApiClient, eventually, names
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract

_NODE = "/api/v1/nodes/box"


@contextmanager
def running(directory: Path) -> Iterator[ApiClient]:
    """The embedded API on a data directory, by its administrator."""
    server = embedded(directory)
    try:
        yield next(server).admin
    finally:
        server.close()


def database(directory: Path) -> Path:
    return directory / "state" / "kvedge.db"


def copies(directory: Path) -> list[Path]:
    """The copies, newest first."""
    return [
        directory / "backup" / copy.name for copy in copies_of(path.name for path in (directory / "backup").iterdir())
    ]


def copy_now(directory: Path) -> None:
    """What the loop does when its time has come."""
    path = database(directory)
    store = ObjectStore(path)
    store.open()
    StoreCopies(path, directory / "backup").make(store)
    store.stop()


def damage(path: Path) -> None:
    """Overwrite most of a database, as a dying disk does."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))


def condition(admin: ApiClient, kind: str) -> dict[str, Any] | None:
    """The Node's condition of that type."""
    conditions = admin.get(_NODE).json.get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == kind), None)


def test_a_start_makes_a_copy_that_can_be_opened_and_the_node_names_it(tmp_path: Path) -> None:
    with running(tmp_path) as admin:
        admin.made("/api/v1/nodes", {"metadata": {"name": "box"}})
        found = eventually(lambda: condition(admin, "StoreCopied"))
        assert (found["status"], found["reason"]) == ("True", "CopyMade")
        newest = copies(tmp_path)[0]
        assert str(newest) in found["message"]
        assert newest.stat().st_mode & 0o077 == 0
        assert newest.parent.stat().st_mode & 0o077 == 0
        assert condition(admin, "StoreRestored") is None
    assert __version__ in newest.name
    assert check_file(newest) >= 5


def test_copies_follow_a_schedule_and_nothing_new_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_loop, "PERIOD_SECONDS", 0.05)
    with running(tmp_path) as admin:
        eventually(lambda: copies(tmp_path))
        admin.made(config_maps("default"), config_map("a"))
        revision = int(admin.get(config_maps("default")).json["metadata"]["resourceVersion"])
        newest = eventually(
            lambda: copies_of([copies(tmp_path)[0].name])[0].revision >= revision and copies(tmp_path)[0]
        )
        store = ObjectStore(newest)
        assert "a" in [stored.key.name for stored in store.open()]
        store.stop()

        def is_quiet() -> bool:
            # Several turns, in which nothing is written: the server itself has something to write when it begins.
            before = copies(tmp_path)
            threading.Event().wait(0.2)
            return copies(tmp_path) == before

        eventually(is_quiet)


def test_writers_go_on_while_a_copy_is_made(tmp_path: Path) -> None:
    store = ObjectStore(database(tmp_path))
    store.open()
    store.start(lambda changes: None)
    for number in range(200):
        store.submit(_write(f"c{number}", "x" * 5000)).result(10)
    stop, made = threading.Event(), threading.Event()

    def copy() -> None:
        keeper = StoreCopies(database(tmp_path), tmp_path / "backup")
        while not stop.is_set():
            keeper.make(store)
            made.set()

    thread = threading.Thread(target=copy, name="copier")
    thread.start()
    try:
        number = 0
        while not made.is_set() or number < 100:
            store.submit(_write(f"later{number}", "x")).result(10)
            number += 1
    finally:
        stop.set()
        thread.join(30)
        store.stop()
    assert all(check_file(path) >= 200 for path in copies(tmp_path))
    assert not list((tmp_path / "backup").glob("*.unfinished*"))


def _write(name: str, text: str) -> Write:
    return Write(ObjectKey("configmaps", "n", name), 0, {"metadata": {"name": name}, "data": {"text": text}})


def test_a_damaged_store_is_put_back_by_itself_and_the_node_says_so(tmp_path: Path) -> None:
    with running(tmp_path) as admin:
        admin.made("/api/v1/nodes", {"metadata": {"name": "box"}})
        made = admin.made(widgets("default"), widget("kept", 3))
    copy_now(tmp_path)
    with running(tmp_path) as admin:
        lost = admin.made(config_maps("default"), config_map("lost"))
    copy_now(tmp_path)
    damage(database(tmp_path))
    # The newest copy is no good either.
    copies(tmp_path)[0].write_bytes(b"no database at all")
    with running(tmp_path) as admin:
        assert admin.get(widgets("default", "kept")).json == made
        assert admin.get(config_maps("default", "lost")).status == 404
        found = eventually(lambda: condition(admin, "StoreRestored"))
        assert (found["status"], found["reason"]) == ("True", "StoreDamaged")
        aside = next((tmp_path / "state").glob("damaged-*"))
        assert str(aside) in found["message"]
        assert (aside / "kvedge.db").is_file()
        newer = admin.made(config_maps("default"), config_map("new"))
        # Nothing that a client knows from before is given another meaning.
        assert int(newer["metadata"]["resourceVersion"]) > int(lost["metadata"]["resourceVersion"]) + REVISION_GAP // 2
        watch = admin.watch(config_maps("default"), resourceVersion=lost["metadata"]["resourceVersion"])
        assert watch.wait(1)[0]["object"]["code"] == 410
        watch.close()
    for path in aside.iterdir():
        path.unlink()
    aside.rmdir()
    with running(tmp_path) as admin:
        eventually(lambda: condition(admin, "StoreRestored") is None)
        assert names(admin.get(config_maps("default"))) == ["new"]


@pytest.mark.parametrize("how", ["missing", "empty", "torn object"])
def test_a_lost_or_unreadable_store_counts_as_damaged(tmp_path: Path, how: str) -> None:
    with running(tmp_path) as admin:
        admin.made(config_maps("default"), config_map("kept"))
    copy_now(tmp_path)
    path = database(tmp_path)
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    else:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE objects SET body = substr(body, 1, 40) WHERE resource = 'configmaps'")
    with running(tmp_path) as admin:
        assert names(admin.get(config_maps("default"))) == ["kept"]


def test_without_a_good_copy_a_damaged_store_is_refused_with_a_remedy_and_left_alone(tmp_path: Path) -> None:
    with running(tmp_path) as admin:
        admin.made(config_maps("default"), config_map("a"))
    damage(database(tmp_path))
    for path in copies(tmp_path):
        path.unlink()
    content = database(tmp_path).read_bytes()
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"is damaged .* 'backup'"):
            EmbeddedApi(ApiServerConfig(tmp_path, port=0)).start()
    assert database(tmp_path).read_bytes() == content


def test_a_store_of_a_newer_version_is_never_replaced_by_an_older_copy(tmp_path: Path) -> None:
    with running(tmp_path) as admin:
        admin.made(config_maps("default"), config_map("a"))
    with closing(sqlite3.connect(database(tmp_path))) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew):
        EmbeddedApi(ApiServerConfig(tmp_path, port=0)).start()
    assert not list((tmp_path / "state").glob("damaged-*"))


@pytest.mark.parametrize("step", range(3), ids=["before", "the old one is away", "the new one is there"])
def test_a_start_that_was_killed_while_it_put_a_copy_back_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with running(tmp_path) as admin:
        admin.made(config_maps("default"), config_map("kept"))
    copy_now(tmp_path)
    damage(database(tmp_path))

    sync = object_store_mend.sync
    synced: list[Path] = []

    def killed(path: Path) -> None:
        if len(synced) == step:
            raise KeyboardInterrupt
        sync(path)
        synced.append(path)

    with monkeypatch.context() as patch:
        patch.setattr(object_store_mend, "sync", killed)
        with pytest.raises(KeyboardInterrupt):
            EmbeddedApi(ApiServerConfig(tmp_path, port=0)).start()
    with running(tmp_path) as admin:
        assert names(admin.get(config_maps("default"))) == ["kept"]


@pytest.mark.parametrize("newer", [True, False], ids=["newest of all", "left from before"])
def test_a_database_that_was_about_to_be_put_in_place_is_taken_up(tmp_path: Path, newer: bool) -> None:
    with running(tmp_path) as admin:
        admin.made(config_maps("default"), config_map("kept"))
    copy_now(tmp_path)
    store = ObjectStore(database(tmp_path))
    objects = [stored for stored in store.open() if newer or stored.key.name != "kept"]
    revision = store.revision + 1 if newer else 3
    store.stop()
    object_store_mend.write_anew(object_store_mend.coming_file(database(tmp_path)), objects, revision)
    database(tmp_path).unlink()
    with running(tmp_path) as admin:
        assert names(admin.get(config_maps("default"))) == ["kept"]
        # The copy that is older than the one about to come was not needed.
        assert (StoreCopies(database(tmp_path), tmp_path / "backup").find_last_restored() is None) == newer


def test_a_store_that_was_put_back_by_hand_counts_on_from_where_clients_were(tmp_path: Path) -> None:
    with running(tmp_path):
        pass
    with running(tmp_path) as admin:
        for number in range(5):
            admin.made(config_maps("default"), config_map(f"c{number}"))
        seen = int(admin.get(config_maps("default")).json["metadata"]["resourceVersion"])
    copy_now(tmp_path)
    for suffix in ("", "-wal", "-shm"):
        database(tmp_path).with_name(f"kvedge.db{suffix}").unlink(missing_ok=True)
    copies(tmp_path)[-1].rename(database(tmp_path))
    with running(tmp_path) as admin:
        assert int(admin.get(config_maps("default")).json["metadata"]["resourceVersion"]) > seen


@contextmanager
def in_use(directory: Path) -> Iterator[ObjectStore]:
    """A store with 100 objects, all of them in the database file and none in SQLite's own memory."""
    store = ObjectStore(database(directory))
    store.open()
    store.start(lambda changes: None)
    for number in range(100):
        store.submit(_write(f"c{number}", "x" * 3000)).result(10)
    assert store._connection is not None
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._connection.execute("PRAGMA cache_size = 0")
    try:
        yield store
    finally:
        store.stop()


def held(directory: Path) -> set[str]:
    """What is in the database when it is opened anew."""
    store = ObjectStore(database(directory))
    found = {stored.key.name for stored in store.open()}
    store.stop()
    return found


def test_a_store_found_damaged_by_a_write_is_written_anew_and_nothing_answered_is_lost(tmp_path: Path) -> None:
    with in_use(tmp_path) as store:
        damage(database(tmp_path))
        answered = {f"c{number}" for number in range(100)}
        refused = 0
        for number in range(100):
            failure = store.submit(_write(f"a{number}", "y" * 3000)).exception(10)
            if failure is None:
                answered.add(f"a{number}")
            else:
                assert isinstance(failure, StoreWriteFailed)
                refused += 1
        assert store.failure() is None
        assert store.mended >= 1
        assert 1 <= refused < 10
        revision = store.revision
    assert held(tmp_path) == answered
    again = ObjectStore(database(tmp_path))
    again.open()
    assert again.revision == revision
    again.stop()
    noted = StoreCopies(database(tmp_path), tmp_path / "backup").find_last_restored()
    assert noted is not None
    condition = copy_loop.make_restored_condition(noted)
    assert condition is not None
    assert condition["reason"] == "WrittenAnew"
    assert "nothing is lost" in condition["message"]
    assert (noted[1] / "kvedge.db").is_file()


def test_a_store_found_damaged_by_a_copy_is_written_anew(tmp_path: Path) -> None:
    keeper = StoreCopies(database(tmp_path), tmp_path / "backup")
    with in_use(tmp_path) as store:
        damage(database(tmp_path))
        with pytest.raises(CopyFailed):
            keeper.make(store)
        eventually(lambda: store.mended == 1)
        assert check_file(tmp_path / "backup" / keeper.make(store)) == 100
        store.submit(_write("later", "x")).result(10)
    assert held(tmp_path) == {*(f"c{number}" for number in range(100)), "later"}


def test_a_store_that_cannot_be_written_anew_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("kvedge.standalone.apiserver.store.object_store.write_anew", full)
    with in_use(tmp_path) as store:
        damage(database(tmp_path))
        answers = [store.submit(_write(f"a{number}", "y" * 3000)).exception(10) for number in range(100)]
        assert isinstance(answers[-1], StoreWriteFailed)
        assert "cannot be written anew" in str(store.failure())


def test_a_server_mends_its_store_and_tells_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_loop, "_LOOK_SECONDS", 0.05)
    with running(tmp_path) as admin:
        admin.made("/api/v1/nodes", {"metadata": {"name": "box"}})
        eventually(lambda: condition(admin, "StoreCopied"))
        for number in range(50):
            admin.made(config_maps("default"), config_map(f"c{number}", text="x" * 3000))
        # A look at the file by somebody else has SQLite write its log back.
        with closing(sqlite3.connect(database(tmp_path))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage(database(tmp_path))

        def told() -> object:
            admin.post(config_maps("default"), config_map(f"more{next(_numbers)}", text="x" * 30_000))
            return condition(admin, "StoreRestored")

        found = eventually(told, seconds=20)
        assert found["reason"] == "WrittenAnew"
        there = set(names(admin.get(config_maps("default"))))
    with running(tmp_path) as admin:
        assert set(names(admin.get(config_maps("default")))) == there


_numbers = itertools.count()


def test_a_copy_that_cannot_be_made_is_said_on_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ObjectStore, target: Path) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(ObjectStore, "copy_to", full)
    with running(tmp_path) as admin:
        admin.made("/api/v1/nodes", {"metadata": {"name": "box"}})
        found = eventually(lambda: condition(admin, "StoreCopied"))
        assert (found["status"], found["reason"]) == ("False", "CopyFailed")
        assert "disk is full" in found["message"]
        admin.made(config_maps("default"), config_map("served"))


def test_what_an_interrupted_copy_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    left = tmp_path / "backup" / "kvedge-20260102T030405Z-r1-0.1.0.db.unfinished"
    left.write_bytes(b"half")
    store = ObjectStore(database(tmp_path))
    store.open()
    keeper = StoreCopies(database(tmp_path), tmp_path / "backup")
    keeper.make(store)
    assert not left.exists()
    store.stop()
    (tmp_path / "elsewhere").write_text("a file where the directory should be")
    with pytest.raises(CopyFailed, match="no copy of the object store could be made"):
        StoreCopies(database(tmp_path), tmp_path / "elsewhere").make(ObjectStore(database(tmp_path)))


def test_each_change_of_version_has_a_copy_of_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    store, moment = ObjectStore(database(tmp_path)), datetime(2026, 1, 1, tzinfo=UTC)
    store.open()
    made = []
    for version in ("0.1.0", "0.1.0", "0.2.0", "0.1.0", "0.2.0", "0.2.0"):
        moment += timedelta(minutes=1)
        monkeypatch.setattr(object_store_copies, "__version__", version)
        keeper = StoreCopies(database(tmp_path), tmp_path / "backup", lambda moment=moment: moment)
        keeper.make_before_an_upgrade(store)
        made.append(len(keeper.list_copies()))
    store.stop()
    assert made == [1, 1, 2, 3, 4, 4]
