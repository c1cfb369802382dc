# Tests: kvedge/storage/backups/file_asker.py, kvedge/storage/backups/restic_client.py
# Tests: kvedge/storage/backups/backup_errand.py, kvedge/storage/imports/sinks/import_target.py
"""A restore that was broken off goes on where it was: restic itself reads the rest, and nothing is mounted."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY, BackupJob, BackupVolume
from kvedge.storage.backups import backup_errand
from kvedge.storage.backups.backup_errand import BackupPlaces, bring_back, keep_backup
from kvedge.storage.backups.restic_client import KeptFile, ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.import_target import UNFINISHED
from tests.support.quick_repository import lay_repository
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")
MEBIBYTE = 1 << 20
SIZE = 12 * MEBIBYTE
# Where the worker of before was, of what it had written down.
NOTED = 4 * MEBIBYTE


class Broken(ResticClient):
    """A place that goes away in the middle of a disk, and what was read of it in which way."""

    ends_after: int | None = None
    failure: BaseException = BackupFailure("the server is away")
    hangs = False
    from_start = 0
    read_on: tuple[int, ...] = ()

    @contextmanager
    def stream(self, kept: KeptFile, name: str) -> Iterator[BinaryIO]:
        self.from_start += 1
        with super().stream(kept, name) as found:
            yield found if self.ends_after is None else _Short(found, self.ends_after, self.failure, hangs=self.hangs)  # type: ignore[misc]

    @contextmanager
    def stream_from(self, kept: KeptFile, name: str, position: int) -> Iterator[BinaryIO]:
        self.read_on += (position,)
        with super().stream_from(kept, name, position) as found:
            yield found


class _Short:
    def __init__(self, inner: BinaryIO, left: int, failure: BaseException, *, hangs: bool) -> None:
        self._inner, self._left, self._failure, self._hangs = inner, left, failure, hangs

    def read(self, size: int) -> bytes:
        if self._left <= 0:
            while self._hangs:
                signal.pause()
            raise self._failure
        self._left -= size
        return self._inner.read(size)


def make_job() -> BackupJob:
    volume = BackupVolume(name="root", place="v0", size=SIZE)
    return BackupJob(
        mode="restore", repository="", backup_id="7", namespace="shop", vm="web", time="t", volumes=[volume]
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one disk, which has a hole; `disks` beside it has the disk itself."""
    path = tmp_path_factory.mktemp("stored")
    disk = path / "disks" / "v0"
    disk.mkdir(parents=True)
    noise = random.Random(1)
    content = noise.randbytes(5 * MEBIBYTE) + bytes(3 * MEBIBYTE) + noise.randbytes(4 * MEBIBYTE)
    (disk / "disk.img").write_bytes(content)
    (path / "secret").mkdir()
    (path / "secret" / PASSWORD_KEY).write_text("word")
    lay_repository(path / "kvedge", "word")
    client = ResticClient(str(path / "kvedge"), path / "secret")
    keep_backup(make_job(), client, BackupPlaces(path / "disks"), ImportProgress())
    return path


class Site:
    """An empty claim for what is stored."""

    def __init__(self, stored: Path, path: Path) -> None:
        self.path, self.store = path, stored / "kvedge"
        self.claim = path / "back" / "v0"
        self.claim.mkdir(parents=True)
        self.disk = (stored / "disks" / "v0" / "disk.img").read_bytes()
        self.client = Broken(str(self.store), stored / "secret")
        self.job = make_job()

    def bring_back(self) -> bytes:
        bring_back(self.job, self.client, BackupPlaces(self.path / "back"), ImportProgress())
        assert [each.name for each in self.claim.iterdir() if each.name.startswith(UNFINISHED)] == []
        return (self.claim / "disk.img").read_bytes()

    def break_off(self, failure: BaseException | None = None) -> None:
        """Have a worker end in the middle of the second MiB that it has not written down."""
        self.client.ends_after, self.client.failure = NOTED + MEBIBYTE, failure or self.client.failure
        with pytest.raises(type(self.client.failure)):
            self.bring_back()
        self.client.ends_after = None

    @property
    def place(self) -> Path:
        return self.claim / f"{UNFINISHED}.place"

    @property
    def locks(self) -> list[str]:
        return sorted(os.listdir(self.store / "locks"))


@pytest.fixture
def site(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(backup_errand, "_KEPT_EVERY", NOTED)
    return Site(stored, tmp_path)


@pytest.mark.parametrize("failure", [BackupFailure("the server is away"), SystemExit(143)], ids=["place", "worker"])
def test_a_disk_goes_on_where_it_was_and_is_the_same(site: Site, failure: BaseException) -> None:
    site.break_off(failure)
    assert not (site.claim / "disk.img").exists()
    locks = site.locks
    # What comes after the place may be anything.
    with (site.claim / UNFINISHED).open("r+b") as file:
        file.seek(NOTED)
        file.write(b"x" * 5 * MEBIBYTE)
    assert site.bring_back() == site.disk
    assert (site.client.from_start, site.client.read_on) == (1, (NOTED,))
    assert site.locks == locks, "it was taken back"


def test_a_worker_that_is_killed_is_followed_by_one_that_goes_on(site: Site) -> None:
    worker = os.fork()
    if not worker:
        # Reads as far as that, and then nothing until it is killed.
        site.client.ends_after, site.client.failure = NOTED + MEBIBYTE, BackupFailure("")
        site.client.hangs = True
        try:
            site.bring_back()
        finally:
            os._exit(1)
    try:
        wait_until(site.place.exists, "it has written down where it is")
    finally:
        os.kill(worker, 9)
        os.waitpid(worker, 0)
    assert site.bring_back() == site.disk
    assert (site.client.from_start, site.client.read_on) == (0, (NOTED,))


@pytest.mark.parametrize(
    "what", ["another backup", "another file", "no number", "a link", "behind the end", "not there"]
)
def test_what_is_not_known_to_be_the_same_is_read_from_the_beginning(site: Site, what: str, tmp_path: Path) -> None:
    site.break_off()
    noted = json.loads(site.place.read_bytes())
    match what:
        case "another backup":
            noted["content"] = "0" * 64
        case "another file":
            noted["file"] += 1
        case "no number":
            noted["position"] = "many"
        case "behind the end":
            noted["position"] = SIZE * 2
        case "a link":
            (site.claim / UNFINISHED).rename(tmp_path / "elsewhere")
            (site.claim / UNFINISHED).symlink_to(tmp_path / "elsewhere")
        case "not there":
            (site.claim / UNFINISHED).unlink()
    site.place.write_text(json.dumps(noted))
    assert site.bring_back() == site.disk
    assert (site.client.from_start, site.client.read_on) == (2, ())


def test_a_failure_that_no_other_try_helps_leaves_nothing(site: Site) -> None:
    site.break_off(BackupFailure("the key is wrong", fatal=True))
    assert list(site.claim.iterdir()) == []


def test_a_restic_that_cannot_read_the_rest_alone_reads_all_of_it_the_next_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.break_off()
    monkeypatch.setattr("kvedge.storage.backups.file_asker._NAMES", ("nothing",))
    with pytest.raises(BackupFailure, match="restic"):
        site.bring_back()
    assert list(site.claim.iterdir()) == []
    assert site.bring_back() == site.disk
    assert site.client.from_start == 2


def test_a_damaged_piece_is_told_and_gives_no_disk(site: Site, stored: Path, tmp_path: Path) -> None:
    site.break_off()
    shutil.copytree(site.store, tmp_path / "damaged")
    site.client = Broken(str(tmp_path / "damaged"), stored / "secret")
    for pack in (tmp_path / "damaged" / "data").rglob("*"):
        if pack.is_file() and pack.stat().st_size > MEBIBYTE:
            pack.chmod(0o600)
            content = bytearray(pack.read_bytes())
            content[: len(content) // 2] = bytes(len(content) // 2)
            pack.write_bytes(content)
    with pytest.raises(BackupFailure, match="restic"):
        site.bring_back()
    assert not (site.claim / "disk.img").exists()


def test_a_restic_that_is_killed_is_told(site: Site) -> None:
    [kept] = site.client.list(["volume=root"])
    with pytest.raises(BackupFailure, match="restic"), site.client.stream_from(kept, "root.img", NOTED) as stream:
        _kill_while_read(site, stream)


def _kill_while_read(site: Site, stream: BinaryIO) -> None:
    assert stream.read(MEBIBYTE) == site.disk[NOTED : NOTED + MEBIBYTE]
    there = [each for each in Path("/proc").iterdir() if each.name.isdigit()]
    found = [each for each in there if str(site.store) in _environment(each) and b"mount" in _words(each)]
    os.kill(int(found[0].name), 9)
    stream.read()


def _environment(process: Path) -> str:
    try:
        return (process / "environ").read_text(errors="replace")
    except OSError:
        return ""


def _words(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
