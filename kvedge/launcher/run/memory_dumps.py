"""Dumps of the guest's memory: begun, followed, and the guest let go on afterwards.

Kept by `domain_run`, which has the guest looked after every second while a dump is not over. libvirt stops the guest,
has QEMU write its memory in a thread of ours, and lets the guest go on. A launcher that is killed meanwhile leaves a
QEMU that writes on, and a guest that stands still: that it ran is written down before, and the next launcher lets it go
on as soon as QEMU does. The Pod is gone after a power cut, so that the record is not synced to disk; the dump is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvedge.launcher.launcher_errors import BadRequest, LauncherError, WrongState
from kvedge.launcher.launcher_files import replace_json
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.resources.disks.hotplug_places import dump_path
from kvedge.resources.values.name_grammar import is_label
from kvedge.rpc.launcher_pb2 import (
    MEMORY_DUMP_STATE_ACTIVE,
    MEMORY_DUMP_STATE_COMPLETE,
    MEMORY_DUMP_STATE_FAILED,
    DumpMemoryRequest,
    MemoryDump,
)
from kvedge.runtime.background import passing_thread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

ACTIVE: Final = "active"
COMPLETE: Final = "complete"
FAILED: Final = "failed"
_STATES: Final = {
    ACTIVE: MEMORY_DUMP_STATE_ACTIVE,
    COMPLETE: MEMORY_DUMP_STATE_COMPLETE,
    FAILED: MEMORY_DUMP_STATE_FAILED,
}
_KILLED: Final = "the launcher ended while the memory was written; ask for the dump again"
# A guest that stands still for one of these does so for its own sake.
_ITS_OWN: Final = frozenset({Why.IO_ERROR, Why.PANICKED})
_LONGEST_MESSAGE: Final = 512
_LONGEST_RECORD: Final = 16 << 10


class DumpRecord(NamedTuple):
    """The last dump: `ran` says that the guest is still to go on after it."""

    id: str = ""
    state: str = ""
    message: str = ""
    ran: bool = False


class MemoryDumps:
    """The dumps of one guest, one at a time; every method may be called from any thread."""

    def __init__(self, session: LibvirtSession, directory: str, look_soon: Callable[[], None], root: str = "") -> None:
        """`directory` is the run's, `look_soon()` asks for a look at the domain, `root` is before the Pod's paths."""
        self._session = session
        self._path = f"{directory}/memory-dump.json"
        self._look_soon = look_soon
        self._root = root
        self._changing = threading.Lock()
        self._dumping = False
        self._why = ""
        record = _read(self._path)
        if record.state == ACTIVE:
            record = record._replace(state=FAILED, message=_KILLED)
        self._record = record

    @property
    def is_unsettled(self) -> bool:
        """Whether a dump is being written, or the guest has not gone on after it."""
        return self._dumping or self._record.ran

    @property
    def holds_guest(self) -> bool:
        """Whether the guest stands still, or is about to, for a dump alone."""
        return self._record.ran

    def refuse_while_dumping(self) -> None:
        """For orders that have to wait. Raises WrongState while a dump is not over."""
        if self.is_unsettled:
            raise WrongState("the guest's memory is being written to a file; try again when that is over")

    def begin(self, request: DumpMemoryRequest, facts: DomainFacts | None) -> None:
        """Begin a dump, unless this one has begun before.

        Raises:
            WrongState: when there is no guest, or another dump is not over.
            BadRequest: when the request names no volume.
            OSError: when it cannot be written down that the guest ran; then nothing is done.
        """
        with self._changing:
            if request.id == self._record.id:
                return
            if not request.id or not is_label(request.volume):
                raise BadRequest("volume", f"{request.volume!r} is no volume's name")
            self.refuse_while_dumping()
            if facts is None or not facts.is_active:
                raise WrongState("there is no guest whose memory could be written")
            runs = facts.life in (Life.RUNNING, Life.BLOCKED)
            self._keep(DumpRecord(request.id, ACTIVE, ran=runs))
            self._dumping = True
        passing_thread("memory-dump", self._dump, f"{self._root}{dump_path(request.volume)}")

    def go_on(self, facts: DomainFacts | None) -> None:
        """After a dump: let the guest run that ran before it, unless libvirt has; again and again until it does."""
        with self._changing:
            if self._dumping or not self._record.ran:
                return
            if facts is not None and facts.life is Life.PAUSED and facts.why not in _ITS_OWN:
                try:
                    self._session.unpause()
                except LauncherError as error:
                    # QEMU lets nobody run the guest before it has written all.
                    if str(error) != self._why:
                        log.warning("the guest does not run yet; trying again", extra={"facts": {"why": str(error)}})
                    self._why = str(error)
                    return
                log.info("the guest goes on after a dump of its memory")
            self._note(self._record._replace(ran=False))
        self._look_soon()

    def describe(self) -> MemoryDump | None:
        """For the status: the last dump; None when there was none."""
        record = self._record
        if not record.id:
            return None
        return MemoryDump(
            id=record.id, state=_STATES.get(record.state, MEMORY_DUMP_STATE_FAILED), message=record.message
        )

    def _dump(self, path: str) -> None:
        state, message = COMPLETE, ""
        log.info("the guest's memory is written to a file")
        try:
            # libvirt would make a file where the handler has put none, in the Pod's own memory.
            os.stat(path)
            self._session.dump_memory(path)
            _sync(path)
        except (LauncherError, OSError) as error:
            state, message = FAILED, str(error)[:_LONGEST_MESSAGE]
            log.warning("the guest's memory was not written", extra={"facts": {"why": message}})
        finally:
            with self._changing:
                self._note(self._record._replace(state=state, message=message))
                self._dumping = False
            self._look_soon()

    def _keep(self, record: DumpRecord) -> None:
        replace_json(self._path, record._asdict())
        self._record = record

    def _note(self, record: DumpRecord) -> None:
        try:
            self._keep(record)
        except OSError as error:
            # Only another launcher would miss it: it says that the dump failed, and lets a guest run that runs.
            log.warning("news of a memory dump are not written down", extra={"facts": {"why": str(error)}})
            self._record = record


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _read(path: str) -> DumpRecord:
    blank: dict[str, Any] = DumpRecord()._asdict()
    with contextlib.suppress(FileNotFoundError, ValueError), open(path) as file:
        found = json.loads(file.read(_LONGEST_RECORD))
        if isinstance(found, dict):
            kept = {name: found[name] for name, value in blank.items() if isinstance(found.get(name), type(value))}
            return DumpRecord(**(blank | kept))
    return DumpRecord()
