"""What a guest that exists is told to do: pause, reboot, shut down, freeze, end.

Kept by `domain_run`; called by the gRPC server's threads and by `wind_down`. Each order is given to libvirt or to the
guest's agent, and its caller gets the status after it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING

from kvedge.launcher.agent.agent_orders import REBOOT_SECONDS, SHUTDOWN_SECONDS
from kvedge.launcher.agent.guest_agent import GuestAgent
from kvedge.launcher.copies.copy_plan import WantedCopy
from kvedge.launcher.launcher_errors import DomainMissing, LauncherError, Unanswered, WrongState
from kvedge.launcher.libvirt.domain_facts import Life
from kvedge.launcher.run.domain_plan import ShutdownStep, plan_shutdown
from kvedge.launcher.run.domain_view import DomainView
from kvedge.launcher.run.memory_dumps import MemoryDumps
from kvedge.launcher.run.run_state import RunState
from kvedge.rpc.launcher_pb2 import (
    DISK_MOVE_GOAL_COPY,
    BackupFiles,
    BeginDiskCopyRequest,
    DomainStatus,
    DumpMemoryRequest,
    MigrateRequest,
    MoveDisksRequest,
)

if TYPE_CHECKING:
    from kvedge.launcher.copies.backup_plan import WantedBackup
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


class DomainOrders:
    """The orders to one guest; every method may be called from any thread."""

    def __init__(
        self, session: LibvirtSession, state: RunState, agent: GuestAgent, view: DomainView, dumps: MemoryDumps
    ) -> None:
        self._session = session
        self._dumps = dumps
        self._state = state
        self._agent = agent
        self._view = view
        # What one order looks at before it begins, no other one changes meanwhile: a dump that began between a pause's
        # look and its stop would have found the guest running, and would let it go on against its user's word.
        self._deciding = threading.RLock()

    def pause(self) -> DomainStatus:
        """Stop the guest's CPUs."""
        with self._deciding:
            # libvirt would let it go on at the end of the migration, here or there, and of a dump.
            self._refuse_while_busy()
            # Also when an I/O error has stopped them already: it then does not go on by itself.
            self._state.remember(held=True)
            self._session.pause()
        return self._view.look()

    def unpause(self) -> DomainStatus:
        """Let them run."""
        with self._deciding:
            self._refuse_while_busy()
            self._refuse_while_starting()
            self._state.remember(never_ran=False, held=False)
            self._session.unpause()
        return self._view.look()

    def go_on(self) -> None:
        """Let the guest repeat what failed with an I/O error, unless a user has paused it meanwhile."""
        with self._deciding:
            is_busy = self._view.outgoing.is_moving or self._view.moves.holds_guest or self._dumps.is_unsettled
            is_busy = is_busy or self._view.copies.keeps_state
            if self._state.memory.held or is_busy:
                return
            log.info("the guest goes on, to repeat what failed with an I/O error")
            self._session.unpause()

    def reset(self) -> DomainStatus:
        """Press the reset button."""
        self._dumps.refuse_while_dumping()
        self._refuse_while_saving()
        self._view.outgoing.give_way()
        self._view.moves.wait_while_holding()
        self._session.reset()
        return self._view.look()

    def soft_reboot(self) -> DomainStatus:
        """Ask the guest to reboot: its agent when there is one, ACPI otherwise."""
        self._dumps.refuse_while_dumping()
        self._refuse_while_saving()
        self._view.outgoing.give_way()
        self._view.moves.wait_while_holding()
        if not self._agent.orders.give(lambda: self._session.soft_reboot(agent=True), REBOOT_SECONDS):
            self._agent.freezer.thaw_soon()
            self._session.soft_reboot(agent=False)
        return self._view.look()

    def shut_down(self) -> DomainStatus:
        """Ask the guest to power off: its agent when it is there, the ACPI power button otherwise or when it fails."""
        if self._dumps.is_unsettled or self._view.copies.keeps_state:
            # It hears nothing before its memory is written, and is asked again.
            log.info("the guest is asked to shut down once its memory is written")
            return self._view.look()
        # While libvirt moves a guest it takes no such order, and lets the caller wait for half a minute.
        self._view.outgoing.give_way()
        self._view.moves.wait_while_holding()
        facts = self._session.facts()
        if facts is None or not facts.is_active:
            raise DomainMissing("there is no guest to shut down")
        step = plan_shutdown(facts, self._state.memory)
        if step is ShutdownStep.KILL:
            log.info("the guest was started paused and never ran")
            return self.kill()
        if step is ShutdownStep.RESUME:
            self._refuse_while_starting()
            log.info("the guest goes on, to shut down", extra={"facts": {"was": facts.why.value}})
            self._session.unpause()
        if not self._agent.orders.give(lambda: self._session.shut_down(agent=True), SHUTDOWN_SECONDS):
            self._agent.freezer.thaw_soon()
            self._press_power_button()
        return self._view.look()

    def _press_power_button(self) -> None:
        try:
            self._session.shut_down(agent=False)
        except (DomainMissing, WrongState):
            # The agent had heard it: the guest was off before the agent's answer could arrive. libvirt refuses orders a
            # moment before it shows the guest as off.
            facts = self._session.facts()
            if facts is not None and facts.is_active and facts.life is not Life.SHUTTING_DOWN:
                raise

    def migrate(self, request: MigrateRequest) -> DomainStatus:
        """Begin to move the guest to another launcher."""
        with self._deciding:
            if self._state.memory.kill_requested:
                raise WrongState("the guest is to end")
            if self._state.memory.resumes:
                # It is paused, and would stay so where it went.
                raise WrongState("the guest has just come, and does not run yet; try again when it does")
            if self._view.copies.is_active:
                raise WrongState("the guest's disks are being copied; it moves when that is over")
            self._dumps.refuse_while_dumping()
            if self._view.moves.is_open:
                raise WrongState("disks of the guest move to other claims; it moves once that is over")
            if not self._view.outgoing.is_moving:
                self._forget_changes()
            self._view.outgoing.begin(request, self._session.facts(), lambda: self._agent.freezer.is_on)
        return self._view.look()

    def abort_migration(self, uid: str) -> DomainStatus:
        """The guest stays here."""
        self._view.outgoing.abort(uid)
        return self._view.look()

    def hold_migrating(self, uid: str) -> DomainStatus:
        """Stop the CPUs of a guest that moves."""
        self._view.outgoing.hold(uid)
        return self._view.look()

    def begin_disk_copy(self, request: BeginDiskCopyRequest) -> DomainStatus:
        """Begin to copy disks as they are at one moment that is about to come."""
        with self._deciding:
            if self._state.memory.kill_requested:
                raise WrongState("the guest is to end")
            self._view.outgoing.refuse_while_moving()
            self._dumps.refuse_while_dumping()
            if self._view.moves.is_open:
                raise WrongState("disks of the guest move to other claims; they are copied once that is over")
            wanted = [WantedCopy(disk.volume, disk.target, disk.block) for disk in request.disks]
            backup = _read_backup(request.backup) if request.HasField("backup") else None
            self._view.copies.begin(request.id, wanted, self._session.facts(), backup, request.memory)
        return self._view.look()

    def abort_disk_copy(self, copy_id: str) -> DomainStatus:
        """End it."""
        self._view.copies.abort(copy_id)
        return self._view.look()

    def move_disks(self, request: MoveDisksRequest) -> DomainStatus:
        """Bring disks of the guest nearer to other claims, or to those that they were on."""
        begins = request.goal == DISK_MOVE_GOAL_COPY
        with self._deciding if begins else contextlib.nullcontext():
            if begins:
                self._refuse_to_move_disks()
                if not self._view.moves.is_open:
                    self._forget_changes()
            try:
                self._view.moves.order(request)
            finally:
                status = self._view.look()
        return status

    def freeze(self, unfreeze_seconds: int) -> DomainStatus:
        """Have the guest's agent freeze its file systems; they thaw after so many seconds, 0 for when asked.

        Raises:
            LauncherError: when it did not; then they are thawed again.
        """
        self._refuse_while_busy()
        self._view.expect_change()
        self._agent.freezer.freeze(unfreeze_seconds, self._refuse_while_busy)
        return self._view.look()

    def dump_memory(self, request: DumpMemoryRequest) -> DomainStatus:
        """Begin to write the guest's memory into a file."""
        with self._deciding:
            if self._state.memory.kill_requested:
                raise WrongState("the guest is to end")
            if self._state.memory.resumes:
                raise WrongState("the guest has just come, and does not run yet; try again when it does")
            self._view.outgoing.refuse_while_moving()
            if self._view.copies.is_active and not self._dumps.is_unsettled:
                raise WrongState("the guest's disks are being copied; its memory is written when that is over")
            if self._view.moves.is_open and not self._dumps.is_unsettled:
                raise WrongState("disks of the guest move to other claims; its memory is written when that is over")
            self._dumps.begin(request, self._session.facts())
        return self._view.look()

    def _refuse_to_move_disks(self) -> None:
        self._view.outgoing.refuse_while_moving()
        if self._state.memory.resumes or self._state.memory.kill_requested:
            raise WrongState("the guest does not run yet, or is to end")
        self._dumps.refuse_while_dumping()
        if self._view.copies.is_active:
            raise WrongState("the guest's disks are being copied for a snapshot; they move when that is over")

    def _forget_changes(self) -> None:
        """What backups have noted stays behind: the next one is a full one, and says so."""
        try:
            self._session.bitmaps.forget_all()
        except LauncherError as error:
            log.warning("notes of changed blocks stay", extra={"facts": {"why": str(error)}})

    def _refuse_while_busy(self) -> None:
        """For orders that have to wait. Raises WrongState."""
        self._view.outgoing.refuse_while_moving()
        self._view.moves.refuse_while_holding()
        self._dumps.refuse_while_dumping()
        self._refuse_while_saving()

    def _refuse_while_starting(self) -> None:
        """A guest with saved memory runs once nobody else can have it, and not before."""
        if self._state.memory.starting:
            raise WrongState("the guest is being started; try again when it is")

    def _refuse_while_saving(self) -> None:
        if self._view.copies.keeps_state:
            raise WrongState("the guest's memory is being saved; try again when that is over")

    def unfreeze(self) -> DomainStatus:
        """Have it thaw them. Raises LauncherError; then it is tried on all the same."""
        self._view.expect_change()
        self._agent.freezer.unfreeze()
        return self._view.look()

    def kill(self) -> DomainStatus:
        """End QEMU: SIGTERM, so that it writes out its caches, then SIGKILL."""
        self._state.remember(kill_requested=True)
        try:
            self._session.destroy(graceful=True)
        except Unanswered:
            self._session.destroy(graceful=False)
        except WrongState:
            log.info("nothing is left to kill")
        return self._view.look()


def _read_backup(asked: BackupFiles) -> WantedBackup:
    from kvedge.launcher.copies.backup_plan import WantedBackup, check_backup

    keep = frozenset(asked.keep)
    wanted = WantedBackup(
        asked.target, asked.directory, asked.name, asked.checkpoint, asked.base, keep, asked.skip_quiesce, asked.vm
    )
    check_backup(wanted)
    return wanted
