"""How the disks of a copy are read: the images that they go into, the processes that write these, and the room that the
guest is left with meanwhile.

Part of `disk_copies`, whose thread calls it. Touches the images, what libvirt puts aside beside the guest's layers, and
the socket that it serves disks at.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvedge.launcher.copies.copy_plan import DiskToCopy, count_reserve, is_short
from kvedge.launcher.copies.guest_hold import GUEST_ENDED, Aborted
from kvedge.launcher.launcher_errors import DiskFull, WrongState
from kvedge.resources.disks.hotplug_places import hotplug_path

if TYPE_CHECKING:
    from kvedge.launcher.copies.backup_images import BackupImages
    from kvedge.launcher.copies.copy_process import QuietProcess, Source
    from kvedge.launcher.libvirt.domain_backup import ServedDisk
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

# How often it is looked at what is done and whether there is room: what a fast disk takes meanwhile is the reserve.
_LOOK_SECONDS: Final = 0.2
_SCRATCH: Final = "copy-scratch"
_SOCKET: Final = "copy.sock"


class DiskReading:
    """The reader of one guest's copies; used by one thread at a time, but for `percent`."""

    def __init__(self, session: LibvirtSession, places: tuple[str, str, str], aborting: threading.Event) -> None:
        """`places` are the directory of the run, that of the guest's layers, and what is before the Pod's paths;
        `aborting` is set when the copy is to end.
        """
        self._session = session
        directory, layers, self.root = places
        self.socket = f"{directory}/{_SOCKET}"
        self._scratch = f"{layers}/{_SCRATCH}"
        self._aborting = aborting
        # How much of all disks is read.
        self.percent = 0

    @property
    def has_rest(self) -> bool:
        """Whether something is left of a copy."""
        return os.path.exists(self._scratch)

    def make_room(self) -> None:
        """A new place for what the guest writes over.

        Raises:
            DiskFull: when there is hardly room.
        """
        _remove(self._scratch)
        os.makedirs(self._scratch, mode=0o700, exist_ok=True)
        self._check_room()

    def prepare_image(self, each: DiskToCopy) -> None:
        """Make the image of one disk.

        Raises:
            DiskFull: when it would not go into its volume.
        """
        path = self._path(each)
        size, allocated = self._session.backup.sizes(each.disk.target)
        if each.wanted.block:
            return
        from kvedge.launcher.copies.copy_process import prepare_image

        prepare_image(path, size)
        space = os.statvfs(path)
        if space.f_bavail * space.f_frsize < min(allocated, size):
            raise DiskFull(f"the copy of volume {each.wanted.volume}", f"{allocated} bytes are allocated")

    def served_disks(self, disks: Sequence[DiskToCopy]) -> list[ServedDisk]:
        """Those that libvirt's job is to serve, with the place for what the guest writes over."""
        from kvedge.launcher.libvirt.domain_backup import ServedDisk

        return [
            ServedDisk(each.disk.target, each.wanted.volume, f"{self._scratch}/{each.wanted.volume}")
            for each in disks
            if each.served
        ]

    def memory_path(self, volume: str) -> str:
        """The file that the guest's memory goes into."""
        return self.root + hotplug_path(volume, block=False)

    def copy_all(self, disks: Sequence[DiskToCopy], memory: str) -> None:
        """Copy the disks, one after the other, and have them, and the memory in the volume `memory`, on the medium."""
        from kvedge.launcher.copies.copy_process import image_at, served_at, sync_target

        for number, each in enumerate(disks):
            source = (
                served_at(self.socket, each.wanted.volume)
                if each.served
                else image_at(each.disk.source, block=_is_device(each.disk.source))
            )
            self._copy_one(each, source, (number, len(disks)))
            sync_target(self._path(each))
        if memory:
            sync_target(self.memory_path(memory))
        if any(each.served for each in disks):
            self._check_job()

    def write_images(self, images: BackupImages, disks: Sequence[DiskToCopy]) -> None:
        """Write the images of a backup."""
        self._follow(images.write(self.socket, disks), (0, 1))
        self._check_job()

    def remove_rest(self) -> None:
        """Remove what the job has left beside the guest's layers, and its socket."""
        _remove(self._scratch)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)

    def _check_job(self) -> None:
        """A job that ended meanwhile has not served the whole."""
        if not self._session.backup.is_active():
            raise WrongState(GUEST_ENDED)

    def _copy_one(self, each: DiskToCopy, source: Source, place: tuple[int, int]) -> None:
        from kvedge.launcher.copies.copy_process import CopyProcess

        self._follow(CopyProcess(source, self._path(each), block=each.wanted.block), place)

    def _follow(self, process: QuietProcess, place: tuple[int, int]) -> None:
        """Wait for the end of a process, which is so many of so many."""
        number, count = place
        try:
            while not process.look():
                self.percent = (number * 100 + process.percent) // count
                if self._aborting.wait(_LOOK_SECONDS):
                    raise Aborted
                self._check_room()
            process.check()
        finally:
            process.end()

    def _check_room(self) -> None:
        space = os.statvfs(self._scratch)
        free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        if is_short(free, total):
            detail = f"{free} bytes are free there, and {count_reserve(total)} are left to the guest"
            raise DiskFull("what the guest writes over while its disks are copied", detail)

    def _path(self, each: DiskToCopy) -> str:
        return self.root + hotplug_path(each.wanted.target, block=each.wanted.block)


def _remove(directory: str) -> None:
    """Remove a directory with the files in it; libvirt may just remove one of them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            with contextlib.suppress(OSError):
                os.unlink(f"{directory}/{name}")
        os.rmdir(directory)


def _is_device(path: str) -> bool:
    return stat.S_ISBLK(os.stat(path).st_mode)
