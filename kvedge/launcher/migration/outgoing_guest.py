"""The guest's way to another launcher: begun, followed, ended, and what is said of it.

Kept by `domain_run`; asked to look by `domain_view`, after each look at the domain. libvirt moves the guest in a thread
of its own. What to do and to say is decided in `outgoing_plan`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import LauncherError, WrongState
from kvedge.launcher.libvirt.domain_facts import ENDED, DomainFacts, Life, Why
from kvedge.launcher.migration.copied_disks import find_copied, find_copied_claims
from kvedge.launcher.migration.migration_record import MigrationRecord, OutgoingRecord
from kvedge.launcher.migration.outgoing_plan import (
    Outgoing,
    OutgoingQemu,
    OutgoingSeen,
    OutgoingStep,
    judge_outgoing,
    plan_outgoing,
)
from kvedge.resources.migration_channels import CONTROL, DISKS, MEMORY, MIGRATION_FOLDER
from kvedge.rpc.launcher_pb2 import (
    OUTGOING_ACTIVE,
    OUTGOING_GONE,
    OUTGOING_KEPT,
    OUTGOING_NONE,
    OUTGOING_RESUMING,
    MigrateRequest,
    OutgoingMigration,
)
from kvedge.runtime.background import passing_thread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.destination_xml import CopiedClaim
    from kvedge.launcher.libvirt.domain_migration import MigrationFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

_PUBLIC: Final = "/var/run/kubevirt"
_LONGEST_MESSAGE: Final = 1024
_ENDINGS: Final = frozenset({Why.SHUTDOWN, Why.DESTROYED, Why.CRASHED, Why.PANICKED, Why.FAILED})
_STATES: Final = {
    Outgoing.NONE: OUTGOING_NONE,
    Outgoing.ACTIVE: OUTGOING_ACTIVE,
    Outgoing.RESUMING: OUTGOING_RESUMING,
    Outgoing.KEPT: OUTGOING_KEPT,
    Outgoing.GONE: OUTGOING_GONE,
}
# libvirt ends a migration within two seconds, as measured; a caller in a hurry waits no longer than this.
_GIVE_WAY_SECONDS: Final = 10.0

# KubeVirt's are 8. The way to the other node has room for some more than these.
_MOST_CONNECTIONS: Final = 16
# What a QEMU takes to give back its memory, and how often it is looked whether it has.
_LINGER_SECONDS: Final = 30.0
_LINGER_POLL: Final = 0.005


class OutgoingGuest:
    """The migrations away from one Pod, one at a time; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        record: MigrationRecord,
        look_soon: Callable[[], None],
        root: str = "",
        leave: Callable[[Callable[[], bool]], None] = lambda _: None,
    ) -> None:
        """`look_soon()` asks for a look at the domain; `root` is before the Pod's paths. `leave()` has the guest give
        back what is this node's, before libvirt moves it, unless what it is given says that it is to stay; it raises
        LauncherError.
        """
        self._session = session
        self._store = record
        # The migration by which the guest came here; "" for one that was started here.
        self.came_by = record.incoming().uid
        self._record = record.outgoing()
        self._look_soon = look_soon
        self._root = root
        self._leave = leave
        self._changing = threading.Lock()
        self._moving = False
        self._moved = threading.Event()
        self._aborting = False
        # Whether a look has found the guest stopped by the present migration.
        self._was_held = False
        self._was_cancelled = False
        # libvirt says that QEMU has ended, and its process is still there.
        self._lingers = False
        # That it has left was seen, and may have been said: an order that comes later changes nothing of it.
        self._has_left = False

    @property
    def is_unsettled(self) -> bool:
        """Whether the domain is to be looked at often."""
        return self._is_under_way or (self._record.held and self._record.kept)

    @property
    def _is_under_way(self) -> bool:
        return self._moving or self._lingers

    @property
    def is_moving(self) -> bool:
        """Whether libvirt moves the guest now: then it takes no other orders."""
        return self._moving

    def begin(
        self, request: MigrateRequest, facts: DomainFacts | None, is_frozen: Callable[[], bool] = lambda: False
    ) -> None:
        """Begin to move the guest, unless this migration has begun before.

        Raises:
            WrongState: when there is no guest to move, it is frozen, or another migration moves it.
            BadRequest: when a disk is to be copied that cannot be.
            OSError: when that cannot be written down; then it does not move.
        """
        with self._changing:
            if request.migration_uid == self._record.uid:
                return
            if self._moving:
                raise WrongState(f"migration {self._record.uid} moves the guest already")
            if not request.migration_uid:
                raise WrongState("a migration has a UID")
            if self._record.held:
                raise WrongState("the guest was stopped for another migration, and is about to go on; try again then")
            if facts is None or not facts.is_active:
                raise WrongState("there is no guest to move")
            if is_frozen():
                # The promise that it thaws is this Pod's, and would stay behind.
                raise WrongState("the guest's file systems are frozen; it moves once they are thawed")
            claims = find_copied_claims(facts.disks, request.copied_volumes, request.copied_devices, self._root)
            self._was_held, self._aborting = False, False
            self._was_cancelled = facts.why is Why.CANCELLED
            # Before libvirt is asked: a launcher that finds no QEMU must know that the guest may have left.
            record = OutgoingRecord(
                request.migration_uid, paused=_is_held(facts), qemu_pid=facts.pid, started_ms=_now_ms()
            )
            self._store.begin_outgoing(record)
            self._record = record
            self._moving = True
            self._moved.clear()
        passing_thread("migration", self._move, request, find_copied(facts.disks, self._root), claims)

    def abort(self, uid: str) -> None:
        """The guest stays. One that has left has left; a migration that was not asked for yet never begins.

        Raises:
            WrongState: when another migration moves the guest, or has taken it away.
        """
        with self._changing:
            if uid != self._record.uid:
                if self._moving:
                    raise WrongState(f"migration {self._record.uid} moves the guest, not {uid}")
                if self._record.uid and not self._record.kept:
                    # The record is all that says so. One whose end nobody has looked at yet is looked at soon.
                    raise WrongState(f"migration {self._record.uid} has taken the guest away, or has just ended")
                now = _now_ms()
                held = self._record.held
                record = OutgoingRecord(uid, kept=True, held=held, message="cancelled", started_ms=now, ended_ms=now)
                self._keep(record)
                return
        if self._moving:
            self._end_move()

    def hold(self, uid: str) -> None:
        """Stop the CPUs of the guest that moves, so that no more memory changes; it goes on where it will be.

        Raises:
            WrongState: when this migration does not move it, or is about to end.
            OSError: when that cannot be written down; then it runs on.
            LauncherError: when libvirt does not stop it.
        """
        with self._changing:
            if uid != self._record.uid or not self._moving or self._aborting:
                raise WrongState(f"migration {uid} does not move the guest now")
            if self._record.held:
                return
            # Before it is stopped: one that is stopped just when the migration has failed looks as if by a user.
            self._keep(self._record._replace(held=True))
        log.info("the guest is stopped to get away", extra={"facts": {"migration": uid}})
        self._session.pause()
        with self._changing:
            came_too_late = not self._moving and self._record.uid == uid and not self._record.paused
        if came_too_late:
            # The migration has ended meanwhile, and may have been seen to leave a guest that runs.
            self._session.unpause()

    def give_way(self) -> None:
        """Something else is wanted of the guest: end a migration that is under way, and wait for its end."""
        if self._moving:
            log.info("the migration ends: something else was ordered")
            self._end_move()
            self._moved.wait(_GIVE_WAY_SECONDS)

    def refuse_while_moving(self) -> None:
        """For orders that have to wait. Raises WrongState while the guest moves."""
        # One that is just about to begin is waited for.
        with self._changing:
            # Nor one that is stopped for it and does not go on yet: a user's pause would look the same.
            is_moving = self._moving or self._record.held
        if is_moving:
            raise WrongState("the guest is moving to another node; try again when that is over")

    def look(self, facts: DomainFacts | None, *, killed: bool) -> Outgoing:
        """Do what the domain's state calls for, and say what is to be said; `killed` says that its end was ordered."""
        with self._changing:
            was_kept = self._record.kept
            seen = self._observe(facts, killed=killed and not self._has_left)
            step = plan_outgoing(seen)
            if step is OutgoingStep.KEEP:
                log.info("the guest stays", extra={"facts": {"migration": self._record.uid}})
                record = self._record._replace(kept=True, ended_ms=self._record.ended_ms or _now_ms())
                self._store.keep_stay(record)
                self._record = record
                seen = seen._replace(kept=True)
                step = plan_outgoing(seen)
            elif self._record.held and was_kept and not seen.moving and seen.qemu is OutgoingQemu.RUNS:
                # Only now: at the look before, the order to stop it may still have been under way.
                self._note(self._record._replace(held=False))
        if step is OutgoingStep.RESUME:
            log.info("the guest goes on here", extra={"facts": {"migration": self._record.uid}})
            self._session.unpause()
            if self._record.held:
                with self._changing:
                    self._note(self._record._replace(held=False))
        word = judge_outgoing(seen)
        self._has_left |= word is Outgoing.GONE
        return word

    def describe(self, word: Outgoing) -> OutgoingMigration | None:
        """For the status: the word, and how far it is; None when none was asked for."""
        record = self._record
        if word is Outgoing.NONE:
            return None
        found = OutgoingMigration(
            migration_uid=record.uid,
            state=_STATES[word],
            message=record.message,
            paused=record.paused,
            held=record.held,
            started_unix_ms=record.started_ms,
            ended_unix_ms=record.ended_ms,
            aborting=self._aborting and self._moving,
        )
        progress = self.progress()
        if progress is not None:
            _fill_in(found, progress)
        return found

    def progress(self) -> MigrationFacts | None:
        """How far the guest is on its way, as QEMU says; None while it stays, or nothing is known."""
        return self._session.migration.progress() if self._moving else None

    def _observe(self, facts: DomainFacts | None, *, killed: bool) -> OutgoingSeen:
        qemu = _qemu(facts, killed=killed, held=self._record.held and not self._record.paused)
        self._lingers = qemu is OutgoingQemu.GONE and self._is_there()
        if self._lingers:
            qemu = OutgoingQemu.HELD
        self._was_held |= self._moving and qemu is OutgoingQemu.HELD
        why = Why.OTHER if facts is None else facts.why
        cancelled = qemu is OutgoingQemu.RUNS and (self._was_held or (why is Why.CANCELLED and not self._was_cancelled))
        record = self._record
        return OutgoingSeen(bool(record.uid), record.kept, self._is_under_way, qemu, cancelled)

    def _is_there(self) -> bool:
        """Whether the process of the QEMU that was to move is there; a zombie runs no guest."""
        return self._record.qemu_pid > 0 and is_running(self._record.qemu_pid)

    def _move(self, request: MigrateRequest, own: tuple[str, ...], claims: tuple[CopiedClaim, ...]) -> None:
        # Only a process that moves a guest loads it.
        from kvedge.launcher.libvirt.destination_xml import Renaming
        from kvedge.launcher.libvirt.domain_migration import MigrationWish

        copied = (*own, *(claim.target for claim in claims))
        place = f"{self._root}{_PUBLIC}/{MIGRATION_FOLDER}"
        wish = MigrationWish(
            control=f"{place}/{CONTROL}",
            memory=f"{place}/{MEMORY}",
            disks=f"{place}/{DISKS}",
            copied=copied,
            bandwidth_bytes=request.bandwidth_bytes,
            connections=min(request.connections, _MOST_CONNECTIONS),
            auto_converge=request.auto_converge,
            max_downtime_ms=request.max_downtime_ms,
            unsafe=request.unsafe,
            claims=claims,
            migration=request.migration_uid,
            renaming=Renaming(request.source_vmi_uid, request.target_vmi_uid) if request.target_vmi_uid else None,
        )
        log.info("the guest begins to move", extra={"facts": {"migration": request.migration_uid, "disks": copied}})
        message = ""
        try:
            self._leave(lambda: self._aborting)
            self._session.migration.move(wish)
        except LauncherError as error:
            message = str(error)[:_LONGEST_MESSAGE]
            log.warning("the guest did not move", extra={"facts": {"why": message}})
        else:
            # libvirt may say that it has ended a little before it has.
            deadline = time.monotonic() + _LINGER_SECONDS
            while self._is_there() and time.monotonic() < deadline:
                time.sleep(_LINGER_POLL)
        finally:
            with self._changing:
                self._note(self._record._replace(message=message, ended_ms=_now_ms()))
                self._moving = False
            self._moved.set()
            self._look_soon()

    def _end_move(self) -> None:
        self._aborting = True
        try:
            self._session.migration.abort()
        except LauncherError as error:
            # It is over already, or just begins: the next look shows which, and the abort may be repeated.
            log.info("no migration was ended", extra={"facts": {"why": str(error)}})

    def _note(self, record: OutgoingRecord) -> None:
        try:
            self._keep(record)
        except OSError as error:
            # Words and a time, which only another launcher would miss, or that a guest goes on, which it would see.
            log.warning("news of a migration are not written down", extra={"facts": {"why": str(error)}})
            self._record = record

    def _keep(self, record: OutgoingRecord) -> None:
        self._store.keep_outgoing(record)
        self._record = record


def _qemu(facts: DomainFacts | None, *, killed: bool, held: bool) -> OutgoingQemu:
    if facts is None or facts.life in ENDED:
        if facts is not None and facts.why is Why.MIGRATED:
            return OutgoingQemu.GONE
        return OutgoingQemu.ENDED if killed or (facts is not None and facts.why in _ENDINGS) else OutgoingQemu.GONE
    is_held = facts.life is Life.PAUSED and (facts.why is Why.MIGRATING or (held and facts.why is Why.USER))
    return OutgoingQemu.HELD if is_held else OutgoingQemu.RUNS


def is_running(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command in brackets may hold anything; the fields after it do not.
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is_held(facts: DomainFacts) -> bool:
    return facts.life is Life.PAUSED and facts.why is Why.USER


def _fill_in(found: OutgoingMigration, progress: MigrationFacts) -> None:
    found.total_bytes, found.sent_bytes = max(0, progress.total), max(0, progress.sent)
    found.left_bytes, found.memory_rate_bytes = max(0, progress.left), max(0, progress.memory_rate)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
