"""The images of one backup: their directory, the notes of what changes, and the process that writes them.

Made by `disk_copies` for one backup. The notes of the next changes begin before the moment of the backup, and the notes
since the last one are read after it. Each may so have more than what lies between the two moments, and never less;
what is read is the disk as it was at the moment in any case. Until the backup is whole nothing is forgotten that the
one before it has left.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvedge.launcher.copies.backup_plan import WantedBackup, check_count, find_useless, why_full
from kvedge.launcher.copies.copy_plan import DiskToCopy
from kvedge.launcher.launcher_errors import BadRequest, LauncherError
from kvedge.resources.disks.hotplug_places import HOTPLUG_DIRECTORY
from kvedge.resources.disks.vm_backups import MANIFEST

if TYPE_CHECKING:
    from kvedge.launcher.copies.copy_process import QuietProcess
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.launcher.libvirt.tracked_disks import TrackedDisk

log = logging.getLogger(__name__)

_DIRECTORY_MODE: Final = 0o750


class BackupImages:
    """The images of one backup, for the thread that copies."""

    def __init__(self, session: LibvirtSession, wanted: WantedBackup, root: str) -> None:
        self._session = session
        self.wanted = wanted
        self._claim = f"{root}{HOTPLUG_DIRECTORY}/{wanted.target}"
        self._directory = f"{self._claim}/{wanted.directory}"
        self._disks: dict[str, TrackedDisk] = {}
        self._served: dict[str, tuple[str, str]] = {}
        self._made = False
        self._begun: list[str] = []
        self.why_full = ""

    @property
    def is_incremental(self) -> bool:
        """Whether it has no more than changes."""
        return bool(self.wanted.base) and not self.why_full

    def prepare(self, disks: Sequence[DiskToCopy]) -> None:
        """Before the moment: the directory, and the notes of what will change.

        Raises:
            LauncherError, OSError: when it cannot be.
        """
        volumes = [each.wanted.volume for each in disks]
        self._make_directory()
        bitmaps = self._session.bitmaps
        found = bitmaps.disks()
        for name, bitmap in find_useless(self.wanted, found):
            bitmaps.forget(found[name], bitmap)
        found = bitmaps.disks()
        self._disks = {name: found[name] for name in volumes if name in found}
        self.why_full = why_full(self.wanted, volumes, self._disks)
        if not self.wanted.checkpoint:
            return
        check_count(volumes, self._disks)
        for name, disk in self._disks.items():
            bitmaps.begin(disk, self.wanted.checkpoint)
            self._begun.append(name)

    def serve_changes(self) -> None:
        """After the moment: what has changed until then. Raises LauncherError."""
        if not self.is_incremental:
            return
        for name, disk in self._disks.items():
            self._served[name] = self._session.bitmaps.serve(disk, self.wanted.base, name)

    def write(self, socket: str, disks: Sequence[DiskToCopy]) -> QuietProcess:
        """Begin to write all images. Raises OSError."""
        from kvedge.launcher.copies.copy_process import BackupProcess

        listed = []
        for each in disks:
            volume = each.wanted.volume
            changes, bitmap = self._served.get(volume, ("", ""))
            path = f"{self._directory}/{self.wanted.image(volume)}"
            listed.append({"export": volume, "path": path, "changes": changes, "bitmap": bitmap})
        return BackupProcess(json.dumps({"socket": socket, "disks": listed}).encode())

    def complete(self, started_ms: int) -> None:
        """All images are whole: say so beside them, last of all. Raises OSError."""
        wanted = self.wanted
        document = {
            "vm": wanted.vm,
            "backup": wanted.name,
            "type": "Incremental" if self.is_incremental else "Full",
            "checkpoint": wanted.checkpoint,
            "since": wanted.base if self.is_incremental else "",
            "takenUnixMs": started_ms,
            "volumes": [
                {"name": name, "file": wanted.image(name), "size": disk.size} for name, disk in self._disks.items()
            ],
        }
        path = f"{self._directory}/{MANIFEST}"
        opened = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        with open(opened, "w") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(opened)
        os.rename(f"{path}.new", path)
        for directory in (self._directory, os.path.dirname(self._directory), self._claim):
            _sync(directory)

    def end(self, *, complete: bool) -> None:
        """After the job: the copies of notes go, and of a backup that failed all that it began. Never raises."""
        for name in self._served:
            with contextlib.suppress(LauncherError):
                self._session.bitmaps.stop_serving(self._disks[name])
        if complete:
            return
        try:
            # As they are now: the job's own filter may just have gone.
            found = self._session.bitmaps.disks()
            useless = [(name, each) for name in self._begun if name in found for each in found[name].bitmaps]
            for name, bitmap in useless:
                if f":{self.wanted.checkpoint}:" in bitmap:
                    self._session.bitmaps.forget(found[name], bitmap)
        except LauncherError as error:
            # The next backup that needs it not forgets it.
            log.warning("the notes of a failed backup stay", extra={"facts": {"why": str(error)}})
        if self._made and not self._leads_elsewhere(self._directory):
            _remove_files(self._directory)

    def _make_directory(self) -> None:
        """Raises BadRequest when the claim has something else there."""
        if not os.path.isdir(self._claim):
            raise BadRequest("backup.target", f"no claim was handed over as {self.wanted.target}")
        # Before anything is made or removed: what is in the claim is somebody else's word.
        parent = os.path.dirname(self._directory)
        self._check_place(parent)
        os.makedirs(parent, _DIRECTORY_MODE, exist_ok=True)
        try:
            os.mkdir(self._directory, _DIRECTORY_MODE)
        except FileExistsError:
            self._check_place(self._directory)
            # Of an attempt whose launcher was killed; it has no manifest then.
            if os.path.exists(f"{self._directory}/{MANIFEST}"):
                raise BadRequest("backup.directory", f"{self.wanted.directory} holds a backup already") from None
            _remove_files(self._directory)
            os.mkdir(self._directory, _DIRECTORY_MODE)
        self._check_place(self._directory)
        self._made = True

    def _check_place(self, path: str) -> None:
        if self._leads_elsewhere(path):
            raise BadRequest("backup.directory", "the claim has a link there; remove it")

    def _leads_elsewhere(self, path: str) -> bool:
        wanted = os.path.realpath(self._claim) + path.removeprefix(self._claim)
        return os.path.islink(path) or os.path.realpath(path) != wanted


def _remove_files(directory: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            with contextlib.suppress(OSError):
                os.unlink(f"{directory}/{name}")
        os.rmdir(directory)


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
