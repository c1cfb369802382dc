"""The errand of a worker that serves disks to their guest while it brings them back from a backup.

Called by the worker. It ends once each disk is there, has its name, and is used by nobody through this process: a
guest that was started before goes on through it until it ends.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from kvedge.resources.types.protection.backup_job import BackupJob, BackupOutcome, BackupVolume, LiveState
from kvedge.storage.backups.backup_errand import BackupPlaces, find_disk
from kvedge.storage.backups.live.backup_source import BackupSource
from kvedge.storage.backups.live.block_map import LiveFacts, MapUnusable, read_content
from kvedge.storage.backups.live.disk_server import DiskServer, remove_socket
from kvedge.storage.backups.live.live_disk import DiskInUse, LiveDisk, UsedItself, is_there
from kvedge.storage.backups.restic_client import KeptFile, ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress

log = logging.getLogger(__name__)

# What is copied between two looks at whether the guest waits.
_BLOCKS_AT_ONCE: Final = 4
_STEP_BACK_SECONDS: Final = 0.002
_LOOK_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 5.0
# A guest that saw the disk when it was incomplete may be about to come, or to come back.
_LINGER_SECONDS: Final = 15.0
# For restic to move: a guest waits meanwhile.
_STALL_SECONDS: Final = 60.0
_LONGEST_MESSAGE: Final = 1000

Tell = Callable[[LiveState], None]


class ServedDisk:
    """One disk with its server and its source."""

    def __init__(self, volume: BackupVolume, job: BackupJob, client: ResticClient, places: BackupPlaces) -> None:
        """Open it. Raises BackupFailure, and UsedItself when it needs nobody."""
        self.name = volume.name
        self.failure = ""
        self._retry_at = self._idle_since = 0.0
        with ExitStack() as undo:
            try:
                folder = os.open(places.volumes / volume.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                undo.callback(os.close, folder)
                content = read_content(folder)
                if not content and not is_there(folder):
                    content = find_disk(job, client, volume).number
                kept = KeptFile(content, "", frozenset())
                self._source = BackupSource(lambda: client.ask(kept, f"{volume.name}.img", _STALL_SECONDS), volume.size)
                self.disk = LiveDisk(folder, LiveFacts(volume.size, content, volume.uid), self._source)
                undo.callback(self.disk.close)
                undo.callback(self._source.close)
                self._server = DiskServer(self.disk, folder, volume.name)
                undo.callback(self._server.stop)
            except UsedItself:
                # No worker is there; one that was killed may have left it.
                remove_socket(folder)
                raise
            except (DiskInUse, MapUnusable, OSError) as error:
                raise BackupFailure(f"the disk of volume {volume.name}: {error}") from error
            except ImportFailure as error:
                raise BackupFailure(error.message, fatal=error.fatal) from error
            self._undo = undo.pop_all()
        self._server.start()

    def close(self) -> None:
        """Let go of the claim."""
        self._undo.close()

    def work(self, now: float) -> bool:
        """Copy a little; False when there is nothing to do now."""
        if self.disk.is_complete or now < self._retry_at:
            return False
        if self.disk.is_awaited:
            time.sleep(_STEP_BACK_SECONDS)
            return True
        try:
            self.disk.copy_some(_BLOCKS_AT_ONCE)
            self.failure = ""
        except BackupFailure as error:
            self._note(error.message, now)
        except OSError as error:
            self._note(f"the disk of volume {self.name} cannot be written: {error}", now)
        if self.disk.is_complete:
            self._source.close()
        return True

    def is_done(self, now: float) -> bool:
        """Whether it is a disk like any other, which nobody uses through us."""
        if not self.disk.is_complete or self._server.has_client:
            self._idle_since = 0.0
            return False
        if not self._server.had_client:
            # A guest that is idle, or that stands, has not noticed that another worker is here, and will need it. Until
            # it comes, or one that was started since opens the image itself, nobody can tell.
            return not self._server.share()
        self._idle_since = self._idle_since or now
        return now - self._idle_since >= _LINGER_SECONDS

    def _note(self, message: str, now: float) -> None:
        if message != self.failure:
            log.warning("%s", message)
        self.failure = message
        self._retry_at = now + _RETRY_SECONDS


def serve_disks(
    job: BackupJob, client: ResticClient, places: BackupPlaces, progress: ImportProgress, tell: Tell
) -> BackupOutcome:
    """Serve the disks of the job's volumes until all are complete and not used any more.

    Raises:
        BackupFailure: when one cannot be begun.
    """
    total = sum(volume.size for volume in job.volumes)
    progress.expect(total)
    with ExitStack() as held:
        left = []
        for volume in job.volumes:
            with suppress(UsedItself):
                disk = ServedDisk(volume, job, client, places)
                held.callback(disk.close)
                left.append(disk)
        while left:
            now = time.monotonic()
            done = [disk for disk in left if disk.is_done(now)]
            left = [disk for disk in left if disk not in done]
            for disk in done:
                # Its next guest opens the image itself.
                disk.close()
            progress.reach(total - sum(disk.disk.size - disk.disk.present for disk in left))
            state = _state(left)
            if state.complete:
                progress.complete()
            tell(state)
            worked = [disk.work(now) for disk in left]
            if not any(worked):
                time.sleep(_LOOK_SECONDS)
    return BackupOutcome(message="Restore Complete", size=total)


def _state(disks: list[ServedDisk]) -> LiveState:
    failures = [disk.failure for disk in disks if disk.failure]
    return LiveState(
        ready=True,
        complete=all(disk.disk.is_complete for disk in disks),
        message=failures[0][:_LONGEST_MESSAGE] if failures else "",
    )
