"""Disks of the running guest, copied as they all were at one moment, into volumes that the handler has handed over.

Each goes into a volume of its own for a snapshot; all go as images into one volume for a backup.

Kept by `domain_run`; asked by `domain_view` what is to be said of it. A thread of its own freezes the guest, begins
libvirt's backup job, thaws it at once, has `disk_reading` read the disks from that job, and ends it. Nothing here holds
the guest up but the freeze, or the saving of its memory: what it writes over meanwhile is put aside beside its layers,
and when there is hardly room for that, the copy ends.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kvedge.launcher.copies.copy_plan import (
    GUEST_AGENT,
    PAUSED,
    QUIESCE_TIMEOUT,
    DiskToCopy,
    WantedCopy,
    choose_disks,
)
from kvedge.launcher.copies.copy_record import CopyRecord, CopyStore
from kvedge.launcher.copies.disk_reading import DiskReading
from kvedge.launcher.copies.guest_hold import GUEST_ENDED, Aborted, GuestHold
from kvedge.launcher.copies.memory_checks import check_guest, check_room, check_stands
from kvedge.launcher.copies.state_copy import StateCopy
from kvedge.launcher.launcher_errors import BadRequest, LauncherError, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.values.name_grammar import is_label
from kvedge.rpc.launcher_pb2 import (
    DISK_COPY_ACTIVE,
    DISK_COPY_COMPLETE,
    DISK_COPY_FAILED,
    DISK_COPY_PREPARING,
    DiskCopyJob,
)
from kvedge.runtime.background import passing_thread

if TYPE_CHECKING:
    from kvedge.launcher.agent.guest_freezer import GuestFreezer
    from kvedge.launcher.copies.backup_images import BackupImages
    from kvedge.launcher.copies.backup_plan import WantedBackup
    from kvedge.launcher.libvirt.domain_backup import ServedDisk
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

_LONGEST_MESSAGE: Final = 1024
# Of the progress that is told, in per cent: each is a write to the API.
_STEP: Final = 5
_STARTED_AGAIN: Final = "the launcher was started again while the disks were copied"
_MOMENT_LOST: Final = f"{_STARTED_AGAIN}, and QEMU no longer keeps them as they were"
# A copy that takes one launcher after the other with it is ended.
_MOST_ADOPTED: Final = 3


class DiskCopies:
    """The copies of one guest's disks, one at a time; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        freezer: GuestFreezer,
        places: tuple[str, str, str],
        on_change: Callable[[], None],
        go_on: Callable[[], None],
    ) -> None:
        """`places` are the directory of the run, that of the guest's layers, and what is before the Pod's paths.

        `on_change()` asks for a look at the domain, `go_on()` lets a guest go on that stands still with an I/O error.
        """
        self._session = session
        self._freezer = freezer
        self._store = CopyStore(places[0])
        self._on_change = on_change
        self._go_on = go_on
        self._changing = threading.Lock()
        self._record = self._store.read()
        self._wait = ""
        self._aborting = threading.Event()
        self._reading = DiskReading(session, places, self._aborting)
        self._state = StateCopy(places[0], places[2])
        self._working = False
        self._hold = GuestHold(session, freezer, self._aborting, self._note_freeze, self._tell_wait)
        # Of the copy that is under way, when it is a backup.
        self._images: BackupImages | None = None

    @property
    def holds_guest(self) -> bool:
        """Whether the guest stands, or is about to, while its memory is saved, and is to go on after it."""
        return self._record.held

    @property
    def keeps_state(self) -> bool:
        """Whether the guest's memory is about to be saved, or is: one that stands goes on for nobody, and one that runs
        stands for nobody else.
        """
        record = self._record
        stands = record.memory or record.state
        return record.held or bool(self._working and stands and record.is_open and not record.started_ms)

    @property
    def is_active(self) -> bool:
        """Whether a copy is under way, or its rest is still there."""
        return self._working

    def take_over(self) -> None:
        """Go on with what a launcher before this one has left, or end it: its reader is gone.

        From the moment on QEMU keeps the disks as they were then, whatever becomes of us: they are read once more.
        """
        self.let_go()
        record = self._record
        if not record.is_open and not self._reading.has_rest:
            return
        self._working = True
        if record.is_open and record.started_ms and (record.disks or record.state) and record.adopted < _MOST_ADOPTED:
            log.warning("a copy of a launcher before this one goes on", extra={"facts": {"copy": record.id}})
            self._note(record._replace(adopted=record.adopted + 1))
            passing_thread("disk-copy", self._copy, lambda: self._adopt(record))
            return
        log.warning("a copy of a launcher before this one ends", extra={"facts": {"copy": record.id}})
        passing_thread("disk-copy-rest", self._end_rest)

    def _adopt(self, record: CopyRecord) -> Sequence[DiskToCopy]:
        """The disks of a copy whose moment is past, with new images; the job must have served them ever since.

        libvirt ends the job of which it finds, when it comes back, that a disk is no longer kept as it was.
        """
        disks = choose_disks(self._session.facts(), [WantedCopy(*each) for each in record.disks])
        if any(each.served for each in disks) and not self._session.backup.is_active():
            raise WrongState(_MOMENT_LOST)
        for each in disks:
            self._reading.prepare_image(each)
        return disks

    def _end_rest(self) -> None:
        record = self._record
        try:
            if record.is_open and record.froze and not record.started_ms:
                self._freezer.thaw_soon()
            self._clean_up()
        finally:
            if self._record.is_open:
                self._finish(_STARTED_AGAIN)
            self._working = False
            self._on_change()

    def begin(
        self,
        copy_id: str,
        wanted: Sequence[WantedCopy],
        facts: DomainFacts | None,
        backup: WantedBackup | None = None,
        memory: str = "",
    ) -> None:
        """Begin to copy, unless this copy has begun before; with `backup` into images, with the guest's memory into the
        file of the volume `memory`.

        Raises:
            WrongState: when another copy is under way, or there is no guest.
            BadRequest: when a disk cannot be copied.
            OSError: when it cannot be written down; then nothing begins.
        """
        with self._changing:
            if not copy_id or copy_id == self._record.id:
                return
            if memory and (backup is not None or not is_label(memory)):
                raise BadRequest("memory", f"{memory!r} is no volume that memory could go into")
            if self._working or self._record.held:
                raise WrongState(f"copy {self._record.id} is under way; try again when it is over")
            state = next((each.target for each in wanted if each.volume == STATE_VOLUME), "")
            wanted = [each for each in wanted if each.volume != STATE_VOLUME]
            disks = choose_disks(facts, wanted)
            images = None if backup is None else self._make_images(backup, disks)
            # Images of a backup are written once, from its beginning: another launcher ends them.
            again = () if images is not None else tuple((each.volume, each.target, each.block) for each in wanted)
            record = CopyRecord(copy_id, disks=again, memory=memory, state=state)
            self._store.keep(record)
            self._record, self._wait, self._images = record, "", images
            self._reading.percent = 0
            self._aborting.clear()
            self._working = True
        passing_thread("disk-copy", self._copy, lambda: self._begin(disks))

    def abort(self, copy_id: str) -> None:
        """End this copy, if it is under way; one that has not begun never does."""
        with self._changing:
            if copy_id == self._record.id:
                self._aborting.set()

    def describe(self) -> DiskCopyJob | None:
        """For the status; None when none was asked for."""
        record = self._record
        if not record.id:
            return None
        state = DISK_COPY_ACTIVE if record.started_ms else DISK_COPY_PREPARING
        if record.ended_ms:
            state = DISK_COPY_COMPLETE if record.complete else DISK_COPY_FAILED
        return DiskCopyJob(
            id=record.id,
            state=state,
            message=record.message or self._wait,
            started_unix_ms=record.started_ms,
            ended_unix_ms=record.ended_ms,
            percent=100 if record.complete else self._reading.percent // _STEP * _STEP,
            quiesce=record.quiesce,
            frozen_ms=record.frozen_ms,
            stood_ms=record.stood_ms,
            incremental=record.incremental,
            full_because=record.full_because,
        )

    def _make_images(self, backup: WantedBackup, disks: Sequence[DiskToCopy]) -> BackupImages:
        from kvedge.launcher.copies.backup_images import BackupImages

        if not all(each.served for each in disks):
            raise BadRequest("disks", "only disks that the guest can write are backed up")
        return BackupImages(self._session, backup, self._reading.root)

    def _begin(self, disks: Sequence[DiskToCopy]) -> Sequence[DiskToCopy]:
        self._prepare(disks)
        self._fix_moment(disks)
        return disks

    def _copy(self, bring: Callable[[], Sequence[DiskToCopy]]) -> None:
        """Copy the disks that `bring()` has brought to their moment."""
        # Whatever ends this thread otherwise is no success.
        message = "it broke off"
        try:
            disks = bring()
            names = [each.disk.name for each in disks]
            log.info("copying disks", extra={"facts": {"copy": self._record.id, "disks": names}})
            if self._images is None:
                self._reading.copy_all(disks, self._record.memory)
                if self._record.state:
                    self._state.write(self._record.state)
            else:
                self._reading.write_images(self._images, disks)
                self._images.complete(self._record.started_ms)
            message = ""
        except Aborted:
            message = "it was called off"
        except (LauncherError, OSError) as error:
            message = self._explain(error)
        finally:
            self._clean_up()
            if self._images is not None:
                self._images.end(complete=not message)
            self._finish(message[:_LONGEST_MESSAGE])
            self._working = False
            self._on_change()

    def _explain(self, error: Exception) -> str:
        with contextlib.suppress(LauncherError):
            facts = self._session.facts()
            if facts is None or not facts.is_active:
                return GUEST_ENDED
        return str(error)

    def _prepare(self, disks: Sequence[DiskToCopy]) -> None:
        """Make the images, and see that there is room."""
        self._session.backup.end()
        self._reading.make_room()
        if self._images is not None:
            self._images.prepare(disks)
            return
        for each in disks:
            self._reading.prepare_image(each)

    def _fix_moment(self, disks: Sequence[DiskToCopy]) -> None:
        """Hold the guest still, begin the job, and let the guest go on."""
        served = self._reading.served_disks(disks)
        if self._record.memory:
            self._fix_moment_of_memory(served)
            return
        was_frozen = self._freezer.is_on
        quiesce = GUEST_AGENT if was_frozen else self._freeze()
        frozen = time.monotonic()
        # A guest all of whose file systems are in memory has none to freeze, and nothing that is to be written.
        is_ours = quiesce == GUEST_AGENT and not was_frozen and self._freezer.is_on
        try:
            started, stood_ms = self._begin_job(served)
        finally:
            if is_ours and not self._hold.thaw():
                quiesce = QUIESCE_TIMEOUT
        if was_frozen and not self._freezer.is_on:
            # Whoever had frozen it let it go on before the job's moment, or after: nobody knows.
            quiesce = QUIESCE_TIMEOUT
        if self._images is not None:
            self._images.serve_changes()
        frozen_ms = int((time.monotonic() - frozen) * 1000) if is_ours else 0
        with self._changing:
            record = self._record._replace(started_ms=started, quiesce=quiesce, frozen_ms=frozen_ms, stood_ms=stood_ms)
            if self._images is not None:
                why = self._images.why_full[:_LONGEST_MESSAGE]
                record = record._replace(incremental=self._images.is_incremental, full_because=why)
            self._note(record)
        log.info("the moment is fixed", extra={"facts": {"quiesce": quiesce, "frozen_ms": frozen_ms}})
        self._on_change()

    def _begin_job(self, served: Sequence[ServedDisk]) -> tuple[int, int]:
        """Begin the job; the moment, and for how many milliseconds the guest stood, as it does for its state."""
        if not self._record.state:
            if served:
                self._session.backup.begin(self._reading.socket, served)
            return _now_ms(), 0
        begun = time.monotonic()
        facts = self._session.facts()
        runs = facts is not None and facts.life in (Life.RUNNING, Life.BLOCKED)
        try:
            self._stand(runs=runs)
            self._state.pack()
            if served:
                self._session.backup.begin(self._reading.socket, served)
            started = _now_ms()
        finally:
            self.let_go()
        return started, int((time.monotonic() - begun) * 1000) if runs else 0

    def _stand(self, *, runs: bool) -> None:
        """Have a guest that runs stand until it is let go."""
        if not runs:
            return
        with self._changing:
            # Before it stands: another launcher must let it go on.
            self._store.keep(self._record._replace(held=True))
            self._record = self._record._replace(held=True)
        self._session.pause()

    def _fix_moment_of_memory(self, served: Sequence[ServedDisk]) -> None:
        """Have the guest stand, save its memory, begin the job, and let the guest go on.

        Nothing is frozen: what the guest has not written yet is in its memory, and it would be frozen when resumed.
        """
        facts = check_guest(self._session.facts(), is_frozen=self._freezer.is_on)
        runs = facts.life in (Life.RUNNING, Life.BLOCKED)
        path = self._reading.memory_path(self._record.memory)
        check_room(path, facts)
        if self._aborting.is_set():
            raise Aborted
        begun = time.monotonic()
        try:
            self._stand(runs=runs)
            if self._record.state:
                self._state.pack()
            self._session.memory.save(path)
            if served:
                self._session.backup.begin(self._reading.socket, served)
            started = _now_ms()
            check_stands(self._session.facts())
        finally:
            self.let_go()
        stood_ms = int((time.monotonic() - begun) * 1000) if runs else 0
        with self._changing:
            quiesce = "" if runs else PAUSED
            self._note(self._record._replace(started_ms=started, quiesce=quiesce, stood_ms=stood_ms))
        log.info("the moment is fixed, with the guest's memory", extra={"facts": {"stood_ms": stood_ms}})
        self._on_change()

    def let_go(self) -> None:
        """Let a guest go on that stood for its memory; called again and again until it does."""
        if not self._record.held:
            return
        try:
            facts = self._session.facts()
            if facts is not None and facts.life is Life.PAUSED and facts.why is not Why.IO_ERROR:
                self._session.unpause()
        except LauncherError as error:
            log.warning("the guest does not go on yet; trying again", extra={"facts": {"why": str(error)}})
            self._on_change()
            return
        with self._changing:
            self._note(self._record._replace(held=False))

    def _freeze(self) -> str:
        if self._images is None:
            return self._hold.freeze()
        return self._hold.freeze_once(skip=self._images.wanted.skip_quiesce)

    def _note_freeze(self) -> None:
        with self._changing:
            # Another launcher must not leave it frozen for the rest of the time.
            self._note(self._record._replace(froze=True))

    def _tell_wait(self, why: str) -> None:
        was, self._wait = self._wait, why[:_LONGEST_MESSAGE]
        if was != self._wait:
            self._on_change()

    def _clean_up(self) -> None:
        """End the job and remove what it has made; a guest that stands still because of it goes on."""
        try:
            self._session.backup.end()
        except LauncherError as error:
            log.warning("the backup job does not end", extra={"facts": {"why": str(error)}})
        self._reading.remove_rest()
        self._state.remove_rest()
        with contextlib.suppress(LauncherError):
            facts = self._session.facts()
            if facts is not None and (facts.life, facts.why) == (Life.PAUSED, Why.IO_ERROR):
                self._go_on()

    def _finish(self, message: str) -> None:
        with self._changing:
            record = self._record._replace(complete=not message, message=message, ended_ms=_now_ms())
            self._note(record)
        facts = {"copy": record.id, "failed": message}
        log.info("the copy of disks is over", extra={"facts": facts})

    def _note(self, record: CopyRecord) -> None:
        self._record = record
        try:
            self._store.keep(record)
        except OSError as error:
            # Only another launcher would miss it: that one counts the copy as failed.
            log.warning("news of a copy are not written down", extra={"facts": {"why": str(error)}})


def _now_ms() -> int:
    return int(time.time() * 1000)
