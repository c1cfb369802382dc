"""A guest that comes from another launcher: prepared for, awaited, and released or ended.

Kept by `incoming_process`; called by the gRPC server's threads and by the thread that watches. What to do and to say is
decided in `incoming_plan`. From its release on, the launcher starts again and owns the guest like any other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol
from xml.etree import ElementTree

from kvedge.launcher.disks.arriving_disk import accept_copies, drop_copies
from kvedge.launcher.disks.firmware_variables import keep_variables
from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.disks.tpm_directories import accept_tpm, drop_tpm
from kvedge.launcher.launcher_errors import BadRequest, DomainMissing, LauncherError, WrongState
from kvedge.launcher.libvirt.domain_disks import read_disks
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.migration.incoming_plan import (
    Incoming,
    IncomingQemu,
    IncomingSeen,
    IncomingStep,
    judge_incoming,
    may_release,
    plan_incoming,
)
from kvedge.launcher.migration.link_refresh import find_coming_nics
from kvedge.launcher.migration.migration_record import IncomingRecord, MigrationRecord
from kvedge.resources.disks.claim_places import STATE_VOLUME, claim_directory
from kvedge.rpc.launcher_pb2 import (
    INCOMING_ARRIVING,
    INCOMING_COMPLETE,
    INCOMING_EMPTY,
    INCOMING_FAILED,
    INCOMING_OWNED,
    INCOMING_READY,
    DomainStatus,
    IncomingMigration,
    PrepareIncomingRequest,
    SyncRequest,
)

log = logging.getLogger(__name__)

# Of Secrets, ConfigMaps and cloud-init's documents, which the API keeps below some megabytes.
_LARGEST_ISO: Final = 64 << 20
_STATES: Final = {
    Incoming.EMPTY: INCOMING_EMPTY,
    Incoming.READY: INCOMING_READY,
    Incoming.ARRIVING: INCOMING_ARRIVING,
    Incoming.COMPLETE: INCOMING_COMPLETE,
    Incoming.OWNED: INCOMING_OWNED,
    Incoming.FAILED: INCOMING_FAILED,
}


class Session(Protocol):
    """What is asked of the daemon; as `libvirt_session` has it."""

    @property
    def libvirt_version(self) -> int: ...
    def facts(self) -> DomainFacts | None: ...
    def unpause(self) -> None: ...
    def read_variables(self, below: str) -> tuple[str, bytes] | None: ...
    def destroy(self, *, graceful: bool) -> None: ...


class Preparation(Protocol):
    """Makes the guest's files; as `preparation_process` has it."""

    def prepare(
        self, request: SyncRequest, libvirt_version: int, copied: Mapping[str, int] | None = None
    ) -> Prepared: ...


class BegunMark(Protocol):
    """The mark that a guest was started in this Pod; as `run_record` has it."""

    @property
    def begun_unix_ms(self) -> int: ...
    def begin(self) -> None: ...


class IncomingGuest:
    """The one guest that comes; every method may be called from any thread."""

    def __init__(
        self,
        uid: str,
        store: MigrationRecord,
        begun: BegunMark,
        preparation: Preparation,
        connect: Callable[[], Session],
        publish: Callable[[DomainStatus], DomainStatus],
        on_end: Callable[[], None],
        root: str = "",
    ) -> None:
        """`connect()` starts the daemon if it does not run, and is a session to it; `on_end()` says that the guest is
        released, or that none is wanted any more; `root` is before the Pod's paths.
        """
        self._uid = uid
        self._store = store
        self._begun = begun
        self._preparation = preparation
        self._connect = connect
        self._publish = publish
        self._on_end = on_end
        self._root = root
        self._lock = threading.Lock()
        found = store.incoming()
        self._record = found if found.uid == uid else IncomingRecord(uid)
        self._session: Session | None = None

    @property
    def _copied(self) -> list[str]:
        """The volumes whose disks come with the guest."""
        return [name for name in self._record.copied.split(",") if name]

    @property
    def is_released(self) -> bool:
        """Whether the guest is this launcher's."""
        return self._begun.begun_unix_ms > 0

    @property
    def has_arrived(self) -> bool:
        """Whether a guest was seen here."""
        return self._record.arrived

    @property
    def is_over(self) -> bool:
        """Whether no guest is awaited any more."""
        return self.is_released or self._record.discarded

    def prepare(self, request: PrepareIncomingRequest) -> DomainStatus:
        """Make the guest's files, and listen for it.

        Raises:
            LauncherError: of the kind that says whether trying again can help.
        """
        self._check(request.migration_uid)
        with self._lock:
            if not self._record.prepared:
                switched = find_coming_nics(request.guest.vmi_json)
                session = self._ensure_session()
                prepared = self._preparation.prepare(request.guest, session.libvirt_version, request.copied_disk_bytes)
                _set_sizes(prepared.xml, request.image_bytes)
                # Only now: what was found there and refused is not ours to drop.
                self._keep(
                    prepared=True,
                    copied=",".join(sorted(request.copied_disk_bytes)),
                    switched=",".join(sorted(switched)),
                )
            return self._look()

    def release(self, uid: str, *, paused: bool) -> DomainStatus:
        """The source is off: let the guest run, unless a user had paused it.

        From the mark on it is this launcher's. One that does not run yet is let run by the launcher that starts now,
        see `released_guest`.

        Raises:
            WrongState: when no guest waits here.
        """
        self._check(uid)
        with self._lock:
            if self.is_released:
                return self._look()
            self._accept_disks()
            # In this order: a launcher that is killed in between finds what is still to be done.
            self._keep(goes_on=not paused)
            try:
                self._begun.begin()
                if not paused:
                    self._let_run()
                return self._look()
            finally:
                # Whatever failed after the mark: nobody is awaited any more.
                self._on_end()

    def accept_disks(self, uid: str) -> DomainStatus:
        """The source is off for good: what was copied is a disk from now on, and the guest still waits.

        UEFI's variables and what is in the TPM are put on stable storage, too: the VM may start from them.

        Raises:
            WrongState: when no guest waits here.
        """
        self._check(uid)
        with self._lock:
            if not self.is_released:
                self._accept_disks()
                # Strictly: the VM may start from this claim from now on.
                self._keep_variables()
            return self._look()

    def _accept_disks(self) -> None:
        seen = self._observe()
        if not may_release(seen):
            raise WrongState(f"no guest waits to be released: {judge_incoming(seen).value}")
        if self._copied and not self._record.accepted:
            # Before it is done: what may be a disk is never dropped.
            self._keep(accepted=True)
        accept_copies(self._root, self._copied)
        accept_tpm(self._root, self._uid)

    def _keep_variables(self) -> None:
        """Have UEFI's variables on stable storage: QEMU itself writes them only when the guest goes on.

        On a claim that is the target's own the file has the firmware's template until then.

        Raises:
            LauncherError: when QEMU does not tell them, or they cannot be written; the guest waits.
        """
        try:
            # Others end with the run: no other run misses them.
            found = self._ensure_session().read_variables(f"{self._root}{claim_directory(STATE_VOLUME)}/")
            if found is None:
                return
            path, variables = found
            if keep_variables(path, variables):
                log.info("the variables of UEFI have come", extra={"facts": {"bytes": len(variables)}})
        except OSError as error:
            raise WrongState(f"the variables of UEFI cannot be kept: {error}") from error

    def _let_run(self) -> None:
        try:
            self._ensure_session().unpause()
        except LauncherError as error:
            # QEMU may not have its disks yet, or libvirt is slow.
            log.warning("the guest does not run yet", extra={"facts": {"why": str(error)}})
            return
        self._keep(goes_on=False)
        log.info("the guest runs here", extra={"facts": {"migration": self._uid}})

    def discard(self, uid: str, why: str, *, if_nothing_came: bool = False, keeps_disks: bool = False) -> DomainStatus:
        """No guest is wanted here any more.

        With `if_nothing_came` the caller does not know whether one has come, and what has come may be the only guest.
        With `keeps_disks` the copies of a guest that has come whole stay, with their word that they are no disks:
        nobody has said that its source has others.

        Raises:
            WrongState: when it was released, or has come.
        """
        self._check(uid)
        with self._lock:
            if self.is_released:
                raise WrongState("the guest was released, and runs here")
            if if_nothing_came and not self._record.discarded:
                # Published first: the caller decides anew by it.
                self._look()
                if self._record.arrived:
                    raise WrongState("a guest has come here meanwhile")
            # On record, as another order may follow: what may be all that is left of a disk is never dropped.
            keeps = self._record.accepted or (keeps_disks and judge_incoming(self._observe()) is Incoming.COMPLETE)
            self._keep(discarded=True, accepted=keeps, message=self._record.message or why)
            status = self._look()
            if not self._record.accepted:
                drop_copies(self._root, self._copied, self._uid)
                drop_tpm(self._root, self._uid)
        self._on_end()
        return status

    def look(self) -> DomainStatus:
        """Look at what has come, do what is to be done about it, and publish it."""
        with self._lock:
            return self._look()

    def _look(self) -> DomainStatus:
        seen = self._observe()
        if plan_incoming(seen) is IncomingStep.END:
            log.info("a guest that is not wanted is ended")
            with contextlib.suppress(DomainMissing, WrongState):
                self._ensure_session().destroy(graceful=False)
        word = judge_incoming(seen)
        told = IncomingMigration(migration_uid=self._uid, state=_STATES[word], message=self._message(word))
        return self._publish(DomainStatus(incoming=told, migrates=True))

    def _message(self, word: Incoming) -> str:
        if word is not Incoming.FAILED:
            return ""
        return self._record.message or "the guest did not come whole; the source knows why"

    def _observe(self) -> IncomingSeen:
        qemu = self._qemu()
        if qemu is not IncomingQemu.NONE and not self._record.arrived:
            # Written before it is said: what is said rests on it.
            self._keep(arrived=True)
        record = self._record
        return IncomingSeen(record.prepared, record.arrived, self.is_released, record.discarded, qemu)

    def _qemu(self) -> IncomingQemu:
        if self.is_released:
            # The daemon is about to end, and must not be started again beside the launcher that owns the guest.
            return IncomingQemu.RUNS
        if not self._record.prepared and self._session is None:
            return IncomingQemu.NONE
        try:
            facts = self._ensure_session().facts()
        except LauncherError as error:
            # The daemon may have ended. The next one finds a guest that is whole, and ends half a one.
            log.warning("libvirt's daemon is asked again", extra={"facts": {"why": str(error)}})
            self._session = None
            facts = self._ensure_session().facts()
        qemu = _qemu_of(facts)
        if qemu is IncomingQemu.WAITS and facts is not None and not self._record.discarded:
            self._check_copies(facts)
        return qemu

    def _check_copies(self, facts: DomainFacts) -> None:
        """A guest that came without its disks would find empty ones: it is not wanted, and starts anew on its own."""
        came = set(facts.copied) if facts.copied_by == self._uid else set()
        if came != set(self._copied):
            text = f"the guest came with the disks {sorted(came)}, and {self._copied} were awaited"
            log.error("a guest came with other disks", extra={"facts": {"why": text}})
            self._keep(discarded=True, message=text)

    def _ensure_session(self) -> Session:
        if self._session is None:
            self._session = self._connect()
        return self._session

    def _check(self, uid: str) -> None:
        if uid != self._uid:
            raise WrongState(f"this launcher was started for migration {self._uid}, not for {uid or 'none'}")

    def _keep(self, **changes: bool | str) -> None:
        changed = self._record._replace(**changes)  # type: ignore[arg-type]
        self._store.keep_incoming(changed)
        self._record = changed


def _qemu_of(facts: DomainFacts | None) -> IncomingQemu:
    if facts is None or not facts.is_active:
        return IncomingQemu.NONE
    if facts.life in (Life.RUNNING, Life.BLOCKED):
        return IncomingQemu.RUNS
    # libvirt defines a guest once it has come whole, and then pauses it as a user would.
    whole = facts.is_persistent and facts.life is Life.PAUSED and facts.why is Why.USER
    return IncomingQemu.WAITS if whole else IncomingQemu.ARRIVING


def _set_sizes(xml: str, wanted: Mapping[str, int]) -> None:
    """Make ISOs as large as the source's: this node may have written the same files in another order."""
    for disk in read_disks(ElementTree.fromstring(xml)):
        size = wanted.get(disk.name, 0)
        if not size or not disk.source.endswith(".iso"):
            continue
        if not 0 < size <= _LARGEST_ISO:
            raise BadRequest(f"image_bytes[{disk.name}]", f"{size} is no size of an ISO that a launcher makes")
        if os.path.getsize(disk.source) != size:
            os.truncate(disk.source, size)
