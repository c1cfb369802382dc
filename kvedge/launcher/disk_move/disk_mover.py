"""Disks of the running guest that move to other claims: begun, followed, settled, exchanged, given up.

Kept by `domain_run`; ordered by `domain_orders`, asked to look by `domain_view` after each look at the domain. QEMU
copies; what may be done when, and why, is told in `disk_move_plan`. The copies' places come by attachment Pods, and the
handler has handed them over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from kvedge.launcher.disk_move.disk_move_plan import (
    LEASE_SECONDS,
    DiskState,
    MoveSeen,
    Stage,
    Step,
    can_settle,
    choose_retreat,
    is_settled,
    plan_look,
)
from kvedge.launcher.disk_move.disk_move_record import MoveRecord, MoveStore, MovingDisk
from kvedge.launcher.disk_move.disk_move_word import describe_move
from kvedge.launcher.disk_move.moving_disks import (
    explain_loss,
    find_disk,
    flush_disks,
    images_of,
    judge_disk,
    make_place,
    remove_copy,
)
from kvedge.launcher.disks.arriving_disk import (
    keep_copy,
    settle_copy,
    unsettle_copy,
)
from kvedge.launcher.launcher_errors import BadRequest, LauncherError, Postponed, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_GOAL_ABORT,
    DISK_MOVE_GOAL_COPY,
    DISK_MOVE_GOAL_FINISH,
    DISK_MOVE_GOAL_SETTLE,
    DiskMove,
    MoveDisksRequest,
)
from kvedge.runtime.background import passing_thread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

_LONGEST_MESSAGE: Final = 1024
# What the guest has written last is copied in this time, or it goes on and this is tried again.
_ALIKE_SECONDS: Final = 8.0
_ALIKE_POLL: Final = 0.02
# Another order that is at work is waited for.
_ORDER_SECONDS: Final = 15.0


class DiskMover:
    """The moves of one guest's disks, one at a time; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        store: MoveStore,
        vmi_uid: str,
        look_soon: Callable[[], None],
        root: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look_soon()` asks for a look at the domain; `root` is before the Pod's paths."""
        self._session = session
        self._store = store
        self._vmi_uid = vmi_uid
        self._look_soon = look_soon
        self._root = root
        self._clock = clock
        # Taken for one order, or one step of a look, at a time.
        self._changing = threading.Lock()
        self._record = store.read()
        # A launcher that was started again gives a settled guest's handler the whole time anew.
        self._lease_ends = clock() + LEASE_SECONDS
        # Of the present move: that what the copies had when they were complete is on storage.
        self._is_flushed = False
        self._is_flushing = False

    @property
    def is_open(self) -> bool:
        """Whether disks move: the guest does not move meanwhile, and the domain is to be looked at often."""
        return self._record.stage.is_open

    @property
    def holds_guest(self) -> bool:
        """Whether the guest's CPUs stand, or are about to, because of it, and for a moment."""
        return self._record.stage.holds and not self._record.held

    def refuse_while_holding(self) -> None:
        """For orders that would let the guest run. Raises WrongState."""
        with self._ordering():
            if self._record.stage.holds:
                raise WrongState("the guest's disks are being exchanged; try again in some seconds")

    def wait_while_holding(self) -> None:
        """For orders that may not be refused: until the guest goes on, which nobody can put off for long."""
        deadline = self._clock() + LEASE_SECONDS + _ALIKE_SECONDS
        while self._record.stage.holds and self._clock() < deadline:
            self._look_soon()
            time.sleep(0.1)
        self.refuse_while_holding()

    def order(self, request: MoveDisksRequest) -> None:
        """Bring a move to where it is to be; see `DiskMoveGoal`.

        Raises:
            Postponed: when that cannot be done yet.
            BadRequest: when a disk cannot be copied at all.
            LauncherError, OSError: when it came to nothing; the guest has what it had.
        """
        with self._ordering():
            if request.goal == DISK_MOVE_GOAL_COPY:
                self._begin(request, self._session.facts())
            elif request.goal == DISK_MOVE_GOAL_ABORT:
                self._abort(request.move_id)
            elif request.move_id != self._record.id:
                raise WrongState(f"no move {request.move_id} is under way")
            elif self._record.stage is Stage.STANDING:
                raise WrongState("a disk did not move to its device: the VMI is to name the old claims")
            elif request.goal == DISK_MOVE_GOAL_SETTLE and self.is_open:
                self._settle(self._session.facts())
            elif request.goal == DISK_MOVE_GOAL_FINISH and self.is_open:
                if self._record.stage is not Stage.EXCHANGING:
                    self._settle(self._session.facts())
                self._exchange()

    def look(self, facts: DomainFacts | None) -> None:
        """Do what nobody has to ask for; called after each look at the domain."""
        if not self.is_open or facts is None or not facts.is_active:
            return
        if not self._changing.acquire(blocking=False):
            return
        try:
            disks = self._read_states(facts)
            lease = self._lease_ends - self._clock()
            stands = facts.life is Life.PAUSED
            step = plan_look(MoveSeen(self._record.stage, disks, lease, self._is_to_device, stands))
            if step is Step.FAIL:
                self._give_up(facts, explain_loss(self._record.disks))
            elif step is Step.RETREAT:
                self._retreat()
                self._look_soon()
            elif step is Step.STAND:
                self._stand(facts, explain_loss(self._record.disks))
                self._look_soon()
            elif step is Step.EXCHANGE:
                self._exchange()
                self._look_soon()
            elif self._record.stage is Stage.COPYING and can_settle(disks):
                self._flush_soon()
        except (LauncherError, OSError) as error:
            log.warning("disks that move are looked after again", extra={"facts": {"why": str(error)}})
        finally:
            self._changing.release()

    def describe(self, facts: DomainFacts | None) -> DiskMove | None:
        """For the status; None when no disk was to move."""
        is_ready = self._is_flushed and can_settle(self._read_states(facts))
        return describe_move(self._record, facts, self._session, is_ready=is_ready)

    @property
    def _is_to_device(self) -> bool:
        return any(disk.block for disk in self._record.disks)

    @contextlib.contextmanager
    def _ordering(self) -> Iterator[None]:
        if not self._changing.acquire(timeout=_ORDER_SECONDS):
            raise Postponed("the disks that move are busy with another order")
        try:
            yield
        finally:
            self._changing.release()

    def _read_states(self, facts: DomainFacts | None) -> tuple[DiskState, ...]:
        present = {} if facts is None else {disk.name: disk for disk in facts.disks}
        return tuple(judge_disk(present.get(disk.volume), disk.path) for disk in self._record.disks)

    def _begin(self, request: MoveDisksRequest, facts: DomainFacts | None) -> None:
        if request.move_id == self._record.id:
            if self._record.stage is Stage.SETTLED:
                # The VMI keeps the old claims for now.
                self._retreat()
            return
        if self.is_open:
            raise Postponed(f"move {self._record.id} is still under way")
        if facts is None or not facts.is_active:
            raise WrongState("there is no guest whose disks could move")
        disks = tuple(find_disk(copy, facts, self._session, self._root) for copy in request.disks)
        if not request.move_id or not disks:
            raise BadRequest("disks", "a move has an id, and disks")
        record = MoveRecord(request.move_id, Stage.COPYING, disks, started_ms=_now_ms())
        # Before QEMU is asked: a launcher that is started again must know whose copies these are.
        self._keep(record)
        self._is_flushed = False
        log.info("disks begin to move", extra={"facts": {"move": record.id, "disks": [disk.volume for disk in disks]}})
        try:
            for disk in disks:
                make_place(disk, record.id, self._vmi_uid)
            for disk in disks:
                self._session.copies.begin(disk.target, disk.path, block=disk.block)
        except (LauncherError, OSError) as error:
            self._give_up(self._session.facts(), str(error))

    def _flush_soon(self) -> None:
        """Have what was copied come to storage while the guest runs: then it stands for a moment only."""
        if not self._is_flushed and not self._is_flushing:
            self._is_flushing = True
            passing_thread("disk-flush", self._flush_running, self._record)

    def _flush_running(self, record: MoveRecord) -> None:
        try:
            flush_disks(record.disks)
        except OSError as error:
            # The order to settle meets it again, and tells of it.
            log.warning("a copy was not flushed", extra={"facts": {"why": str(error)}})
        finally:
            self._is_flushed, self._is_flushing = self._record.id == record.id, False
            self._look_soon()

    def _settle(self, facts: DomainFacts | None) -> None:
        """Stop the guest's CPUs until both disks are alike and on storage; the new ones may be used from then on."""
        if facts is None or not facts.is_active:
            # Of one that was settled, both disks stay as they are: whichever its VMI names is right.
            raise WrongState("there is no guest")
        stands = facts.life is Life.PAUSED
        if self._record.stage is Stage.SETTLED and is_settled(self._read_states(facts), stands=stands):
            self._lease_ends = self._clock() + LEASE_SECONDS
            return
        if self._record.stage is Stage.EXCHANGING:
            raise Postponed("the disks are being exchanged already")
        if self._record.stage is not Stage.COPYING:
            if choose_retreat(self._record.stage, to_device=self._is_to_device) is Step.STAND:
                self._stand(facts, explain_loss(self._record.disks))
            else:
                self._retreat()
            raise Postponed("a copy has ended meanwhile, or the guest went on")
        if not can_settle(self._read_states(facts)):
            raise Postponed("the copies are not complete yet")
        held = facts.life is Life.PAUSED and facts.why is Why.USER
        if not held and facts.life not in (Life.RUNNING, Life.BLOCKED):
            raise Postponed(
                f"the guest is {facts.life.value} ({facts.why.value}): its disks are exchanged when it runs"
            )
        self._keep(self._record._replace(stage=Stage.SETTLING, held=held))
        try:
            if not held:
                self._session.pause()
            self._wait_until_alike()
            flush_disks(self._record.disks)
            for disk in images_of(self._record.disks):
                settle_copy(os.path.dirname(disk.path))
            self._lease_ends = self._clock() + LEASE_SECONDS
            self._keep(self._record._replace(stage=Stage.SETTLED))
        except (LauncherError, OSError):
            self._retreat()
            raise

    def _wait_until_alike(self) -> None:
        targets = [disk.target for disk in self._record.disks]
        deadline = self._clock() + _ALIKE_SECONDS
        while not self._session.copies.are_alike(targets):
            if self._clock() >= deadline:
                raise Postponed("the guest writes faster than its disks are copied; it is tried again")
            time.sleep(_ALIKE_POLL)

    def _retreat(self) -> None:
        """The guest goes on with the disks that it has; before that the copies are no disks any more."""
        for disk in images_of(self._record.disks):
            unsettle_copy(os.path.dirname(disk.path))
        self._let_run()
        self._keep(self._record._replace(stage=Stage.COPYING))

    def _exchange(self) -> None:
        """Have the guest go on with the copies; a disk that QEMU does not exchange goes on as it was."""
        if self._record.stage is not Stage.EXCHANGING:
            self._keep(self._record._replace(stage=Stage.EXCHANGING))
        failures: dict[str, str] = {}
        for disk, state in zip(self._record.disks, self._read_states(self._living_facts()), strict=True):
            if state is DiskState.EXCHANGED:
                continue
            try:
                self._session.copies.pivot(disk.target)
            except LauncherError as error:
                failures[disk.volume] = str(error)
        stayed = self._end_refused(failures)
        for disk, why in stayed:
            log.error("a disk did not move", extra={"facts": {"volume": disk.volume, "why": why}})
            if not disk.block:
                unsettle_copy(os.path.dirname(disk.path))
        # Before its guest runs, the VMI must name the claim again that a disk has which did not move to a device.
        stands = any(disk.block for disk, _ in stayed)
        if not stands:
            self._let_run()
        stage = Stage.STANDING if stands else Stage.FAILED if stayed else Stage.DONE
        message = "; ".join(why for _, why in stayed)[:_LONGEST_MESSAGE]
        names = tuple(disk.volume for disk, _ in stayed)
        self._keep(self._record._replace(stage=stage, message=message, ended_ms=_now_ms(), stayed=names))
        log.info("disks have moved", extra={"facts": {"move": self._record.id, "stayed": len(stayed)}})
        for disk in images_of(self._record.disks):
            if disk not in [each for each, _ in stayed]:
                with contextlib.suppress(OSError):
                    keep_copy(os.path.dirname(disk.path))

    def _end_refused(self, failures: Mapping[str, str]) -> list[tuple[MovingDisk, str]]:
        """End the copies that QEMU did not exchange; those disks that stay, and why.

        Raises:
            Postponed: while QEMU still ends one, by an order of before: which disk the guest has then nobody knows yet.
            WrongState: when the guest has ended; its VMI names the new claims, and these are disks.
        """
        asked = [disk for disk in self._record.disks if disk.volume in failures]
        present = {disk.name: disk for disk in self._living_facts().disks}
        for disk in asked:
            if judge_disk(present.get(disk.volume), disk.path) is not DiskState.EXCHANGED:
                with contextlib.suppress(LauncherError):
                    self._session.copies.give_up(disk.target)
        present = {disk.name: disk for disk in self._living_facts().disks}
        states = {disk: judge_disk(present.get(disk.volume), disk.path) for disk in asked}
        open_ones = [disk.volume for disk, state in states.items() if state in (DiskState.COPYING, DiskState.FOLLOWING)]
        if open_ones:
            text = f"QEMU still exchanges volume {', '.join(open_ones)}: the guest stands until that has ended"
            self._put_off(text)
        return [(disk, failures[disk.volume]) for disk, state in states.items() if state is DiskState.LOST]

    def _living_facts(self) -> DomainFacts:
        """Of a guest that has ended, nothing tells any more which disks it had. Raises WrongState then."""
        facts = self._session.facts()
        if facts is None or not facts.is_active:
            raise WrongState("the guest has ended")
        return facts

    def _abort(self, move: str) -> None:
        """The copies are not wanted, as the VMI names the old claims: nothing is left of them.

        Of disks that QEMU was to exchange, only those are no disks of the guest that are on record as such.
        """
        if move != self._record.id:
            return
        if self._record.stage in (Stage.EXCHANGING, Stage.DONE):
            raise WrongState("the disks are being exchanged already, or have been")
        facts = self._living_facts()
        if self._record.stage is Stage.STANDING:
            self._go_on()
        elif self.is_open:
            self._give_up(facts, "cancelled")
        stayed = self._record.stayed
        for disk, state in zip(self._record.disks, self._read_states(self._living_facts()), strict=True):
            if state is not DiskState.EXCHANGED and (stayed is None or disk.volume in stayed):
                remove_copy(disk, self._record.id)

    def _give_up(self, facts: DomainFacts | None, why: str) -> None:
        """The guest keeps the disks that it has. What was copied keeps its word that it is no disk: whether the VMI
        names the old claims its handler knows, who then says that nothing of it is wanted.
        """
        if self._record.stage.holds:
            self._retreat()
        for disk, state in zip(self._record.disks, self._read_states(facts), strict=True):
            if state in (DiskState.COPYING, DiskState.FOLLOWING):
                self._session.copies.give_up(disk.target)
        message = why[:_LONGEST_MESSAGE]
        log.warning("disks do not move", extra={"facts": {"move": self._record.id, "why": message}})
        self._keep(self._record._replace(stage=Stage.FAILED, message=message, ended_ms=_now_ms()))

    def _stand(self, facts: DomainFacts | None, why: str) -> None:
        """The guest stands, also one that somebody let go on: the VMI may name a device that is not its disk."""
        message = why[:_LONGEST_MESSAGE]
        log.error("disks do not move; the guest stands until its VMI says so", extra={"facts": {"why": message}})
        self._keep(self._record._replace(stage=Stage.STANDING, message=message, ended_ms=_now_ms()))
        if facts is not None and facts.life in (Life.RUNNING, Life.BLOCKED):
            self._session.pause()

    def _go_on(self) -> None:
        """The VMI names the old claims of the disks that did not move: the guest goes on with these.

        Raises:
            Postponed: when one of them has moved after all. As the guest stands, its two disks are alike until then.
        """
        states = self._read_states(self._living_facts())
        stayed = self._record.stayed or ()
        late = [
            disk
            for disk, state in zip(self._record.disks, states, strict=True)
            if state is DiskState.EXCHANGED and disk.volume in stayed
        ]
        if late:
            names = ", ".join(f"{disk.volume} moved to claim {disk.claim}" for disk in late)
            text = (
                f"volume {names} after QEMU had refused it, and the VMI names the claim of before: the guest stands;"
                " restart the VM, which loses nothing that is written"
            )
            self._put_off(text)
        for disk, state in zip(self._record.disks, states, strict=True):
            if state in (DiskState.COPYING, DiskState.FOLLOWING):
                self._session.copies.give_up(disk.target)
            if state is not DiskState.EXCHANGED and not disk.block:
                unsettle_copy(os.path.dirname(disk.path))
        self._let_run()
        self._keep(self._record._replace(stage=Stage.FAILED))

    def _put_off(self, why: str) -> NoReturn:
        """What is waited for stands in the status. Raises Postponed."""
        text = why[:_LONGEST_MESSAGE]
        if self._record.message != text:
            log.error("the guest stands until its disks are known", extra={"facts": {"why": text}})
            self._keep(self._record._replace(message=text))
        raise Postponed(text)

    def _let_run(self) -> None:
        if self._record.held:
            return
        facts = self._session.facts()
        if facts is not None and facts.life is Life.PAUSED and facts.why is Why.USER:
            self._session.unpause()

    def _keep(self, record: MoveRecord) -> None:
        self._store.keep(record)
        self._record = record


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
