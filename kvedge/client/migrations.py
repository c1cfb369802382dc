"""Migrations of a VM as its user sees them: the one under way, how far it is, how it ended.

Called by the verbs `migrate` and `migrate-cancel`. Reads the API, and deletes a migration; the functions that judge are
pure.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from typing import Final

from kvedge.client.errors import ClientError, NotFoundError, RefusedError, TimedOutError
from kvedge.client.session import Session, check_name
from kvedge.client.subresources import VMI, get
from kvedge.client.vm_wait import Progress
from kvedge.client.volumes.volume_usage import bytes_text
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Event
from kvedge.resources.types.migrations import VMI_NAME_LABEL, MigrationState, VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value
from kvedge.runtime.clock import parse_rfc3339

_FIRST_LOOK: Final = 0.1
_LONGEST_LOOK: Final = 1.0
_NOT_SEEN: Final = "not seen by the controller yet"


def list_migrations(session: Session, vm: str) -> list[VirtualMachineInstanceMigration]:
    """All migrations of a VM that are still listed."""
    selector = f"{VMI_NAME_LABEL}={as_label_value(check_name(vm))}"
    return session.client.list(VirtualMachineInstanceMigration, session.namespace, selector)


def find_active(session: Session, vm: str) -> VirtualMachineInstanceMigration:
    """The migration that is under way.

    Raises:
        NotFoundError: when there is none.
    """
    active = [item for item in list_migrations(session, vm) if not item.is_final]
    if not active:
        raise NotFoundError(f"Found no migration to cancel for {vm}")
    return active[0]


def cancel(session: Session, migration: VirtualMachineInstanceMigration, *, dry_run: bool) -> None:
    """Ask for its end: that is what deleting it means while it is under way."""
    metadata = migration.metadata
    path = migration.KIND.path(session.namespace, metadata.name)
    options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": metadata.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    session.client.request("DELETE", path, options)


def describe_progress(found: JsonObject) -> str:
    """What is still to be sent of a guest, and how long that takes at this rate; empty when nobody knows yet."""
    left, total, rate = (int(found.get(name) or 0) for name in ("leftBytes", "totalBytes", "memoryRateBytes"))
    if found.get("state") != "Active" or not total:
        return ""
    text = f"{bytes_text(left)} left of {bytes_text(total)}"
    return f"{text}, {bytes_text(rate)}/s, about {left // rate + 1} s" if rate else text


def describe_step(migration: VirtualMachineInstanceMigration) -> str:
    """How far it is, and what it waits for."""
    waits = [item.message for item in migration.status.conditions if item.status == "True" and item.message]
    word = migration.status.phase or _NOT_SEEN
    return f"{word}: {waits[-1]}" if waits else word


class MigrationWait:
    """Waits for one migration of one VM."""

    def __init__(self, session: Session, vm: str, timeout: float, progress: Callable[[], Progress]) -> None:
        self._session = session
        self._vm = vm
        self._timeout = timeout
        self._progress = progress
        # The migration is found once it is made: the call that makes it does not say its name.
        self._before = frozenset(item.metadata.uid for item in list_migrations(session, vm))

    def wait_until_moved(self) -> str:
        """Until the guest runs elsewhere.

        Raises:
            RefusedError: when the migration failed or was cancelled; with the reason.
            TimedOutError: with how far it is, and the newest warning.
        """
        ended, state = self._wait_until_ended(self._before, "move")
        if not _has_moved(ended, state):
            raise RefusedError(f"the migration of VM {self._vm} failed: {self._why(ended, state)}")
        return f"VM {self._vm} moved{_way(state)}"

    def wait_until_cancelled(self, migration: VirtualMachineInstanceMigration) -> str:
        """Until that migration has ended; the guest may have moved before it was cancelled.

        Raises:
            TimedOutError: with how far it is.
        """
        ended, state = self._wait_until_ended(self._before - {migration.metadata.uid}, "stay")
        if _has_moved(ended, state):
            return f"VM {self._vm} had moved already{_way(state)}"
        where = state.source_node if state is not None else ""
        return f"VM {self._vm} stays{f' on {where}' if where else ' where it is'}"

    def _wait_until_ended(
        self, others: Collection[str], what: str
    ) -> tuple[VirtualMachineInstanceMigration, MigrationState | None]:
        """The migration as it was seen last, and what the VMI says of it."""
        deadline, pause = time.monotonic() + self._timeout, _FIRST_LOOK
        seen: VirtualMachineInstanceMigration | None = None
        with self._progress() as progress:
            while True:
                # A server that restarts is waited for as well.
                with contextlib.suppress(Unavailable):
                    found = self._find(others, seen)
                    if seen is not None and (found is None or found.is_final):
                        return found or seen, self._state(seen.metadata.uid)
                    seen = found or seen
                    if seen is not None and seen.is_final:
                        return seen, self._state(seen.metadata.uid)
                progress.show(f"{self._vm}: {self._describe(seen)}")
                if time.monotonic() > deadline:
                    step = describe_step(seen) if seen is not None else _NOT_SEEN
                    raise TimedOutError(
                        f"timed out after {self._timeout:g} s waiting for VM {self._vm} to {what}: {step}"
                        f"{self._newest_warning(seen)}; `kvedge migrate-cancel {self._vm}` has it stay"
                    )
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(_LONGEST_LOOK, pause * 1.5)

    def _describe(self, seen: VirtualMachineInstanceMigration | None) -> str:
        if seen is None:
            return _NOT_SEEN
        step = describe_step(seen)
        if seen.status.phase != "Running":
            return step
        # A launcher that has just lost its guest tells nothing; the next look tells the end.
        with contextlib.suppress(KubeError, ClientError):
            if sent := describe_progress(get(self._session, VMI, self._vm, "migration")):
                return f"{step}: {sent}"
        return step

    def _find(
        self, others: Collection[str], seen: VirtualMachineInstanceMigration | None
    ) -> VirtualMachineInstanceMigration | None:
        """The one that was seen before, else the newest that is not among others."""
        found = list_migrations(self._session, self._vm)
        if seen is not None:
            return next((item for item in found if item.metadata.uid == seen.metadata.uid), None)
        found = [item for item in found if item.metadata.uid not in others]
        return max(found, key=lambda item: item.metadata.creation_timestamp or "", default=None)

    def _state(self, uid: str) -> MigrationState | None:
        """What the VMI says of this migration, if it is its latest one."""
        try:
            vmi = self._session.client.get(VirtualMachineInstance, self._session.namespace, self._vm)
        except (NotFound, Unavailable):
            return None
        state = vmi.status.migration_state
        return state if state is not None and state.migration_uid == uid else None

    def _why(self, ended: VirtualMachineInstanceMigration, state: MigrationState | None) -> str:
        told = ended.status.migration_state or state
        if told is not None and told.failure_reason:
            return told.failure_reason
        if not ended.is_final:
            return "it was cancelled"
        return self._newest_warning(ended).removeprefix(": ") or "the migration says no reason"

    def _newest_warning(self, migration: VirtualMachineInstanceMigration | None) -> str:
        """The newest warning about it, behind a colon; empty without one."""
        if migration is None:
            return ""
        selector = f"type=Warning,involvedObject.name={migration.metadata.name}"
        # Without the right to read events there are no warnings; the caller tells the rest.
        with contextlib.suppress(KubeError):
            events = self._session.client.list(Event, self._session.namespace, field_selector=selector)
            ours = [event for event in events if event.involved_object.uid == migration.metadata.uid]
            newest = max(ours, key=lambda event: event.last_timestamp or "", default=None)
            return f": {newest.message}" if newest is not None else ""
        return ""


def _has_moved(ended: VirtualMachineInstanceMigration, state: MigrationState | None) -> bool:
    """By its own word; of a migration that is gone, by the VMI's."""
    if ended.is_final:
        return ended.status.phase == "Succeeded"
    return state is not None and state.completed and not state.failed


def _way(state: MigrationState | None) -> str:
    if state is None:
        return ""
    way = f" from {state.source_node} to {state.target_node}"
    # Both nodes' clocks have a part in it: it may even be negative.
    with contextlib.suppress(ValueError, TypeError):
        if state.start_timestamp and state.end_timestamp:
            took = parse_rfc3339(state.end_timestamp) - parse_rfc3339(state.start_timestamp)
            return f"{way} in {max(0.0, took.total_seconds()):.0f} s"
    return way
