# Tests: kvedge/storage/backups/live/live_disk.py, kvedge/storage/backups/live/block_map.py
"""A disk that its guest uses while it comes back: what is killed at any step, no acknowledged write is lost."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import random
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.disks.claim_places import IMAGE_FILE, LIVE_IMAGE
from kvedge.storage.arriving_mark import ARRIVING, RETURNING, read_arriving
from kvedge.storage.backups.live import block_map, live_disk
from kvedge.storage.backups.live.block_map import BLOCK, LIVE_MAP, LiveFacts, MapUnusable, read_content
from kvedge.storage.backups.live.live_disk import DiskInUse, LiveDisk, UsedItself
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.imports.import_errors import ImportFailure

# The last block is a part of one.
SIZE = 5 * BLOCK + 3 * 512
FACTS = LiveFacts(SIZE, "of this backup", "uid-of-the-claim")
CONTENT = b"".join(random.Random(7).randbytes(BLOCK) if number % 2 else bytes(BLOCK) for number in range(6))[:SIZE]


class Backup:
    """The disk in its backup; `away` once nobody can reach it."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[int] = []

    def read(self, position: int, size: int) -> bytes:
        if self.away:
            raise BackupFailure("the server is away")
        self.asked.append(position // BLOCK)
        return CONTENT[position : position + size]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


@pytest.fixture
def backup() -> Backup:
    return Backup()


def write(disk: LiveDisk, position: int, data: bytes) -> None:
    disk.write_at(position, memoryview(data))


def bring_all(disk: LiveDisk) -> None:
    while disk.copy_some(2):
        continue


def test_a_guest_reads_what_is_not_there_from_the_backup(folder: int, backup: Backup) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    assert disk.read_at(BLOCK - 10, BLOCK + 20) == CONTENT[BLOCK - 10 : 2 * BLOCK + 10]
    assert disk.read_at(SIZE - 512, 512) == CONTENT[-512:]
    assert disk.present == 0
    disk.close()


def test_a_write_has_its_blocks_there_and_goes_over_their_content(folder: int, backup: Backup) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    write(disk, 2 * BLOCK - 512, b"w" * 1024)
    backup.away = True
    assert (
        disk.read_at(BLOCK, 2 * BLOCK)
        == CONTENT[BLOCK : 2 * BLOCK - 512] + b"w" * 1024 + CONTENT[2 * BLOCK + 512 : 3 * BLOCK]
    )
    assert disk.present == 2 * BLOCK
    with pytest.raises(BackupFailure):
        disk.read_at(0, 512)
    with pytest.raises(BackupFailure):
        write(disk, 0, bytes(512))
    disk.close()


def test_the_image_has_no_name_until_all_is_there(folder: int, backup: Backup, tmp_path: Path) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    write(disk, 4 * BLOCK, b"w" * 512)
    assert disk.copy_some(3)
    assert not (tmp_path / IMAGE_FILE).exists()
    assert read_arriving(folder) == [RETURNING]
    # The word by which earlier versions of kvedge know that it is no disk; each user may read it.
    assert (tmp_path / ARRIVING).stat().st_mode & 0o777 == 0o644
    bring_all(disk)
    assert disk.is_complete
    assert disk.present == SIZE
    assert {each.name for each in tmp_path.iterdir()} == {IMAGE_FILE}
    assert read_arriving(folder) == []
    # A guest that was there before writes on into the same file.
    write(disk, 0, b"later")
    disk.flush()
    expected = bytearray(CONTENT)
    expected[:5] = b"later"
    expected[4 * BLOCK : 4 * BLOCK + 512] = b"w" * 512
    assert (tmp_path / IMAGE_FILE).read_bytes() == bytes(expected)
    disk.close()


def test_zeros_take_no_room(folder: int, backup: Backup, tmp_path: Path) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    bring_all(disk)
    disk.close()
    assert (tmp_path / IMAGE_FILE).stat().st_blocks * 512 < 4 * BLOCK


def test_another_worker_and_a_qemu_are_kept_off(folder: int, backup: Backup) -> None:
    first = LiveDisk(folder, FACTS, backup)
    with pytest.raises(DiskInUse):
        LiveDisk(folder, FACTS, backup)
    bring_all(first)
    first.close()
    again = LiveDisk(folder, FACTS, backup)
    assert again.is_complete
    again.close()


def test_a_guest_that_has_the_complete_image_itself_needs_no_worker(
    folder: int, backup: Backup, tmp_path: Path
) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    bring_all(disk)
    disk.close()
    image = os.open(tmp_path / IMAGE_FILE, os.O_RDWR)
    live_disk.fcntl.fcntl(
        image, live_disk.fcntl.F_OFD_SETLK, live_disk._FLOCK.pack(live_disk.fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0)
    )
    with pytest.raises(UsedItself):
        LiveDisk(folder, FACTS, backup)
    os.close(image)


def test_an_image_of_another_backup_or_a_damaged_map_is_refused(folder: int, backup: Backup, tmp_path: Path) -> None:
    LiveDisk(folder, FACTS, backup).close()
    assert read_content(folder) == FACTS.content
    with pytest.raises(MapUnusable):
        LiveDisk(folder, LiveFacts(SIZE, "of another", FACTS.uid), backup)
    with pytest.raises(MapUnusable):
        LiveDisk(folder, LiveFacts(SIZE, FACTS.content, "of another claim"), backup)
    os.truncate(tmp_path / LIVE_MAP, 4096)
    with pytest.raises(MapUnusable):
        LiveDisk(folder, FACTS, backup)


def test_a_disk_of_somebody_else_is_not_taken_for_the_restored_one(folder: int, backup: Backup, tmp_path: Path) -> None:
    (tmp_path / IMAGE_FILE).write_bytes(bytes(SIZE))
    with pytest.raises(ImportFailure):
        LiveDisk(folder, FACTS, backup)


def test_a_flush_that_failed_once_never_succeeds_again(
    folder: int, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes the pages for clean afterwards, and would say that all is well."""
    disk = LiveDisk(folder, FACTS, backup)
    write(disk, 0, b"data")

    def fail(file: int) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(live_disk.os, "fdatasync", fail)
        with pytest.raises(OSError, match="I/O"):
            disk.flush()
    with pytest.raises(OSError, match="did not reach"):
        disk.flush()
    # Nor is a block noted as there.
    present = disk.present
    with pytest.raises(OSError, match="did not reach"):
        disk.copy_some(1)
    assert disk.present == present
    disk.close()


def test_guest_and_copy_at_once_leave_the_backup_with_the_writes(folder: int, backup: Backup, tmp_path: Path) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    copier = threading.Thread(target=bring_all, args=(disk,))
    expected, choice = bytearray(CONTENT), random.Random(3)
    copier.start()
    for number in range(200):
        place = choice.randrange(SIZE - 512)
        data = bytes([number]) * 512
        write(disk, place, data)
        expected[place : place + 512] = data
        assert disk.read_at(place, 512) == data
    copier.join()
    disk.flush()
    disk.close()
    assert (tmp_path / IMAGE_FILE).read_bytes() == bytes(expected)


# The calls by which something comes to be in the claim.
_STEPS = ("pwrite", "fdatasync", "fsync", "rename", "unlink", "ftruncate", "open", "fchmod")


class Kill:
    """Ends the process before or after one of its steps."""

    def __init__(self, at: int) -> None:
        self.at, self.count, self.log = at, 0, []

    def wrap(self, name: str, real: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                raise Killed
            return real(*args, **more)

        return call


def _use(folder: int, backup: Backup, acknowledged: bytearray, unsure: set[int]) -> None:
    """A guest that writes before, while and after its disk comes back."""
    disk = LiveDisk(folder, FACTS, backup)
    try:
        for number, place in enumerate((100, 3 * BLOCK - 256, 5 * BLOCK, 100, BLOCK + 7)):
            unsure.update(range(place, place + 512))
            write(disk, place, bytes([65 + number]) * 512)
            acknowledged[place : place + 512] = bytes([65 + number]) * 512
            unsure.clear()
            disk.copy_some(1)
        bring_all(disk)
    finally:
        disk.close()


def test_a_kill_at_each_step_loses_no_acknowledged_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was_killed = 0
    for at in itertools.count(1):
        place = tmp_path / f"claim-{at}"
        place.mkdir()
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        acknowledged, unsure, kill = bytearray(CONTENT), set[int](), Kill(at)
        with monkeypatch.context() as patched:
            for name in _STEPS:
                patched.setattr(os, name, kill.wrap(name, getattr(os, name)))
            try:
                _use(opened, Backup(), acknowledged, unsure)
            except Killed:
                was_killed += 1
        killed = kill.count >= at
        names = set(os.listdir(place))
        # What earlier versions of kvedge refuse a claim for.
        assert ARRIVING in names or LIVE_IMAGE not in names, at
        disk = LiveDisk(opened, FACTS, Backup())
        found = disk.read_at(0, SIZE)
        sure = bytearray(found)
        for number in unsure:
            sure[number] = acknowledged[number]
        assert sure == acknowledged, at
        bring_all(disk)
        disk.close()
        # Bytes of a write that nobody was told of may be there or not, and stay what they were found.
        assert (place / IMAGE_FILE).read_bytes() == found, at
        assert read_arriving(opened) == [], at
        os.close(opened)
        (place / IMAGE_FILE).unlink()
        if not killed:
            break
    assert was_killed > 40


def test_no_byte_of_the_guest_comes_before_its_block_is_known_to_be_on_stable_storage(
    folder: int, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that a power cut needs: the block, its sync, its bit, the bit's sync, then the guest's bytes."""
    disk = LiveDisk(folder, FACTS, backup)
    log: list[tuple[str, str]] = []
    names = {disk._file: "image", disk._map._file: "map"} if disk._map else {}
    for name in ("pwrite", "fdatasync"):
        real = getattr(os, name)

        def call(file: int, *args: Any, _name: str = name, _real: Any = real) -> Any:
            log.append((_name, names[file]))
            return _real(file, *args)

        monkeypatch.setattr(os, name, call)
    write(disk, BLOCK + 5, b"of the guest")
    text = " ".join(f"{what}:{where}" for what, where in log)
    assert re.fullmatch(r"(pwrite:image )+fdatasync:image (pwrite:map )+fdatasync:map pwrite:image", text)
    log.clear()
    write(disk, BLOCK + 9, b"once more")
    assert log == [("pwrite", "image")]
    monkeypatch.undo()
    disk.close()
    with suppress(FileNotFoundError):
        os.stat(LIVE_IMAGE, dir_fd=folder)
    assert block_map.read_content(folder) == FACTS.content


def test_a_worker_reads_nothing_while_another_one_writes(tmp_path: Path, folder: int, backup: Backup) -> None:
    """Its map would lack what the other one is about to write down, and its image may be another file."""
    first = LiveDisk(folder, FACTS, backup)
    other = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    inode = (tmp_path / LIVE_IMAGE).stat().st_ino
    with pytest.raises(DiskInUse, match="another worker"):
        LiveDisk(other, FACTS, backup)
    assert (tmp_path / LIVE_IMAGE).stat().st_ino == inode
    write(first, 0, b"mine")
    first.close()
    second = LiveDisk(other, FACTS, backup)
    assert second.read_at(0, 4) == b"mine"
    second.close()
    os.close(other)


def test_a_disk_that_somebody_has_put_there_meanwhile_is_not_written_over(
    tmp_path: Path, folder: int, backup: Backup
) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    write(disk, 0, b"mine")
    (tmp_path / IMAGE_FILE).write_bytes(b"somebody else's")
    with pytest.raises(FileExistsError):
        bring_all(disk)
    disk.close()
    # The guest's own is served on.
    again = LiveDisk(folder, FACTS, backup)
    assert again.read_at(0, 4) == b"mine"
    again.close()
    assert (tmp_path / IMAGE_FILE).read_bytes() == b"somebody else's"


def test_a_write_that_the_storage_has_lost_is_known_to_the_next_worker(
    folder: int, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    write(disk, 0, b"mine")

    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "the storage has failed")

    with monkeypatch.context() as patch:
        patch.setattr(live_disk.os, "fdatasync", fail)
        with pytest.raises(OSError, match="the storage has failed"):
            disk.flush()
    with pytest.raises(OSError, match="an earlier write"):
        disk.flush()
    disk.close()
    with pytest.raises(DiskInUse, match="delete the VM, and restore it once more"):
        LiveDisk(folder, FACTS, backup)


def test_a_complete_image_is_let_to_others_and_taken_back_unless_one_has_it(
    tmp_path: Path, folder: int, backup: Backup
) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    bring_all(disk)
    assert disk.share()
    assert disk.take_back()
    assert disk.share()
    other = os.open(tmp_path / IMAGE_FILE, os.O_RDWR)
    # As QEMU does for an image that it writes.
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, live_disk._FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 201, 1, 0))
    assert not disk.take_back()
    assert not disk.share()
    os.close(other)
    assert disk.take_back()
    disk.close()


def test_a_disk_that_an_earlier_version_began_gets_the_word_too(tmp_path: Path, folder: int, backup: Backup) -> None:
    LiveDisk(folder, FACTS, backup).close()
    (tmp_path / ARRIVING).unlink()
    LiveDisk(folder, FACTS, backup).close()
    assert (tmp_path / ARRIVING).exists()


def test_a_folder_that_cannot_be_synced_when_the_image_has_its_name_is_synced_later(
    folder: int, backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LiveDisk(folder, FACTS, backup)
    real = os.fsync

    def fail(file: int) -> None:
        if file == folder:
            raise OSError(errno.EIO, "the storage has failed")
        real(file)

    with monkeypatch.context() as patch:
        patch.setattr(live_disk.os, "fsync", fail)
        with pytest.raises(OSError, match="the storage has failed"):
            bring_all(disk)
        assert not disk.is_complete
    write(disk, 0, b"meanwhile")
    bring_all(disk)
    assert disk.is_complete
    assert {each.name for each in tmp_path.iterdir()} == {IMAGE_FILE}
    assert disk.read_at(0, 9) == b"meanwhile"
    disk.close()


def test_a_disk_that_has_no_room_for_its_mark_is_complete_once_there_is_some(
    folder: int, backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the mark the next worker would refuse it as somebody else's."""
    disk = LiveDisk(folder, FACTS, backup)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "setxattr", fail)
        with pytest.raises(OSError, match="No space left"):
            bring_all(disk)
        assert not (tmp_path / IMAGE_FILE).exists()
    bring_all(disk)
    disk.close()
    LiveDisk(folder, FACTS, backup).close()


def test_a_word_that_an_earlier_disk_left_on_the_volume_does_not_keep_the_vm_from_starting(
    folder: int, backup: Backup, tmp_path: Path
) -> None:
    (tmp_path / ARRIVING).write_text("u m-1\n")
    disk = LiveDisk(folder, FACTS, backup)
    assert (tmp_path / ARRIVING).read_text() == RETURNING
    bring_all(disk)
    disk.close()
    assert read_arriving(folder) == []


@pytest.mark.parametrize("name", [IMAGE_FILE, LIVE_IMAGE])
def test_an_unfinished_disk_of_another_vm_is_told_at_once(
    folder: int, backup: Backup, tmp_path: Path, name: str
) -> None:
    (tmp_path / ARRIVING).write_text("u m-1\n")
    (tmp_path / name).touch()
    with pytest.raises(OSError, match=r"another unfinished disk \(u m-1\)"):
        LiveDisk(folder, FACTS, backup)
    assert (tmp_path / ARRIVING).read_text() == "u m-1\n"
