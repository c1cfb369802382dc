"""Volumes as directories of a file system, and as files behind loop devices where a claim wants a device.

Called by `standalone/volumes`. Touches its place, loop devices, and links to them in a directory of /dev. In the place
lie `<volume>/`, which is the volume itself or holds the file of a device; `snapshot-…/`, the same at an earlier time;
`.new-…` and `.gone-…`, which are not volumes yet or any more; `.records/<volume>`, which says how large a volume may
become; and `.manifests/`, notes on whose it is.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import stat
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.background import passing_thread
from kvedge.runtime.durable_files import sync, write_durably
from kvedge.runtime.linux.files import syncfs
from kvedge.runtime.linux.loop_devices import attach_loop, detach_loop, loop_of, refresh_size
from kvedge.storage.volumes.device_links import lead_to
from kvedge.storage.volumes.place_identity import PlaceIdentity
from kvedge.storage.volumes.place_notes import NOTES, drop_note, read_notes, write_note
from kvedge.storage.volumes.tree_copy import copy_tree, erase_tree, shares_blocks, tree_bytes
from kvedge.storage.volumes.volume_driver import (
    ERASED,
    FILLED,
    NAMED,
    PUT_AWAY,
    SNAPSHOT_PREFIX,
    STAGED,
    SYNCED,
    NewVolume,
    PlaceSpace,
    SnapshotFacts,
    Stepped,
    VolumeDriverError,
    VolumeUsage,
    ignore_step,
)

# The file of a volume that is a device; root's, as only its loop device is handed out.
BLOCK_FILE: Final = "block.img"
_NEW: Final = ".new-"
_GONE: Final = ".gone-"
_RECORDS: Final = ".records"
# Patterns of the entries of a place that are no volumes.
OWN_ENTRIES: Final = (f"{_NEW}*", f"{_GONE}*", _RECORDS, NOTES)
# No volume is smaller.
_GRAIN: Final = 1 << 20
# The group may write, and what it makes belongs to it, as with an fsGroup; nobody else sees anything.
_VOLUME_MODE: Final = 0o2770


@dataclass(slots=True)
class DirectoryDriver:
    """The volumes below one directory; `devices` is where links to loop devices lie."""

    place: PlaceIdentity
    devices: Path
    stepped: Stepped = ignore_step
    # How the content of removed volumes goes; a test waits for it.
    in_background: Callable[..., object] = passing_thread
    _swept: bool = field(default=False, init=False)
    # The first call that prepares a place sweeps it, before anything is made there.
    _sweeping: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def where(self) -> str:
        """The place in words."""
        return str(self.place.path)

    def prepare(self) -> None:
        """See that the place is there and the same, and erase what was left half made or half removed.

        Raises:
            PlaceMissing: the place is not what it was.
            VolumeDriverError: it cannot be used.
        """
        with _translate_errors(self.place.path):
            self.place.check()
            if self.place.made_here:
                # A directory of somebody else's keeps its mode: others may have files beside the volumes, which are
                # closed to them each for itself.
                self.place.path.chmod(0o700)
            (self.place.path / _RECORDS).mkdir(mode=0o700, exist_ok=True)
            self._sweep()

    def _sweep(self) -> None:
        """Erase what a driver before this one left. Its names are taken from it first: they are used again."""
        with self._sweeping:
            if self._swept:
                return
            for entry in list(self.place.path.iterdir()):
                if entry.name.startswith(_NEW):
                    entry = entry.rename(self.place.path / f"{_GONE}{entry.name}-{uuid.uuid4()}")
                if entry.name.startswith(_GONE):
                    self.in_background(f"erase-{entry.name}"[:15], self._erase, entry)
            self._swept = True

    def make(self, volume: NewVolume) -> None:
        """Make an empty volume; a present volume is left as it is."""
        with _translate_errors(self.place.path):
            self._make(volume, lambda staged: self._fill_empty(volume, staged))

    def grow(self, name: str, size: int) -> None:
        """Let a volume hold so much; never less than before."""
        with _translate_errors(self.place.path):
            self.place.check()
            path = self._find_existing(name)
            if size <= self._size(name):
                return
            file = path / BLOCK_FILE
            if self._is_block(name):
                if file.stat().st_size < size:
                    os.truncate(file, size)
                    sync(file)
                device = loop_of(file)
                if device is not None:
                    refresh_size(device)
            self._write_record(name, size, block=self._is_block(name))

    def clone(self, source: str, volume: NewVolume, keep_on: Callable[[], None]) -> None:
        """Make a volume with the content of another one; `keep_on` is asked last before the volume counts."""
        with _translate_errors(self.place.path):
            self._find_existing(source)
            if self._is_block(source) != volume.block:
                raise VolumeDriverError("a clone has the volume mode of its source")
            if volume.size < self._size(source):
                raise VolumeDriverError(f"a clone is at least as large as its source, {self._size(source)} bytes")
            self._make(volume, lambda staged: self._fill_from(source, volume, staged, keep_on))

    def room_for(self, size: int, *, block: bool) -> int:
        """What the file system writes about a file is not counted."""
        return size

    def takes_all_at_once(self) -> bool:
        """A volume may have several files, of which each is of a moment of its own."""
        return False

    def shares_blocks(self) -> bool:
        """Whether the file system below the place can share blocks between files."""
        with _translate_errors(self.place.path):
            self.place.check()
            return shares_blocks(self.place.path)

    def snapshot(self, name: str, snapshot: str, keep_on: Callable[[], None], *, at_once: bool) -> None:
        """Keep the present content of a volume under another name.

        A file whose blocks are shared by one call of the kernel is of one moment: XFS and Btrfs lock it against
        writers, and write out before what is in memory. That is so of each file for itself.
        """
        with _translate_errors(self.place.path):
            origin = self._find_existing(name)
            if at_once and not _has_one_file(origin):
                raise VolumeDriverError(f"volume {name} has several files, which cannot be of one moment")
            volume = NewVolume(snapshot, self.describe(name)[0], self._is_block(name))

            def fill(staged: Path) -> None:
                if volume.block:
                    self._write_out(origin / BLOCK_FILE)
                self._fill_from(name, volume, staged, keep_on, by_sharing_alone=at_once)

            self._make(volume, fill, taken=time.time_ns())

    def snapshots_at_once(self, name: str) -> bool:
        """Whether the volume is one file, of a file system that shares blocks."""
        with _translate_errors(self.place.path):
            return _has_one_file(self._find_existing(name)) and self.shares_blocks()

    def snapshot_facts(self, snapshot: str) -> SnapshotFacts:
        """What it was taken of; where its record is lost, by what it is."""
        with _translate_errors(self.place.path):
            taken = self._read_record(snapshot).get("taken")
            size, is_block = self.describe(snapshot)
            when = taken if isinstance(taken, int) else self._path(snapshot).stat().st_ctime_ns
            return SnapshotFacts(size, is_block, when, self._path(snapshot))

    def remove(self, name: str) -> None:
        """Take a volume away: renamed at once, erased in the background."""
        with _translate_errors(self.place.path):
            self.place.check()
            self.detach(name)
            path = self._path(name)
            gone = self.place.path / f"{_GONE}{name}-{secrets.token_hex(4)}"
            with suppress(FileNotFoundError):
                path.rename(gone)
                sync(self.place.path)
            self.stepped(PUT_AWAY)
            self._record(name).unlink(missing_ok=True)
            if gone.exists():
                self.in_background(f"erase-{name}"[:15], self._erase, gone)

    def usage(self, name: str) -> VolumeUsage:
        """What a volume holds."""
        with _translate_errors(self.place.path):
            path = self._find_existing(name)
            block = self._is_block(name)
            return VolumeUsage(size=self._size(name), used=tree_bytes(path), enforced=block)

    def describe(self, name: str) -> tuple[int, bool]:
        """How large a volume may become, and whether it is a device; by its file where the record is lost."""
        with _translate_errors(self.place.path):
            path = self._find_existing(name)
            is_block = self._is_block(name) or (path / BLOCK_FILE).is_file()
            file = path / (BLOCK_FILE if is_block else IMAGE_FILE)
            length = file.lstat().st_size if file.is_file() and not file.is_symlink() else 0
            return max(self._size(name), length + -length % _GRAIN, _GRAIN), is_block

    def path(self, name: str, *, block: bool) -> Path:
        """Where a volume is once it is attached."""
        return self.devices / name if block else self._path(name)

    def attach(self, name: str) -> Path:
        """The volume's directory; of a device the link to its loop device, which is made when there is none."""
        with _translate_errors(self.place.path):
            self.place.check()
            path = self._find_existing(name)
            if not self._is_block(name):
                return path
            return lead_to(self.devices / name, attach_loop(path / BLOCK_FILE))

    def detach(self, name: str) -> None:
        """Let go of the loop device of a volume, if it has one."""
        with _translate_errors(self.place.path):
            file = self._path(name) / BLOCK_FILE
            device = loop_of(file) if self._is_block(name) and file.exists() else None
            if device is not None:
                detach_loop(device)
            (self.devices / name).unlink(missing_ok=True)

    def names(self) -> Collection[str]:
        """The volumes that are whole."""
        with _translate_errors(self.place.path):
            return [entry.name for entry in self.place.path.iterdir() if not entry.name.startswith(".")]

    def space(self) -> PlaceSpace:
        """The room of the file system below the place."""
        with _translate_errors(self.place.path):
            # A place whose disk is away is told as such, and not as full as what lies below it.
            self.place.check()
            facts = os.statvfs(self.place.path)
            names = self.names()
            held = sum(self._bytes_of(name) for name in names)
            snapshots = sum(self._bytes_of(name) for name in names if name.startswith(SNAPSHOT_PREFIX))
            return PlaceSpace(facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize, held, snapshots)

    def write_note(self, name: str, content: bytes) -> None:
        """Keep a note beside the volumes."""
        with _translate_errors(self.place.path):
            self.place.check()
            write_note(self.place.path, name, content)

    def drop_note(self, name: str) -> None:
        """Remove a note."""
        with _translate_errors(self.place.path):
            self.place.check()
            drop_note(self.place.path, name)

    def notes(self) -> Iterator[tuple[str, bytes, float]]:
        """All notes, each with when it was written."""
        with _translate_errors(self.place.path):
            yield from read_notes(self.place.path)

    def _bytes_of(self, name: str) -> int:
        """What the disk of a volume takes; other files of a volume are not counted, as that would take long."""
        for file in (BLOCK_FILE, IMAGE_FILE):
            with suppress(OSError):
                return (self.place.path / name / file).lstat().st_blocks * 512
        return 0

    def _make(self, volume: NewVolume, fill: Callable[[Path], None], *, taken: int = 0) -> None:
        self.place.check()
        path = self._path(volume.name)
        if path.exists():
            return
        staged = self.place.path / f"{_NEW}{volume.name}"
        if staged.exists():
            erase_tree(staged)
        staged.mkdir(mode=0o700)
        self.stepped(STAGED)
        try:
            fill(staged)
            self.stepped(FILLED)
            _sync_all(staged)
            # Its size is known before it is there.
            self._write_record(volume.name, volume.size, block=volume.block, taken=taken)
            self.stepped(SYNCED)
            staged.rename(path)
            sync(self.place.path)
            self.stepped(NAMED)
        except Exception:
            erase_tree(staged)
            raise

    def _fill_from(
        self,
        source: str,
        volume: NewVolume,
        staged: Path,
        keep_on: Callable[[], None],
        *,
        by_sharing_alone: bool = False,
    ) -> None:
        copy_tree(self._path(source), staged, keep_on, by_sharing_alone=by_sharing_alone)
        if volume.block:
            os.truncate(staged / BLOCK_FILE, volume.size)
        keep_on()

    def _write_out(self, file: Path) -> None:
        """Have what the kernel still holds of a loop device in its file."""
        device = loop_of(file)
        if device is not None:
            opened = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

    def _fill_empty(self, volume: NewVolume, staged: Path) -> None:
        if not volume.block:
            os.chown(staged, LAUNCHER_UID, LAUNCHER_GID)
            staged.chmod(_VOLUME_MODE)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        opened = os.open(staged / BLOCK_FILE, flags, 0o600)
        try:
            os.ftruncate(opened, volume.size)
        finally:
            os.close(opened)

    def _erase(self, path: Path) -> None:
        with suppress(OSError):
            # The rest is erased at the next start.
            erase_tree(path)
        self.stepped(ERASED)

    def _path(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name:
            raise VolumeDriverError(f"{name!r} is no name of a volume")
        return self.place.path / name

    def _find_existing(self, name: str) -> Path:
        path = self._path(name)
        try:
            facts = path.lstat()
        except FileNotFoundError as error:
            raise VolumeDriverError(
                f"volume {name} is not in {self.place.path}: it was removed, or lies in a backup", "VolumeMissing"
            ) from error
        if not stat.S_ISDIR(facts.st_mode):
            raise VolumeDriverError(f"{path} is not a directory, so it is no volume")
        return path

    def _record(self, name: str) -> Path:
        return self.place.path / _RECORDS / name

    def _write_record(self, name: str, size: int, *, block: bool, taken: int = 0) -> None:
        record = {"size": size, "block": block, **({"taken": taken} if taken else {})}
        write_durably(self._record(name), json.dumps(record).encode() + b"\n")

    def _read_record(self, name: str) -> dict[str, object]:
        try:
            found = json.loads(self._record(name).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _size(self, name: str) -> int:
        size = self._read_record(name).get("size")
        return size if isinstance(size, int) else 0

    def _is_block(self, name: str) -> bool:
        return self._read_record(name).get("block") is True


@contextmanager
def _translate_errors(place: Path) -> Iterator[None]:
    """What the file system says becomes a sentence that names the path."""
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        what, where = str(error), place
        if isinstance(error, OSError):
            what, where = error.strerror or what, error.filename or place
        raise VolumeDriverError(f"{where}: {what}") from error


def _has_one_file(path: Path) -> bool:
    """Whether a volume is no more than one file, as that of a VM's disk is."""
    with os.scandir(path) as entries:
        found = list(itertools.islice(entries, 2))
    return not found or (len(found) == 1 and found[0].is_file(follow_symlinks=False))


def _sync_all(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syncfs(descriptor, str(path))
    finally:
        os.close(descriptor)
