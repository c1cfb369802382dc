# Tests: kvedge/storage/backups/live/live_errand.py, kvedge/storage/backups/live/backup_source.py
# Tests: kvedge/storage/backups/live/disk_server.py
"""A worker that serves a disk out of a real repository to a real QEMU's program, and is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY, BackupJob, BackupVolume, LiveState
from kvedge.storage.backups.backup_errand import BackupPlaces, keep_backup
from kvedge.storage.backups.file_asker import FileAsker, NoAnswer
from kvedge.storage.backups.live import live_errand
from kvedge.storage.backups.live.backup_source import BackupSource
from kvedge.storage.backups.live.live_errand import serve_disks
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.imports.import_progress import ImportProgress
from tests.support.quick_repository import lay_repository
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")
MEBIBYTE = 1 << 20
SIZE = 24 * MEBIBYTE
# The worker's process: what it copies beside its guest goes slowly, so that it is killed in the middle.
WORKER = """
import sys, time
from pathlib import Path
from kvedge.resources.codec import decode_json
from kvedge.resources.types.protection.backup_job import BackupJob
from kvedge.storage.backups.backup_errand import BackupPlaces
from kvedge.storage.backups.live import live_errand
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.imports.import_progress import ImportProgress
live_errand._BLOCKS_AT_ONCE, live_errand._LINGER_SECONDS = 1, 0.2
job, store, secret, places, pause = sys.argv[1:]
live_errand.serve_disks(
    decode_json(BackupJob, job), ResticClient(store, Path(secret)), BackupPlaces(Path(places)), ImportProgress(),
    lambda state: time.sleep(float(pause)),
)
"""


def make_job(uid: str = "uid") -> BackupJob:
    volume = BackupVolume(name="root", place="v0", size=SIZE, uid=uid)
    return BackupJob(mode="serve", repository="", backup_id="7", namespace="shop", vm="web", time="t", volumes=[volume])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one disk, which has holes; `disks` beside it has the disk itself."""
    path = tmp_path_factory.mktemp("stored")
    disk = path / "disks" / "v0"
    disk.mkdir(parents=True)
    noise = random.Random(1)
    content = b"".join(noise.randbytes(MEBIBYTE) if number % 3 else bytes(MEBIBYTE) for number in range(24))
    (disk / "disk.img").write_bytes(content)
    (path / "secret").mkdir()
    (path / "secret" / PASSWORD_KEY).write_text("word")
    lay_repository(path / "kvedge", "word")
    client = ResticClient(str(path / "kvedge"), path / "secret")
    keep_backup(make_job(), client, BackupPlaces(path / "disks"), ImportProgress())
    return path


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    found = tmp_path / "v0"
    found.mkdir()
    return found


@contextmanager
def worker(stored: Path, claim: Path, pause: float = 0.05) -> Iterator[subprocess.Popen[bytes]]:
    from kvedge.resources.codec import encode_json

    words = [encode_json(make_job()).decode(), str(stored / "kvedge"), str(stored / "secret"), str(claim.parent)]
    with subprocess.Popen([sys.executable, "-c", WORKER, *words, str(pause)], start_new_session=True) as process:
        try:
            yield process
        finally:
            # restic ends by itself once nobody asks it.
            process.kill()


@contextmanager
def own_guest(claim: Path) -> Iterator[None]:
    """A QEMU that has opened the complete image itself: as soon as the worker lets it."""
    words = ["qemu-io", "-f", "raw", str(claim / "disk.img")]
    for _ in range(100):
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guest:
            assert guest.stdin is not None
            assert guest.stdout is not None
            with suppress(BrokenPipeError):
                guest.stdin.write("read 0 512\n")
                guest.stdin.flush()
            if "read 512/512" in guest.stdout.readline():
                yield
                guest.stdin.close()
                return
            with suppress(BrokenPipeError):
                guest.stdin.close()
        time.sleep(0.2)
    raise AssertionError("the worker does not let the image go")


def end_worker(process: subprocess.Popen[bytes], claim: Path) -> None:
    """Once all is there the worker waits for a guest that it has not seen yet, until one has the image itself."""
    wait_until((claim / "disk.img").exists, "all of it is there", 60)
    with own_guest(claim):
        assert process.wait(60) == 0


def qemu_io(claim: Path, *commands: str) -> str:
    words = [word for command in commands for word in ("-c", command)]
    asked = ["qemu-io", "-f", "raw", f"nbd+unix:///disk?socket={claim}/.nbd", *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=100)
    return done.stdout + done.stderr


def wait_served(claim: Path) -> None:
    wait_until(lambda: "read 512/512" in qemu_io(claim, "read 0 512"), "it is served", 30)


def test_workers_that_are_killed_again_and_again_lose_nothing(stored: Path, claim: Path) -> None:
    expected, choice = bytearray((stored / "disks" / "v0" / "disk.img").read_bytes()), random.Random(5)
    for attempt in range(4):
        # It copies a block in two seconds: not all of it is there before the last one.
        with worker(stored, claim, 2.0) as process:
            wait_served(claim)
            for number in range(8):
                place = choice.randrange(SIZE // 4096 - 8) * 4096
                told = qemu_io(claim, f"write -P {attempt * 16 + number + 1} {place} 32k")
                assert "wrote 32768/32768" in told
                expected[place : place + 32768] = bytes([attempt * 16 + number + 1]) * 32768
            # No flush: what was acknowledged is in the file, although nobody has asked for the disk.
            os.kill(process.pid, signal.SIGKILL)
        assert not (claim / "disk.img").exists()
    with worker(stored, claim, 0.0) as process:
        end_worker(process, claim)
    assert (claim / "disk.img").read_bytes() == bytes(expected)
    assert {each.name for each in claim.iterdir()} == {"disk.img"}


def test_a_complete_disk_is_served_to_the_guest_of_before_without_the_place(
    stored: Path, claim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker(stored, claim, 0.0) as process:
        end_worker(process, claim)
    states: list[LiveState] = []
    client = ResticClient(str(tmp_path / "gone"), stored / "secret")

    def note(state: LiveState) -> None:
        states.append(state)
        if len(states) == 1:
            assert "read 512/512" in qemu_io(claim, "read 0 512")

    monkeypatch.setattr(live_errand, "_LINGER_SECONDS", 0.0)
    serve_disks(make_job(), client, BackupPlaces(claim.parent), ImportProgress(), note)
    assert states[0].complete


def test_a_guest_that_was_not_seen_yet_is_waited_for_and_one_with_the_image_keeps_it_out(
    stored: Path, claim: Path
) -> None:
    """It is idle, or stands: it notices the next worker at its next request alone."""
    with worker(stored, claim, 0.0) as process:
        wait_until((claim / "disk.img").exists, "all of it is there", 60)
        time.sleep(1.5)
        assert process.poll() is None
        assert "wrote 512/512" in qemu_io(claim, "write -P 9 0 512")
        # It was seen, and went.
        assert process.wait(60) == 0
    with worker(stored, claim, 0.0) as process:
        wait_until((claim / ".nbd").exists, "it is served again", 60)
        with own_guest(claim):
            assert "read 512/512" not in qemu_io(claim, "read 0 512")
            assert process.wait(60) == 0


def test_a_disk_that_its_guest_has_itself_needs_no_worker(stored: Path, claim: Path) -> None:
    with worker(stored, claim, 0.0) as process:
        end_worker(process, claim)
    (claim / ".nbd").touch()
    with own_guest(claim):
        client = ResticClient(str(stored / "kvedge"), stored / "secret")
        outcome = serve_disks(make_job(), client, BackupPlaces(claim.parent), ImportProgress(), lambda state: None)
    assert outcome.size == SIZE
    assert [each.name for each in claim.iterdir()] == ["disk.img"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_errand, "_LINGER_SECONDS", 0.1)
    monkeypatch.setattr(live_errand, "_RETRY_SECONDS", 0.1)


def test_a_place_that_goes_away_is_told_and_waited_for(
    stored: Path, claim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    shutil.copytree(stored / "kvedge", store)
    (store / "data").rename(store / "elsewhere")
    monkeypatch.setattr("kvedge.storage.backups.live.backup_source._PAUSE_SECONDS", 0.1)
    states: list[LiveState] = []

    def note(state: LiveState) -> None:
        states.append(state)
        if state.message and not (store / "data").exists():
            assert not (claim / "disk.img").exists()
            (store / "elsewhere").rename(store / "data")
        if state.complete and (claim / ".nbd").exists():
            # A guest that comes, and goes.
            qemu_io(claim, "read 0 512")

    monkeypatch.setattr(live_errand, "_LINGER_SECONDS", 0.0)
    job = make_job()
    serve_disks(job, ResticClient(str(store), stored / "secret"), BackupPlaces(claim.parent), ImportProgress(), note)
    assert any("restic" in each.message for each in states)
    assert (claim / "disk.img").read_bytes() == (stored / "disks" / "v0" / "disk.img").read_bytes()


def test_a_backup_without_this_disk_is_an_end(stored: Path, claim: Path) -> None:
    job = make_job()
    job.backup_id = "8"
    client = ResticClient(str(stored / "kvedge"), stored / "secret")
    with pytest.raises(BackupFailure, match="no disk of volume root"):
        serve_disks(job, client, BackupPlaces(claim.parent), ImportProgress(), lambda state: None)
    assert list(claim.iterdir()) == []


def test_a_source_says_again_what_is_wrong_until_it_may_ask_anew(stored: Path) -> None:
    client = ResticClient(str(stored / "kvedge"), stored / "secret")
    (kept,) = client.list(["volume=root"])
    now, opened = [100.0], [0]

    @contextmanager
    def opening() -> Iterator[FileAsker]:
        opened[0] += 1
        if opened[0] == 1:
            raise BackupFailure("the server is away")
        with client.ask(kept, "root.img") as asker:
            yield asker

    source = BackupSource(opening, SIZE, lambda: now[0])
    for _ in range(3):
        with pytest.raises(BackupFailure, match="the server is away"):
            source.read(0, 512)
    assert opened[0] == 1
    now[0] += 10
    assert len(source.read(MEBIBYTE - 5, 3 * MEBIBYTE)) == 3 * MEBIBYTE
    assert source.failure == ""
    source.close()


def test_a_disk_of_another_size_than_its_record_says_is_none(stored: Path) -> None:
    client = ResticClient(str(stored / "kvedge"), stored / "secret")
    (kept,) = client.list(["volume=root"])
    source = BackupSource(lambda: client.ask(kept, "root.img"), SIZE + 512)
    with pytest.raises(BackupFailure, match="its record says"):
        source.read(0, 512)
    source.close()


def test_restic_that_was_killed_is_started_again(stored: Path) -> None:
    client = ResticClient(str(stored / "kvedge"), stored / "secret")
    (kept,) = client.list(["volume=root"])
    source = BackupSource(lambda: client.ask(kept, "root.img"), SIZE, lambda: time.monotonic() + 0.0)
    assert len(source.read(0, 512)) == 512
    for child in subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-x", "restic"], capture_output=True, text=True, check=True
    ).stdout.split():
        os.kill(int(child), signal.SIGKILL)
    with pytest.raises((BackupFailure, NoAnswer)):
        source.read(5 * MEBIBYTE, 512)
    source._next = 0.0
    assert len(source.read(5 * MEBIBYTE, 512)) == 512
    source.close()
