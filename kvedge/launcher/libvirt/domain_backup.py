"""The one moment of all disks: libvirt's backup job, which serves them as they were when it began, over NBD.

Part of the door to libvirt; made by `libvirt_session`. What the guest writes over while the job lasts is first put
aside into files, of which the job makes one for each disk, so that whoever reads the disks never holds the guest up.
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import libvirt

from kvedge.launcher.launcher_errors import DomainMissing, LauncherError, Unanswered
from kvedge.launcher.libvirt.libvirt_errors import translate_errors


class ServedDisk(NamedTuple):
    """A disk of the domain: its target there, the export's name, and the file for what is written over."""

    target: str
    export: str
    scratch: str


# A job that serves what was is one of these; the guest may run or be paused.
_BACKUP: Final = libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
# QEMU ends a job that is called off at once, and on a busy machine soon.
_END_SECONDS: Final = 20.0
_PAUSE: Final = 0.05


class DomainBackup:
    """The backup job of one domain; every method may be called from any thread."""

    def __init__(self, find: Callable[[], Any], seconds: float = _END_SECONDS) -> None:
        """`find()` is the domain; raises LauncherError. A job that was called off gets so many seconds to end."""
        self._find = find
        self._seconds = seconds

    def begin(self, socket: str, disks: Sequence[ServedDisk]) -> None:
        """Fix the moment of all these disks at once, and serve them on a socket.

        Raises:
            LauncherError: when libvirt or QEMU refuses; then there is no job.
        """
        with translate_errors("beginning to copy the disks"):
            self._find().backupBegin(render_backup(socket, disks), None, 0)

    def is_active(self) -> bool:
        """Whether such a job goes on. Raises LauncherError."""
        try:
            domain = self._find()
        except DomainMissing:
            return False
        with translate_errors("looking for a job"):
            if not domain.isActive():
                return False
            found = domain.jobStats()
        return bool(found.get("type")) and found.get("operation") == _BACKUP

    def end(self) -> None:
        """End the job: nothing is served any more, and libvirt removes its files. Without a job it does nothing.

        libvirt returns before QEMU has ended its part: this waits for it, so that the next job finds none.

        Raises:
            LauncherError: when libvirt does not end it.
        """
        if not self.is_active():
            return
        failure: LauncherError = Unanswered("ending the copy of the disks: QEMU does not end it")
        try:
            with translate_errors("ending the copy of the disks"):
                self._find().abortJob()
        except DomainMissing:
            return
        except LauncherError as error:
            # It may have ended in between, or be about to.
            failure = error
        give_up = time.monotonic() + self._seconds
        while self.is_active():
            if time.monotonic() > give_up:
                raise failure
            time.sleep(_PAUSE)

    def sizes(self, target: str) -> tuple[int, int]:
        """How many bytes a disk has for the guest, and how many are allocated for it. Raises LauncherError."""
        with translate_errors(f"reading the size of disk {target}"):
            capacity, allocation, _ = self._find().blockInfo(target)
        return int(capacity), int(allocation)


def render_backup(socket: str, disks: Sequence[ServedDisk]) -> str:
    """libvirt's document of the job: the listed disks, and no other."""
    document = ElementTree.Element("domainbackup", mode="pull")
    ElementTree.SubElement(document, "server", transport="unix", socket=socket)
    listed = ElementTree.SubElement(document, "disks")
    for disk in disks:
        entry = ElementTree.SubElement(
            listed, "disk", name=disk.target, type="file", backup="yes", exportname=disk.export
        )
        ElementTree.SubElement(entry, "scratch", file=disk.scratch)
    return ElementTree.tostring(document, encoding="unicode")
