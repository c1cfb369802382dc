"""The one run of the one domain, put together: its state, its life, its orders, its view, its watch.

Made by `launcher_process`; the gRPC server calls the parts. State is read from libvirt after each event and each
action, judged by `domain_plan`, and published on the status board.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvedge.launcher.agent.credential_keeper import CredentialKeeper
from kvedge.launcher.agent.guest_agent import GuestAgent
from kvedge.launcher.copies.disk_copies import DiskCopies
from kvedge.launcher.disk_move.disk_move_record import MoveStore
from kvedge.launcher.disk_move.disk_mover import DiskMover
from kvedge.launcher.hotplug.cpu_keeper import CpuKeeper
from kvedge.launcher.hotplug.disk_keeper import DiskKeeper
from kvedge.launcher.hotplug.function_release import FunctionRelease
from kvedge.launcher.hotplug.memory_keeper import MemoryKeeper
from kvedge.launcher.hotplug.nic_keeper import NicKeeper
from kvedge.launcher.metrics.metrics_keeper import MetricsKeeper
from kvedge.launcher.migration.link_refresh import LinkRefresh
from kvedge.launcher.migration.migration_record import MigrationRecord
from kvedge.launcher.migration.outgoing_guest import OutgoingGuest
from kvedge.launcher.migration.released_guest import ReleasedGuest
from kvedge.launcher.run.attestation import Attestation
from kvedge.launcher.run.dirty_sampling import DirtySampling
from kvedge.launcher.run.domain_description import Descriptions
from kvedge.launcher.run.domain_life import DomainLife, Preparation
from kvedge.launcher.run.domain_orders import DomainOrders
from kvedge.launcher.run.domain_view import DomainView
from kvedge.launcher.run.domain_watch import DomainWatch
from kvedge.launcher.run.guest_stats import GuestStats
from kvedge.launcher.run.io_error_patience import IoErrorPatience
from kvedge.launcher.run.memory_dumps import MemoryDumps
from kvedge.launcher.run.memory_resume import MemoryResume
from kvedge.launcher.run.nic_leases import NicLeases
from kvedge.launcher.run.passt_watch import PasstWatch
from kvedge.launcher.run.run_record import RunRecord
from kvedge.launcher.run.run_state import RunState
from kvedge.launcher.run.screenshots import Screenshots
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.resources.names import EPHEMERAL_DISKS_DIRECTORY, PRIVATE_DIRECTORY
from kvedge.rpc.launcher_pb2 import DOMAIN_REASON_DUMP, DOMAIN_REASON_USER, DOMAIN_STATE_PAUSED, GuestExecReply

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class DomainRun:
    """One VMI's run in this Pod; every method, and those of its parts, may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        record: RunRecord,
        preparation: Preparation | None,
        on_end: Callable[[], None],
        on_round: Callable[[], bool],
        root: str = "",
    ) -> None:
        """`preparation` is None when a launcher before this one has started the guest already; `on_end()` is called
        once, in any thread, when the run is over, and `on_round()` every few seconds, or sooner when it says so.
        `root` is before the Pod's paths.
        """
        self._session = session
        self.milestones = record.milestones
        self._watch = DomainWatch(lambda: on_round() or self._is_unsettled)
        nics = NicLeases(record, self._watch.look_soon)
        self.state = RunState(on_end, begun=record.begun_unix_ms > 0)
        self.agent = GuestAgent(session, record, self._watch.look_soon)
        self._credentials = CredentialKeeper(
            self.agent.line, f"{root}{PRIVATE_DIRECTORY}/secret", self._watch.look_soon
        )
        self._disks = DiskKeeper(session, root, self._watch.look_soon)
        store = MigrationRecord(record.directory)
        self._nics = NicKeeper(
            session,
            self._watch.look_soon,
            is_leaving=lambda: self.outgoing.is_moving,
            root=root,
            told=store.switched_nics(),
        )
        self._cpus = CpuKeeper(session, self._watch.look_soon, is_leaving=lambda: self.outgoing.is_moving)
        self._memory = MemoryKeeper(session, self._watch.look_soon, is_leaving=lambda: self.outgoing.is_moving)
        if store.owes_time:
            self.agent.clock.owe(store.keep_timed)
        self._links = LinkRefresh(session, store, self._watch.look_soon)
        self._released = ReleasedGuest(session, store)
        self.outgoing = OutgoingGuest(
            session, store, self._look_soon, root, FunctionRelease(session, self._nics).release
        )
        places = (record.directory, root + EPHEMERAL_DISKS_DIRECTORY, root)
        self.copies = DiskCopies(
            session, self.agent.freezer, places, self._watch.look_soon, lambda: self.orders.go_on()
        )
        self._dumps = MemoryDumps(session, record.directory, self._watch.look_soon, root)
        self.moves = DiskMover(session, MoveStore(record.directory), record.vmi_uid, self._watch.look_soon, root)
        self.view = DomainView(
            session,
            record,
            self.state,
            self.agent,
            self._credentials,
            nics,
            self._disks,
            self._nics,
            self._cpus,
            self._memory,
            self.outgoing,
            self.copies,
            self._dumps,
            self.moves,
            root,
        )
        self.orders = DomainOrders(session, self.state, self.agent, self.view, self._dumps)
        self._metrics = MetricsKeeper(session, record.directory, root)
        self._passt = PasstWatch()
        keepers = (
            *(self._disks, self._nics, self._cpus, self._memory, self._credentials, self._metrics),
            *(self._passt, self._links),
        )
        self._resume = MemoryResume(session, self.state, record, self.agent.clock.owe, root)
        self.life = DomainLife(
            session,
            record,
            self.state,
            preparation,
            nics,
            self.view,
            self.orders,
            keepers,
            self._watch.tidy_soon,
            self._resume,
        )
        self.screen = Screenshots(session)
        self.attestation = Attestation(session)
        self.descriptions = Descriptions(session, self.view.board)
        answers = self.agent.answers
        sampling = DirtySampling(session)
        move = self.outgoing.progress
        self.stats = GuestStats(session, answers.known_filesystems, answers.known_load, move, sampling)
        self._io_errors = IoErrorPatience()

    @property
    def board(self) -> StatusBoard:
        """What the domain is like, for everyone who asks or waits."""
        return self.view.board

    @property
    def _is_unsettled(self) -> bool:
        """Whether the domain is to be looked at often."""
        moving = self.outgoing.is_unsettled or self._released.is_due or self.moves.is_open
        return moving or self.copies.is_active or self._dumps.is_unsettled or self._passt.is_unsettled

    def start(self) -> None:
        """Find what runs already, and begin to watch."""
        self._session.watch(self._look_soon)
        self.life.end_unserved()
        self._resume.take_over()
        self.view.look()
        self._let_released_run()
        self.copies.take_over()
        self._metrics.begin()
        self._watch.start(self._look)

    def _look(self) -> None:
        self.view.look()
        self._let_released_run()
        self._look_at_passt()
        self._links.look(self.view.facts())
        self._dumps.go_on(self.view.facts())
        if not self.copies.is_active:
            self.copies.let_go()
        if self._io_errors.goes_on(self.view.facts(), time.monotonic()):
            self.orders.go_on()

    def _look_at_passt(self) -> None:
        unserved = self._passt.look(self.view.facts(), time.monotonic())
        if unserved != self.state.unserved_nic:
            self.state.unserved_nic = unserved
            self.view.look()

    def _let_released_run(self) -> None:
        """A guest that has come may not run yet; until it does, it moves no further."""
        if self._released.is_due:
            self._released.go_on(self.view.facts(), held=self.state.memory.held)
            self.state.remember(resumes=self._released.is_due)
            self.view.look()

    def _look_soon(self) -> None:
        self._watch.look_soon()
        self._disks.look_soon()
        self._nics.look_soon()
        self._cpus.look_soon()
        self._memory.look_soon()

    def ping_guest(self, seconds: int) -> None:
        """Whether the guest's agent answers in time; a guest that was paused on purpose, or for a dump, need not.

        Raises:
            LauncherError: when it does not.
        """
        status = self.board.status
        if status.state != DOMAIN_STATE_PAUSED or status.reason not in (DOMAIN_REASON_USER, DOMAIN_REASON_DUMP):
            self.agent.probes.ping(seconds)

    def execute_in_guest(self, command: Sequence[str], seconds: int, is_wanted: Callable[[], bool]) -> GuestExecReply:
        """Have the guest's agent run a program, and wait for its end, as long as `is_wanted()`.

        Raises:
            LauncherError: when it does not end in time, or does not begin.
        """
        if self._dumps.holds_guest:
            return GuestExecReply(output="not asked: the guest's memory is being written to a file")
        return self.agent.probes.execute(command, seconds, is_wanted)
