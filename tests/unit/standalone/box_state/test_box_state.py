# Tests: kvedge/standalone/box_state/
"""The state of a box in one file: whole or refused, put back as it was, never half of each."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.runtime.services import ServiceError
from kvedge.standalone.apiserver.access.pki import Authority
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.apiserver.store.object_store_copies import StoreCopies
from kvedge.standalone.apiserver.store.stored import ObjectKey, Write
from kvedge.standalone.box_lock import BoxLock
from kvedge.standalone.box_node import node_name
from kvedge.standalone.box_state import state_restore
from kvedge.standalone.box_state.state_check import check_files, check_state
from kvedge.standalone.box_state.state_file import StateError, read_state, write_state
from kvedge.standalone.box_state.state_restore import restore_state

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def put(data_dir: Path, *names: str, resource: str = "widgets") -> int:
    """Objects in a box's store; the revision afterwards."""
    store = ObjectStore(data_dir / "state" / "kvedge.db")
    StoreCopies(data_dir / "state" / "kvedge.db", data_dir / "backup").open_store(store)
    store.start(lambda changes: None)
    for name in names:
        store.submit(Write(ObjectKey(resource, "n", name), 0, {"metadata": {"name": name}}, False)).result(5)
    store.stop()
    return store.revision


def names(data_dir: Path) -> list[str]:
    store = ObjectStore(data_dir / "state" / "kvedge.db")
    found = store.open()
    store.stop()
    return sorted(stored.key.name for stored in found)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A data directory as a box leaves it, with one object."""
    found = tmp_path / "box"
    lock = BoxLock(found)
    lock.start()
    lock.stop()
    Authority(found / "state/pki", "server-ca")
    put(found, "first")
    return found


def starts(box: Path) -> bool:
    """Whether kvedge would start there."""
    lock = BoxLock(box)
    lock.start()
    lock.stop()
    return True


@pytest.fixture
def backup(tmp_path: Path, box: Path) -> Path:
    path = tmp_path / "state.tar.gz"
    write_state(box, path, NOW)
    return path


@pytest.fixture
def running(box: Path) -> Iterator[BoxLock]:
    lock = BoxLock(box)
    lock.start()
    yield lock
    lock.stop()


def test_another_box_becomes_this_one(tmp_path: Path, box: Path, backup: Path) -> None:
    other = tmp_path / "other"
    restored = restore_state(other, backup, NOW)
    assert restored.aside is None
    assert names(other) == ["first"]
    for name in ("server-ca.crt", "server-ca.key"):
        assert (other / "state/pki" / name).read_bytes() == (box / "state/pki" / name).read_bytes()
        assert (other / "state/pki" / name).stat().st_mode & 0o777 == 0o600
    assert (other / "state/layout").read_text() == (box / "state/layout").read_text()
    assert starts(other)


def test_another_box_takes_over_the_name_to_which_vms_are_bound(tmp_path: Path, box: Path) -> None:
    put(box, "edge-1", resource="nodes")
    write_state(box, tmp_path / "state.tar.gz", NOW)
    other = tmp_path / "other"
    (other / "state").mkdir(parents=True)
    (other / "state/node-name").write_text("spare\n")
    restored = restore_state(other, tmp_path / "state.tar.gz", NOW)
    assert node_name(other / "state", "", "spare") == "edge-1"
    assert restored.aside is not None
    assert (restored.aside / "node-name").read_text() == "spare\n"


@pytest.mark.parametrize("nodes", [(), ("edge-1", "edge-2")], ids=["no node", "two nodes"])
def test_a_box_keeps_its_name_when_the_objects_do_not_say_another(
    tmp_path: Path, box: Path, nodes: tuple[str, ...]
) -> None:
    put(box, *nodes, resource="nodes")
    write_state(box, tmp_path / "state.tar.gz", NOW)
    other = tmp_path / "other"
    (other / "state").mkdir(parents=True)
    (other / "state/node-name").write_text("spare\n")
    restore_state(other, tmp_path / "state.tar.gz", NOW)
    assert node_name(other / "state", "", "renamed") == "spare"


def test_a_box_of_an_earlier_version_has_the_name_that_its_objects_have(box: Path) -> None:
    assert node_name(box / "state", "", "renamed") == "renamed"
    put(box, "edge-1", resource="nodes")
    assert node_name(box / "state", "", "renamed") == "edge-1"
    assert node_name(box / "state", "as-set", "renamed") == "as-set"
    (box / "backup").mkdir()
    (box / "state/kvedge.db").rename(box / "backup/kvedge-20260102T030405Z-r9-0.1.0.db")
    assert node_name(box / "state", "", "renamed") == "edge-1"


def test_a_backup_is_for_its_owner_alone_and_leaves_nothing_else(tmp_path: Path, backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"box", "state.tar.gz"}


def test_a_backup_is_made_while_the_store_is_in_use(tmp_path: Path, box: Path, running: BoxLock) -> None:
    store = ObjectStore(box / "state" / "kvedge.db")
    store.open()
    store.start(lambda changes: None)
    store.submit(Write(ObjectKey("widgets", "n", "late"), 0, {"metadata": {"name": "late"}}, False)).result(5)
    head = write_state(box, tmp_path / "b.tar.gz", NOW)
    store.stop()
    assert (head.objects, head.revision) == (2, store.revision)


def test_what_was_there_is_kept_and_revisions_never_come_again(box: Path, backup: Path) -> None:
    seen = put(box, "second", "third")
    restored = restore_state(box, backup, NOW)
    assert names(box) == ["first"]
    assert restored.aside is not None
    kept = ObjectStore(restored.aside / "kvedge.db")
    assert len(kept.open()) == 3
    kept.stop()
    assert put(box, "fourth") > seen + 1000


def test_nothing_is_put_back_while_kvedge_runs(box: Path, backup: Path, running: BoxLock) -> None:
    with pytest.raises(StateError, match="in use by another kvedge"):
        restore_state(box, backup, NOW)


def test_a_file_that_is_cut_off_changes_nothing(tmp_path: Path, box: Path, backup: Path) -> None:
    put(box, "second")
    data = backup.read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for part in range(16):
        cut.write_bytes(data[: len(data) * part // 16])
        with pytest.raises(StateError):
            restore_state(box, cut, NOW)
    assert names(box) == ["first", "second"]
    assert not list((box / "state").glob("*re*-*"))
    assert starts(box)


def changed(backup: Path, target: Path, **documents: bytes) -> Path:
    """The same file with some members' content replaced, and nothing else."""
    out = io.BytesIO()
    with tarfile.open(backup) as source, tarfile.open(fileobj=out, mode="w") as archive:
        for info in source:
            stream = source.extractfile(info)
            assert stream is not None
            data = documents.get(info.name.partition(".")[0], stream.read())
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    target.write_bytes(gzip.compress(out.getvalue()))
    return target


def test_a_changed_member_is_named(tmp_path: Path, backup: Path) -> None:
    path = changed(backup, tmp_path / "changed.tar.gz", layout=b"1 0.0.1\n")
    with pytest.raises(StateError, match="layout is damaged or was changed"):
        restore_state(tmp_path / "other", path, NOW)


def test_a_file_of_a_newer_format_or_layout_is_refused_with_its_version(
    tmp_path: Path, box: Path, backup: Path
) -> None:
    head = json.dumps({"format": 2, "version": "9.1.0", "members": []}).encode()
    path = changed(backup, tmp_path / "newer.tar.gz", state=head)
    with pytest.raises(StateError, match=r"written by kvedge 9\.1\.0, newer"):
        restore_state(tmp_path / "other", path, NOW)
    (box / "state/layout").write_text("7 9.2.0\n")
    write_state(box, tmp_path / "later.tar.gz", NOW)
    with pytest.raises(StateError, match=r"of kvedge 9\.2\.0, which is newer"):
        restore_state(tmp_path / "other", tmp_path / "later.tar.gz", NOW)


def test_a_directory_of_a_newer_version_can_be_put_back_to_this_one(box: Path, backup: Path) -> None:
    (box / "state/layout").write_text("7 9.2.0\n")
    with pytest.raises(ServiceError):
        starts(box)
    restore_state(box, backup, NOW)
    assert starts(box)


@pytest.mark.parametrize("hostile", ["../../etc/passwd", "/etc/passwd", "pki/../../x", "pki/a/b", "other"])
def test_members_that_lead_elsewhere_are_refused(tmp_path: Path, hostile: str) -> None:
    head = {"format": 1, "version": "0.1.0", "madeAt": "x", "revision": 1, "objects": 0, "digests": {hostile: "0" * 64}}
    path = tmp_path / "hostile.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in (("state.json", json.dumps(head).encode()), (hostile, b"x")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    (tmp_path / "into").mkdir()
    with pytest.raises(StateError, match="does not belong there"):
        read_state(path, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("step", range(3))
def test_a_restore_that_is_cut_short_keeps_kvedge_from_starting_until_it_is_run_again(
    box: Path, backup: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(box, "second")
    left = step

    class Killed(BaseException):
        """The power fails."""

    def rename(path: Path, target: Path) -> Path:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        return Path(path).replace(target)

    with monkeypatch.context() as patch:
        patch.setattr(state_restore.Path, "rename", rename)
        with pytest.raises(Killed):
            restore_state(box, backup, NOW)
    with pytest.raises(ServiceError, match="state restore FILE"):
        starts(box)
    assert [checked.problem for checked in check_state(box) if "cut short" in checked.problem]
    restore_state(box, backup, NOW)
    assert names(box) == ["first"]
    assert starts(box)
    kept = [path for path in (box / "state").glob("replaced-*") if (path / "kvedge.db").exists()]
    assert kept, "what was there before the first attempt is still there"


def test_a_check_says_what_is_sound_and_what_is_not(box: Path, backup: Path) -> None:
    store = ObjectStore(box / "state" / "kvedge.db")
    copies = StoreCopies(box / "state" / "kvedge.db", box / "backup")
    store.open()
    copies.make(store)
    store.stop()
    assert [checked.problem for checked in check_state(box)] == [""] * 4
    (box / "state/pki/server-ca.key").chmod(0o644)
    (box / "backup" / copies.list_copies()[0].name).write_bytes(b"rubbish")
    (box / "state" / "kvedge.db").write_bytes(b"SQLite format 3\0" + b"rubbish" * 99)
    problems = [checked.problem for checked in check_state(box)]
    assert "is damaged" in problems[0]
    assert "is damaged" in problems[1]
    assert "can be read by others: chmod 600" in problems[2]
    backup.write_bytes(backup.read_bytes()[:99])
    assert [bool(checked.problem) for checked in check_files([backup])] == [True]


def test_no_state_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="does not exist"):
        write_state(tmp_path, tmp_path / "x.tar.gz", NOW)
    assert list(tmp_path.iterdir()) == []
