"""Guests that the controller moves by itself: whether one is free to move, and when it is tried again after a failure.

Called by the plans of evacuations and of workload updates. Pure. What somebody else asked for counts for neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import seconds_since

# After the first failure; each further one in a row doubles it. Few migrations are kept, which bounds it.
_FIRST_WAIT_SECONDS: Final = 20.0
_MOST_DOUBLINGS: Final = 4


class Guest(Struct, frozen=True):
    """A VMI, its migrations, and how many of its launcher Pods have not ended; `is_ending`: one of them is deleted.

    `exchange` is about a VM that names other claims than its guest uses: they move, or only a restart brings them.
    """

    vmi: VirtualMachineInstance
    migrations: Sequence[VirtualMachineInstanceMigration]
    pods: int
    is_ending: bool = False
    exchange: Literal["", "moves", "refused"] = ""

    @property
    def is_free(self) -> bool:
        """Whether nothing of another migration is under way, or left."""
        state = self.vmi.status.migration_state
        is_open = state is not None and state.is_open
        return not is_open and self.pods <= 1 and all(each.is_final for each in self.migrations)


class Wait(Struct, frozen=True):
    """A guest whose last migrations have failed; `last` is the UID of the latest of them."""

    vmi: VirtualMachineInstance
    last: str
    seconds: float


def find_wait(guest: Guest, mark: str, now: datetime) -> Wait | None:
    """How long a guest waits whose last migrations with the annotation `mark` have failed; None when it need not."""
    failed = list(find_failures_in_a_row(guest.migrations, mark))
    if not failed:
        return None
    passed = seconds_since(find_end(failed[0]), now)
    if passed is None:
        return None
    wanted = _FIRST_WAIT_SECONDS * 2.0 ** min(len(failed) - 1, _MOST_DOUBLINGS)
    # A clock that was put back must not have anybody wait for longer than that.
    left = min(wanted, wanted - passed)
    return Wait(guest.vmi, failed[0].metadata.uid, left) if left > 0 else None


def find_failures_in_a_row(
    migrations: Sequence[VirtualMachineInstanceMigration], mark: str
) -> Iterator[VirtualMachineInstanceMigration]:
    """Those of the controller's that have failed since one has succeeded, the latest first."""
    ours = [each for each in migrations if is_ours(each, mark)]
    for each in sorted(ours, key=lambda each: each.metadata.creation_timestamp or "", reverse=True):
        if each.status.phase == "Succeeded":
            return
        if each.status.phase == "Failed" and each.metadata.deletion_timestamp is None:
            yield each


def is_ours(migration: VirtualMachineInstanceMigration, mark: str) -> bool:
    """Whether the controller has made it: admission lets it alone set a priority, anybody may write the annotation."""
    return mark in migration.metadata.annotations and migration.spec.priority is not None


def find_end(migration: VirtualMachineInstanceMigration) -> str | None:
    """When a migration that has ended did."""
    entries = migration.status.phase_transition_timestamps
    known = [entry.phase_transition_timestamp for entry in entries if entry.phase == migration.status.phase]
    return known[-1] if known else migration.metadata.creation_timestamp
