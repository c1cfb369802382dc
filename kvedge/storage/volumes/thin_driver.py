"""Volumes as thin volumes of LVM: a device is the logical volume itself, a file system lies on one.

Called by `standalone/volumes`. Touches logical volumes of its group that bear its mark, and no others; links to them in
a directory of /dev, and mount points in a directory of its own. What a volume is stands in tags of its logical volume.
A volume is made under another name, filled and renamed: each of that is one change of the group, which lvm2 makes whole
or not at all, also when kvedge or the host dies.
"""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kvedge.storage.volumes.device_links import lead_to
from kvedge.storage.volumes.file_systems import grow_file_system, make_file_system, mount_volume, unmount_volume
from kvedge.storage.volumes.lvm_programs import LvmPrograms, ProgramError
from kvedge.storage.volumes.lvm_report import LogicalVolume, VolumeGroup
from kvedge.storage.volumes.place_notes import drop_note, read_notes, write_note
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.thin_volumes import (
    NOTES_VOLUME,
    PoolSeen,
    ThinVolume,
    change_size_tag,
    lv_name,
    lv_size,
    make_tags,
    pool_space,
    pool_trouble,
    room_trouble,
    see_pool,
    staged_name,
)
from kvedge.storage.volumes.volume_driver import (
    DEVICES,
    ERASED,
    FILLED,
    MOUNTS,
    NAMED,
    PUT_AWAY,
    STAGED,
    SYNCED,
    NewVolume,
    PlaceMissing,
    PlaceSpace,
    SnapshotFacts,
    Stepped,
    VolumeDriverError,
    VolumeUsage,
    ignore_step,
)

_NOTES_SIZE: Final = 128 << 20


@dataclass(slots=True)
class ThinDriver:
    """The volumes in one thin pool; `devices` is where links to them lie, `mounts` where file systems are mounted."""

    identity: ThinIdentity
    devices: Path
    mounts: Path
    programs: LvmPrograms = field(default_factory=LvmPrograms)
    stepped: Stepped = ignore_step
    _group: VolumeGroup | None = field(default=None, init=False)
    _swept: bool = field(default=False, init=False)
    # The first call that prepares a place sweeps it, before anything is made there.
    _sweeping: threading.Lock = field(default_factory=threading.Lock, init=False)
    # Several loops write notes, and the first one makes the file system for them.
    _noting: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def where(self) -> str:
        """The place in words."""
        return f"thin pool {self.identity.where}"

    def prepare(self) -> None:
        """See that the pool is there and the same, and erase what was left half made.

        Raises:
            PlaceMissing: the pool is not what it was.
            VolumeDriverError: it cannot be used.
        """
        with self._sweeping, self._translate_errors():
            seen = self._look()
            if seen.pool.minor < 0:
                # Of one that is not active nobody knows how full it is.
                self._change("lvchange", "--activate", "y", self._path(seen.pool.name))
            if self._swept:
                return
            for name in seen.staged:
                self._change("lvremove", self._path(name))
            for volume in seen.volumes.values():
                if volume.lv.suspended:
                    # A program of lvm2 was killed in the middle of a change.
                    self._change("lvchange", "--refresh", self._path(volume.lv.name))
            self._swept = True

    def make(self, volume: NewVolume) -> None:
        """Make an empty volume; a present volume is left as it is."""
        with self._translate_errors():
            size = lv_size(volume.size, block=volume.block)
            words = ["--wipesignatures", "n", "--virtualsize", f"{size}b", "--thinpool", self.identity.where]

            def fill(staged: str) -> None:
                if not volume.block:
                    make_file_system(self.programs, self._device(staged))

            self._make(self._look(), volume, [*words, *make_tags(volume)], fill)

    def grow(self, name: str, size: int) -> None:
        """Let a volume hold so much; never less than before."""
        with self._translate_errors():
            seen = self._look()
            volume = self._find(seen, name)
            if size <= volume.size:
                return
            self._check_room(seen)
            wanted = lv_size(size, block=volume.block)
            if volume.lv.size < wanted:
                self._change("lvextend", "--size", f"{wanted}b", self._path(volume.lv.name))
            if not volume.block and os.path.ismount(self.mounts / name):
                grow_file_system(self.programs, self._device(volume.lv.name))
            self._change("lvchange", *change_size_tag(volume, size), self._path(volume.lv.name))

    def clone(self, source: str, volume: NewVolume, keep_on: Callable[[], None]) -> None:
        """Make a volume that shares the content of another one, or of a snapshot."""
        with self._translate_errors():
            seen = self._look()
            origin = self._find(seen, source)
            if origin.block != volume.block:
                raise VolumeDriverError("a clone has the volume mode of its source")
            if volume.size < origin.asked:
                raise VolumeDriverError(f"a clone is at least as large as its source, {origin.asked} bytes")
            words = ["--setactivationskip", "n", "--permission", "rw", *make_tags(volume)]

            def fill(staged: str) -> None:
                wanted = lv_size(volume.size, block=volume.block)
                if origin.lv.size < wanted:
                    self._change("lvextend", "--size", f"{wanted}b", self._path(staged))
                keep_on()

            self._make(seen, volume, words, fill, origin=origin)

    def room_for(self, size: int, *, block: bool) -> int:
        """A file system needs room for itself, too."""
        return lv_size(size, block=block)

    def shares_blocks(self) -> bool:
        """Thin volumes always do."""
        return True

    def takes_all_at_once(self) -> bool:
        """The kernel stops the writers of a device, and the file system on it, while it is snapshotted."""
        return True

    def snapshot(self, name: str, snapshot: str, keep_on: Callable[[], None], *, at_once: bool) -> None:
        """Keep the present content of a volume under another name; the kernel stops its writers for that moment."""
        with self._translate_errors():
            seen = self._look()
            origin = self._find(seen, name)
            volume = NewVolume(snapshot, origin.asked, origin.block)
            tags = make_tags(volume, taken=time.time_ns(), shared=origin.used)
            words = ["--setactivationskip", "y", "--permission", "r", *tags]
            self._make(seen, volume, words, lambda _: keep_on(), origin=origin)

    def snapshots_at_once(self, name: str) -> bool:
        """Whether the volume is there: all can be."""
        with self._translate_errors():
            self._find(self._look(), name)
            return True

    def snapshot_facts(self, snapshot: str) -> SnapshotFacts:
        """What it was taken of, and when."""
        with self._translate_errors():
            found = self._find(self._look(), snapshot)
            return SnapshotFacts(found.size, found.block, found.taken, Path("/dev", self._path(found.lv.name)))

    def remove(self, name: str) -> None:
        """Take a volume away, with its content; nothing happens when there is none."""
        with self._translate_errors():
            volume = self._look().volumes.get(name)
            self._let_go(name)
            self.stepped(PUT_AWAY)
            if volume is not None:
                self._change("lvremove", self._path(volume.lv.name))
            self.stepped(ERASED)

    def usage(self, name: str) -> VolumeUsage:
        """What a volume holds."""
        with self._translate_errors():
            found = self._find(self._look(), name)
            return VolumeUsage(size=found.size, used=found.used, enforced=True)

    def describe(self, name: str) -> tuple[int, bool]:
        """How large a volume may become, and whether it is a device."""
        with self._translate_errors():
            found = self._find(self._look(), name)
            return found.size, found.block

    def path(self, name: str, *, block: bool) -> Path:
        """Where a volume is when it is attached."""
        return self.devices / name if block else self.mounts / name / "data"

    def attach(self, name: str) -> Path:
        """Activate a volume: the link to its device, or the directory in its file system, which is mounted."""
        with self._translate_errors():
            volume = self._find(self._look(), name)
            if volume.lv.minor < 0:
                self._change("lvchange", "--activate", "y", "--ignoreactivationskip", self._path(volume.lv.name))
                volume = self._find(self._look(), name)
            device = self._node_of(volume.lv)
            if not volume.block:
                return mount_volume(self.programs, device, self.mounts / name)
            return lead_to(self.devices / name, device)

    def detach(self, name: str) -> None:
        """Let go of the device of a volume, and of what is mounted of it."""
        with self._translate_errors():
            volume = self._look().volumes.get(name)
            self._let_go(name)
            if volume is not None and volume.lv.minor >= 0:
                self._change("lvchange", "--activate", "n", self._path(volume.lv.name))

    def names(self) -> Collection[str]:
        """The volumes that are whole, and the snapshots."""
        with self._translate_errors():
            return [name for name in self._look().volumes if name != NOTES_VOLUME]

    def space(self) -> PlaceSpace:
        """The room of the pool."""
        with self._translate_errors():
            return pool_space(self._look())

    def write_note(self, name: str, content: bytes) -> None:
        """Keep a note in the pool, in a small file system for all of them."""
        with self._noting, self._translate_errors():
            self.make(NewVolume(NOTES_VOLUME, _NOTES_SIZE))
            write_note(self.attach(NOTES_VOLUME), name, content)

    def drop_note(self, name: str) -> None:
        """Remove a note."""
        with self._noting, self._translate_errors():
            if NOTES_VOLUME in self._look().volumes:
                drop_note(self.attach(NOTES_VOLUME), name)

    def notes(self) -> Iterator[tuple[str, bytes, float]]:
        """All notes, each with when it was written."""
        with self._translate_errors():
            if NOTES_VOLUME in self._look().volumes:
                yield from read_notes(self.attach(NOTES_VOLUME))

    def _look(self) -> PoolSeen:
        """What the pool holds now, after it was found to be the right one.

        Raises:
            PlaceMissing: it is not there, or another one.
        """
        try:
            return self._look_at(self._group or self._find_group())
        except VolumeDriverError:
            if self._group is None:
                raise
            # Its disk may have another name since it was looked at.
            return self._look_at(self._find_group())

    def _find_group(self) -> VolumeGroup:
        # Others go on with the one that is known.
        return self.identity.choose(self.programs.groups())

    def _look_at(self, group: VolumeGroup) -> PoolSeen:
        where = self.identity.where
        seen = see_pool(self.programs.volumes(group), self.identity.pool)
        if seen is None:
            raise PlaceMissing(
                f"{where} is no thin pool: make it (lvcreate --type thin-pool), or correct the setting volume-places",
                "PlaceMissing",
            )
        self.identity.check(seen.pool.group_uuid, seen.pool.uuid)
        trouble = pool_trouble(seen, where)
        if trouble:
            raise PlaceMissing(trouble, "PlaceMissing")
        self._group = group
        return seen

    def _make(
        self,
        seen: PoolSeen,
        volume: NewVolume,
        words: list[str],
        fill: Callable[[str], None],
        *,
        origin: ThinVolume | None = None,
    ) -> None:
        if volume.name in seen.volumes:
            return
        self._check_room(seen)
        staged, final = staged_name(volume.name), lv_name(volume.name)
        if staged in seen.staged:
            self._change("lvremove", self._path(staged))
        for name in (final, staged):
            if name in seen.names and name not in seen.staged:
                raise VolumeDriverError(
                    f"logical volume {self._path(name)} was not made by kvedge, as it has no tag kvedge, or lies in "
                    "another pool: rename it (lvrename)"
                )
        source = [self._path(origin.lv.name)] if origin is not None else []
        self._change("lvcreate", "--type", "thin", "--name", staged, *words, *(source or [self.identity.group]))
        self.stepped(STAGED)
        try:
            fill(staged)
            self.stepped(FILLED)
            # What was written to a device lies in memory until then; all else lvm2 has on disk when it returns.
            self._write_out(staged, needed=origin is None and not volume.block)
            self.stepped(SYNCED)
            self._change("lvrename", self.identity.group, staged, final)
            self.stepped(NAMED)
        except Exception:
            with suppress(VolumeDriverError):
                self._change("lvremove", self._path(staged))
            raise

    def _write_out(self, name: str, *, needed: bool) -> None:
        if not needed:
            return
        opened = os.open(self._device(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def _let_go(self, name: str) -> None:
        try:
            unmount_volume(self.mounts / name)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            text = f"volume {name} is in use at {self.mounts / name}: a process has it open"
            raise VolumeDriverError(text) from error
        (self.devices / name).unlink(missing_ok=True)

    def _device(self, name: str) -> Path:
        """The device of a logical volume that is active; it need not have its own name yet."""
        assert self._group is not None
        found = [each for each in self.programs.volumes(self._group) if each.name == name]
        if not found:
            raise VolumeDriverError(f"logical volume {self._path(name)} is gone")
        return self._node_of(found[0])

    def _node_of(self, lv: LogicalVolume) -> Path:
        """Its device by its name: the number goes to another volume once this one is not active any more."""
        if lv.minor < 0:
            raise VolumeDriverError(
                f"logical volume {self._path(lv.name)} has no device: lvchange -ay {self._path(lv.name)}"
            )
        return self.programs.node_of(self.identity.group, lv)

    def _check_room(self, seen: PoolSeen) -> None:
        trouble = room_trouble(seen, self.identity.where)
        if trouble:
            raise VolumeDriverError(trouble)

    def _find(self, seen: PoolSeen, name: str) -> ThinVolume:
        found = seen.volumes.get(name)
        if found is None:
            raise VolumeDriverError(
                f"volume {name} is not in {self.where}: it was removed, or lies in a backup", "VolumeMissing"
            )
        return found

    def _change(self, verb: str, *words: str) -> None:
        assert self._group is not None
        self.programs.change(self._group, verb, *words)

    def _path(self, name: str) -> str:
        return f"{self.identity.group}/{name}"

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """What the kernel and programs say becomes a sentence that names the pool."""
        try:
            yield
        except ProgramError as error:
            raise VolumeDriverError(f"{self.where}: {error}") from error
        except (OSError, subprocess.SubprocessError) as error:
            what = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            raise VolumeDriverError(f"{self.where}: {what}") from error


def thin_place(name: str, identity: ThinIdentity) -> ThinDriver:
    """The driver of a place of that name."""
    return ThinDriver(identity, DEVICES, MOUNTS / name)
