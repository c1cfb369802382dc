"""The one run of the one domain: where requests, libvirt's events and the guest's leases meet.

Called by the gRPC server's threads and by `launcher_process`. State is read from libvirt after each event and after
each action, judged by `domain_plan`, and published on the status board; nothing here acts on an event itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Final, Protocol

from kvedge.launcher.agent.agent_orders import REBOOT_SECONDS, SHUTDOWN_SECONDS
from kvedge.launcher.agent.agent_schedule import Steady
from kvedge.launcher.agent.guest_agent import GuestAgent
from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.launcher_errors import (
    DomainMissing,
    LauncherError,
    LibvirtFailed,
    Unanswered,
    WrongState,
)
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life
from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
from kvedge.launcher.run.dhcp_responders import DhcpResponders
from kvedge.launcher.run.domain_plan import (
    RunMemory,
    ShutdownStep,
    SyncStep,
    Verdict,
    judge,
    plan_shutdown,
    plan_sync,
)
from kvedge.launcher.run.run_record import RunRecord
from kvedge.launcher.run.screen_picture import BadPicture, png_pieces
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.network.dhcp.dhcp_plan import DhcpLease
from kvedge.rpc.launcher_pb2 import (
    DOMAIN_REASON_USER,
    DOMAIN_STATE_ABSENT,
    DOMAIN_STATE_PAUSED,
    DiskTarget,
    DomainStatus,
    GuestAddress,
    GuestInterface,
    SyncRequest,
)
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.process_memory import give_back

log = logging.getLogger(__name__)

# Events say when to look; this is for the one that never came.
LOOK_AGAIN_SECONDS: Final = 10.0
SOON_SECONDS: Final = 1.0
# How long nothing must have happened before memory that is free is returned.
TIDY_SECONDS: Final = 1.0
# What a picture of the screen waits for another one.
PICTURE_SECONDS: Final = 5.0
# Of a message that quotes QEMU or libvirt.
LONGEST_MESSAGE: Final = 1024


class Preparation(Protocol):
    """Who makes the files that a domain needs, and its document."""

    def prepare(self, request: SyncRequest, libvirt_version: int) -> Prepared:
        """Make them; as `preparation_process` has it."""


class DomainRun:
    """One VMI's run in this Pod; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        record: RunRecord,
        preparation: Preparation | None,
        on_end: Callable[[], None],
        on_round: Callable[[], bool],
    ) -> None:
        """`preparation` is None when a launcher before this one has started the guest already; `on_end()` is called
        once, in any thread, when the run is over, and `on_round()` every few seconds, or sooner when it says so.
        """
        self._session = session
        self._record = record
        self._preparation = preparation
        self._on_end = on_end
        self._on_round = on_round
        self._memory = RunMemory(begun=record.begun_unix_ms > 0)
        # Taken while the domain is made or removed; reading, pausing and ending go on meanwhile.
        self._making = threading.Lock()
        self._looking = threading.Lock()
        self._remembering = threading.Lock()
        self._look_wanted = threading.Event()
        # Whether start-up, or the making of the domain, has left memory free that can be returned.
        self._untidy = True
        self._interfaces: dict[str, GuestInterface] = {}
        self._leases = record.leases()
        self._responders = DhcpResponders(self._take_lease)
        self._agent = GuestAgent(session, record, self._look_wanted.set)
        # What the agent makes of the status; nothing of it is told more often than the API can bear.
        self._agents_part = Steady(DomainStatus())
        self._picturing = threading.Lock()
        self.board = StatusBoard()
        # How the run ended, once it has: what is asked for afterwards changes nothing of that.
        self._outcome: Verdict | None = None
        # Set once the run is over, and once somebody has recorded that.
        self.ended = threading.Event()
        self.acknowledged = threading.Event()

    def start(self) -> None:
        """Find what runs already, and begin to watch."""
        self._session.watch(self._look_wanted.set)
        self.look()
        BackgroundThread("domain-watch", self._watch).start()

    def sync(self, request: SyncRequest) -> DomainStatus:
        """Start the guest if it never was started; serve its NICs.

        Raises:
            LauncherError: of the kind that says whether trying again can help.
        """
        with self._making:
            step = plan_sync(self.verdict())
            if step is SyncStep.LEAVE:
                return self.look()
            if step is SyncStep.START:
                self._make(request)
            self._interfaces = {entry.mac.lower(): entry for entry in request.interfaces}
            if step is SyncStep.ADOPT:
                self._responders.serve(request.interfaces)
        return self.look()

    def _make(self, request: SyncRequest) -> None:
        if self._preparation is None:
            raise WrongState("the guest has been started in this Pod before")
        begun = time.monotonic()
        prepared = self._preparation.prepare(request, self._session.libvirt_version)
        ready = time.monotonic()
        self._session.define(prepared.xml)
        # Its first DISCOVER may come within a second.
        self._responders.serve(request.interfaces)
        if self._memory.kill_requested:
            return
        self._record.begin()
        self._remember(begun=True, starting=True)
        self.look()
        failure = ""
        try:
            self._session.start(paused=prepared.paused)
        except LauncherError as error:
            failure = str(error)[:LONGEST_MESSAGE]
            log.error("the guest did not start", extra={"facts": {"why": failure}})
        self._remember(starting=False, failure=failure, never_ran=prepared.paused)
        seconds = {"preparing": ready - begun, "starting": time.monotonic() - ready}
        log.info("started" if not failure else "not started", extra={"facts": _rounded(seconds)})
        self._untidy = True
        if self._memory.kill_requested:
            # The kill may have come before there was anything to kill.
            self.kill()

    def pause(self) -> DomainStatus:
        """Stop the guest's CPUs."""
        self._session.pause()
        return self.look()

    def unpause(self) -> DomainStatus:
        """Let them run."""
        self._remember(never_ran=False)
        self._session.unpause()
        return self.look()

    def reset(self) -> DomainStatus:
        """Press the reset button."""
        self._session.reset()
        return self.look()

    def soft_reboot(self) -> DomainStatus:
        """Ask the guest to reboot: its agent when there is one, ACPI otherwise."""
        if not self._agent.orders.give(lambda: self._session.soft_reboot(agent=True), REBOOT_SECONDS):
            self._agent.freezer.thaw_soon()
            self._session.soft_reboot(agent=False)
        return self.look()

    def shut_down(self) -> DomainStatus:
        """Ask the guest to power off: its agent when it is there, the ACPI power button otherwise or when it fails."""
        facts = self._session.facts()
        if facts is None or not facts.is_active:
            raise DomainMissing("there is no guest to shut down")
        step = plan_shutdown(facts, self._memory)
        if step is ShutdownStep.KILL:
            log.info("the guest was started paused and never ran")
            return self.kill()
        if step is ShutdownStep.RESUME:
            log.info("the guest goes on, to shut down", extra={"facts": {"was": facts.why.value}})
            self._session.unpause()
        if not self._agent.orders.give(lambda: self._session.shut_down(agent=True), SHUTDOWN_SECONDS):
            self._agent.freezer.thaw_soon()
            self._session.shut_down(agent=False)
        return self.look()

    def freeze(self, unfreeze_seconds: int) -> DomainStatus:
        """Have the guest's agent freeze its file systems; they thaw after so many seconds, 0 for when asked.

        Raises:
            LauncherError: when it did not; then they are thawed again.
        """
        self._agents_part.grant()
        self._agent.freezer.freeze(unfreeze_seconds)
        return self.look()

    def unfreeze(self) -> DomainStatus:
        """Have it thaw them. Raises LauncherError; then it is tried on all the same."""
        self._agents_part.grant()
        self._agent.freezer.unfreeze()
        return self.look()

    def ping_guest(self, seconds: int) -> None:
        """Whether the guest's agent answers in time; one that was paused on purpose need not.

        Raises:
            LauncherError: when it does not.
        """
        status = self.board.status
        if (status.state, status.reason) != (DOMAIN_STATE_PAUSED, DOMAIN_REASON_USER):
            self._agent.probes.ping(seconds)

    def screenshot(self, *, move_cursor: bool) -> Generator[bytes, None, None]:
        """The guest's screen as a PNG file, in pieces; one at a time.

        Raises:
            LauncherError: when there is none, or when it is too large.
        """
        if not self._picturing.acquire(timeout=PICTURE_SECONDS):
            raise Unanswered("another picture of the screen is being taken")
        try:
            if move_cursor:
                self._session.move_pointer()
            yield from png_pieces(self._session.screenshot())
        except BadPicture as error:
            raise LibvirtFailed("taking a picture of the screen", 0, 0, str(error)) from error
        finally:
            self._picturing.release()

    def kill(self) -> DomainStatus:
        """End QEMU: SIGTERM, so that it writes out its caches, then SIGKILL."""
        self._remember(kill_requested=True)
        try:
            self._session.destroy(graceful=True)
        except Unanswered:
            self._session.destroy(graceful=False)
        except WrongState:
            log.info("nothing is left to kill")
        return self.look()

    def delete(self) -> None:
        """Remove what is left of a domain that has ended; the launcher then goes.

        Raises:
            WrongState: while the guest runs.
        """
        with self._making:
            # Looked at, so that how it ended is kept before this call can be taken for the reason.
            self.look()
            verdict = self.verdict()
            if not verdict.has_ended and verdict.state != DOMAIN_STATE_ABSENT:
                raise WrongState("the guest still runs")
            # A Sync that comes late must not start what was deleted.
            self._remember(kill_requested=True)
            self._end()
            self.acknowledged.set()

    def clean_up(self) -> None:
        """Remove the ended domain from libvirt."""
        self._responders.stop()
        with self._making:
            try:
                self._session.undefine()
            except DomainMissing:
                return

    def look(self) -> DomainStatus:
        """Read the domain and publish what it is like."""
        with self._looking:
            facts = self._session.facts()
            verdict = self._outcome or judge(facts, self._memory)
            self._follow_agent(facts)
            status = self.board.publish(self._status(facts, verdict))
            if verdict.has_ended and not self.ended.is_set():
                log.info("the run is over", extra={"facts": {"reason": verdict.reason, "why": verdict.message}})
                self._outcome = verdict
                self._keep_final(status)
                self._end()
            return status

    def _follow_agent(self, facts: DomainFacts | None) -> None:
        connected = facts is not None and facts.is_active and facts.agent_connected
        self._agent.follow(connected=connected, running=facts is not None and facts.life is Life.RUNNING)

    def _keep_final(self, status: DomainStatus) -> None:
        try:
            self._record.keep_final(status)
        except OSError as error:
            # Who watches has been told; only a handler that was away will have to guess.
            log.error("cannot write the last word", extra={"facts": {"why": str(error)}})

    def _end(self) -> None:
        self.ended.set()
        self._on_end()

    @property
    def agent(self) -> GuestAgent:
        """What the guest says of itself."""
        return self._agent

    def verdict(self) -> Verdict:
        """What the domain's state means now."""
        return self._outcome or judge(self._session.facts(), self._memory)

    def _remember(self, **changes: bool | str) -> None:
        with self._remembering:
            self._memory = replace(self._memory, **changes)  # type: ignore[arg-type]

    def _watch(self) -> None:
        soon = False
        while True:
            patience = TIDY_SECONDS if self._untidy else SOON_SECONDS if soon else LOOK_AGAIN_SECONDS
            if not self._look_wanted.wait(patience) and self._untidy:
                # Not earlier: it takes 10 ms, in which nothing else goes on here.
                self._untidy = False
                give_back()
                continue
            self._look_wanted.clear()
            try:
                self.look()
            except LauncherError as error:
                # libvirt is busy or the domain is just going; the next event or the timer looks again.
                log.warning("could not look at the domain", extra={"facts": {"why": str(error)}})
            soon = self._on_round()

    def _status(self, facts: DomainFacts | None, verdict: Verdict) -> DomainStatus:
        status = DomainStatus(state=verdict.state, reason=verdict.reason, message=verdict.message)
        status.started_unix_ms = self._record.begun_unix_ms
        if facts is not None:
            status.uuid = facts.uuid
            status.qemu_pid = facts.pid
            status.machine_type = facts.machine
            status.disks.extend(DiskTarget(name=name, target=target) for name, target in facts.disks)
        if not verdict.has_ended:
            status.addresses.extend(self._leased())
            status.MergeFrom(self._agents_part.settle(self._told_by_agent(), time.monotonic()))
        return status

    def _leased(self) -> list[GuestAddress]:
        return [
            GuestAddress(
                interface=self._interfaces[mac].name if mac in self._interfaces else "",
                mac=mac,
                addresses=[address],
                source="lease",
            )
            for mac, address in self._leases.items()
        ]

    def _told_by_agent(self) -> DomainStatus:
        part = DomainStatus()
        part.addresses.extend(
            self._agent.answers.addresses({mac: entry.name for mac, entry in self._interfaces.items()})
        )
        self._agent.answers.fill(part)
        return part

    def _take_lease(self, lease: DhcpLease) -> None:
        mac = lease.guest_mac.lower()
        if self._leases.get(mac) != lease.address:
            self._leases = {**self._leases, mac: lease.address}
            try:
                self._record.keep_leases(self._leases)
            except OSError as error:
                # The guest has its address; only a launcher started again would have to wait for the next renewal.
                log.warning("the lease was not kept", extra={"facts": {"error": error.strerror}})
            self._look_wanted.set()


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}
