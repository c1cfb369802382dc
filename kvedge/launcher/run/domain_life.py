"""Whether there is a domain: it is made once, by the first Sync, and removed when the run is over.

Kept by `domain_run`; called by the gRPC server's threads and by `launcher_process`. Files and document come from the
preparation process.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.launcher_errors import BadRequest, DomainMissing, LauncherError, Postponed, WrongState
from kvedge.launcher.libvirt.domain_facts import Life
from kvedge.launcher.passt.passt_link import PasstLink, open_link
from kvedge.launcher.run.disk_growth import grow_disks
from kvedge.launcher.run.domain_orders import DomainOrders
from kvedge.launcher.run.domain_plan import SyncStep, plan_sync
from kvedge.launcher.run.domain_view import DomainView
from kvedge.launcher.run.memory_resume import MemoryResume
from kvedge.launcher.run.nic_leases import NicLeases
from kvedge.launcher.run.run_record import RunRecord
from kvedge.launcher.run.run_state import RunState
from kvedge.resources.values.hook_names import HOOK_SIDECARS
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT, DomainStatus, SyncRequest
from kvedge.runtime.milestones import (
    DHCP_READY,
    DOMAIN_DEFINED,
    FILES_READY,
    HANDED_OVER,
    START_ASKED,
    STARTED,
    STATUS_PUBLISHED,
)

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# Of a message that quotes QEMU or libvirt.
LONGEST_MESSAGE: Final = 1024


class Preparation(Protocol):
    """Makes the files that a domain needs, and its document."""

    def prepare(self, request: SyncRequest, libvirt_version: int) -> Prepared:
        """Make them; as `preparation_process` has it."""


class Keeper(Protocol):
    """Brings devices of the running domain to what a VMI wants."""

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want what this VMI has; as `disk_keeper` and `nic_keeper` have it."""


class DomainLife:
    """The beginning and the end of one domain; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        record: RunRecord,
        state: RunState,
        preparation: Preparation | None,
        nics: NicLeases,
        view: DomainView,
        orders: DomainOrders,
        keepers: Sequence[Keeper],
        on_made: Callable[[], None],
        memory: MemoryResume,
    ) -> None:
        """`preparation` is None when a launcher before this one has started the guest already; `on_made()` is called
        when a domain was made, be it without success.
        """
        self._session = session
        self._record = record
        self._state = state
        self._preparation = preparation
        self._nics = nics
        self._view = view
        self._orders = orders
        self._keepers = keepers
        self._on_made = on_made
        self._memory = memory
        # Taken while the domain is made or removed; reading, pausing and ending go on meanwhile.
        self._making = threading.Lock()

    def sync(self, request: SyncRequest) -> DomainStatus:
        """Start the guest if it never was started; serve its NICs; bring its devices to what the VMI wants, soon.

        Raises:
            Postponed: while the guest moves.
            LauncherError: of the kind that says whether trying again can help.
        """
        with self._making:
            step = plan_sync(self._view.verdict())
            if step is SyncStep.LEAVE:
                return self._view.look()
            if self._view.outgoing.is_moving:
                # Not taken for done: if it stays after all, it is to get what it was told.
                raise Postponed("the guest is moving to another node, and takes no changes until that is over")
            if step is SyncStep.START:
                self._make(request)
            self._nics.name(request.interfaces)
            if step is SyncStep.ADOPT:
                self._nics.serve(request.interfaces)
            for keeper in self._keepers:
                keeper.follow(request, self._session.facts())
            if not (self._view.copies.is_active or self._view.moves.is_open):
                # QEMU lets no disk grow that is being copied; the Sync that follows when its copy goes looks again.
                self._state.growth_notes = grow_disks(request.vmi_json, self._session)
        status = self._view.look()
        if step is SyncStep.START:
            self._record.milestones.note(STATUS_PUBLISHED)
            self._record.keep_milestones()
        return status

    def delete(self) -> None:
        """Remove what is left of a domain that has ended; the launcher then goes.

        Raises:
            WrongState: while the guest runs.
        """
        with self._making:
            # Looked at, so that how it ended is kept before this call can be taken for the reason.
            self._view.look()
            verdict = self._view.verdict()
            if not verdict.has_ended and verdict.state != DOMAIN_STATE_ABSENT:
                raise WrongState("the guest still runs")
            # A Sync that comes late must not start what was deleted.
            self._state.remember(kill_requested=True)
            self._state.end()
            self._state.acknowledged.set()

    def clean_up(self) -> None:
        """Remove the ended domain from libvirt; one that is being prepared is not started any more."""
        self._state.remember(kill_requested=True)
        self._nics.stop()
        with self._making:
            try:
                self._session.undefine()
            except DomainMissing:
                return

    def end_unserved(self) -> None:
        """End a guest whose launcher was killed before its NIC was served: it has never run, and never would.

        Raises:
            LauncherError: when libvirt does not end it.
        """
        if not self._record.owes_link:
            return
        facts = self._session.facts()
        if facts is not None and facts.is_active and facts.life is Life.PAUSED:
            self._state.remember(failure="the launcher was killed before passt served the guest")
            self._session.destroy(graceful=False)
        self._record.settle_link()

    def _make(self, request: SyncRequest) -> None:
        if self._preparation is None:
            raise WrongState("the guest has been started in this Pod before")
        reached = self._record.milestones
        reached.note(HANDED_OVER)
        begun = time.monotonic()
        prepared = self._preparation.prepare(request, self._session.libvirt_version)
        reached.note(FILES_READY)
        self._state.disk_notes = prepared.notes
        ready = time.monotonic()
        # Before anything is begun: one that cannot be opened now may be at the next Sync.
        link = open_link(request.interfaces)
        try:
            self._define(prepared, request)
            reached.note(DOMAIN_DEFINED)
            # Its first DISCOVER may come within a second.
            self._nics.serve(request.interfaces)
            reached.note(DHCP_READY)
            if self._state.memory.kill_requested:
                return
            failure = self._start(prepared, link, request.resume)
        finally:
            if link is not None:
                link.close()
        seconds = {"preparing": round(ready - begun, 3), "starting": round(time.monotonic() - ready, 3)}
        log.info("started" if not failure else "not started", extra={"facts": seconds})
        self._on_made()
        if self._state.memory.kill_requested:
            # The kill may have come before there was anything to kill.
            self._orders.kill()

    def _define(self, prepared: Prepared, request: SyncRequest) -> None:
        try:
            self._session.define(prepared.xml)
        except BadRequest as error:
            if not prepared.hooks:
                raise
            changed = f"hook sidecar {', '.join(prepared.hooks)} changed the domain into what libvirt refuses"
            raise BadRequest(_field_of_hooks(request.vmi_json), f"{changed}: {error}") from error

    def _start(self, prepared: Prepared, link: PasstLink | None, resume: str) -> str:
        """Why the guest did not start; empty when it did."""
        self._record.begin()
        self._state.remember(begun=True, starting=True)
        self._view.look()
        failure = ""
        try:
            self._record.milestones.note(START_ASKED)
            self._start_domain(prepared, link, resume)
            self._record.milestones.note(STARTED)
        except LauncherError as error:
            failure = str(error)[:LONGEST_MESSAGE]
            log.error("the guest did not start", extra={"facts": {"why": failure}})
        self._state.remember(starting=False, failure=failure, never_ran=prepared.paused)
        return failure

    def _start_domain(self, prepared: Prepared, link: PasstLink | None, resume: str) -> None:
        paused = prepared.paused
        if resume and self._memory.is_due(resume):
            if link is not None:
                raise WrongState("a guest with passt cannot go on from its memory: restore it without memory")
            self._memory.start(resume, prepared.xml, paused=paused)
            return
        if link is None:
            self._session.start(paused=paused)
            return
        # No guest runs a while with a NIC that nobody serves, and none waits for a launcher that was killed.
        self._record.owe_link()
        self._session.start(paused=True)
        try:
            link.connect()
            if not paused:
                self._session.unpause()
        except LauncherError:
            self._session.destroy(graceful=False)
            raise
        self._record.settle_link()


def _field_of_hooks(vmi_json: bytes) -> str:
    """Where a VMI asks for its sidecars: by the annotation, or by the binding plugins of its interfaces alone."""
    metadata = json.loads(vmi_json or b"{}").get("metadata") or {}
    if HOOK_SIDECARS in (metadata.get("annotations") or {}):
        return f"metadata.annotations[{HOOK_SIDECARS}]"
    return "spec.domain.devices.interfaces"
