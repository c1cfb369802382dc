"""Which guests of a node get a migration now, as they are to leave it.

Called by the loop of evacuations. Pure: the node, the VMIs on it with their migrations and Pods, and the time go in.
All migrations are made at once; how many of them run at a time is for the queue of migrations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kvedge.resources.evacuation import (
    DESCHEDULER,
    EVACUATION_MIGRATION,
    EVICTION_SOURCE,
    LIVE_MIGRATE,
    LIVE_MIGRATE_IF_POSSIBLE,
    has_drain_taint,
    is_marked,
    is_migratable,
    strategy_of,
)
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from kvedge.resources.types.migrations import (
    MigrationPriority,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import seconds_since

# After the first failure; each further one in a row doubles it. Few migrations are kept, which bounds it.
_FIRST_WAIT_SECONDS: Final = 20.0
_MOST_DOUBLINGS: Final = 4


@dataclass(frozen=True, slots=True)
class Guest:
    """A VMI on the node, its migrations, and how many of its launcher Pods have not ended."""

    vmi: VirtualMachineInstance
    migrations: Sequence[VirtualMachineInstanceMigration]
    pods: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What the KubeVirt object says: the key of the drain taint, and the strategy of VMIs that have none."""

    taint_key: str
    strategy: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A guest whose last migrations have failed; `last` is the UID of the latest of them."""

    vmi: VirtualMachineInstance
    last: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EvacuationPlan:
    """Guests that get a migration now, and those that wait for another try."""

    move: tuple[VirtualMachineInstance, ...] = ()
    wait: tuple[Wait, ...] = ()

    @property
    def again_after(self) -> float | None:
        """In how many seconds to look again when nothing changes."""
        return min((each.seconds for each in self.wait), default=None)


def plan_evacuation(node: Node, guests: Sequence[Guest], rules: Rules, now: datetime) -> EvacuationPlan:
    """Decide who leaves now."""
    leaving = [guest for guest in guests if is_leaving(guest.vmi, node, rules) and _is_free(guest)]
    waiting = {guest.vmi.metadata.uid: wait for guest in leaving if (wait := _find_wait(guest, now)) is not None}
    move = tuple(guest.vmi for guest in leaving if guest.vmi.metadata.uid not in waiting)
    return EvacuationPlan(move, tuple(waiting.values()))


def is_leaving(vmi: VirtualMachineInstance, node: Node, rules: Rules) -> bool:
    """Whether its guest is to move away from the node, and can.

    A VMI that cannot move, and one that another controller moves, gets no migration: who evicts it hears why.
    """
    state = vmi.status.migration_state
    if vmi.is_final or vmi.metadata.deletion_timestamp is not None or (state is not None and state.is_open):
        return False
    if strategy_of(vmi, rules.strategy) not in (LIVE_MIGRATE, LIVE_MIGRATE_IF_POSSIBLE) or not is_migratable(vmi):
        return False
    # A mark for a node that the guest has left already is over.
    asked = is_marked(vmi) and vmi.status.evacuation_node_name == node.metadata.name
    return asked or has_drain_taint(node, rules.taint_key)


def make_migration(vmi: VirtualMachineInstance, node: str) -> VirtualMachineInstanceMigration:
    """The migration that takes a guest away from a node."""
    priority: MigrationPriority = "system-critical"
    if is_marked(vmi) and vmi.metadata.annotations.get(EVICTION_SOURCE) == DESCHEDULER:
        priority = "system-maintenance"
    return VirtualMachineInstanceMigration(
        metadata=ObjectMeta(
            generate_name="kubevirt-evacuation-",
            namespace=vmi.metadata.namespace,
            annotations={EVACUATION_MIGRATION: node},
        ),
        spec=VirtualMachineInstanceMigrationSpec(vmi_name=vmi.metadata.name, priority=priority),
    )


def _is_free(guest: Guest) -> bool:
    """Whether nothing of another migration is under way, or left."""
    return guest.pods <= 1 and all(each.is_final for each in guest.migrations)


def _find_wait(guest: Guest, now: datetime) -> Wait | None:
    """How long a guest waits whose last evacuations have failed; None when it need not."""
    failed = list(_find_failures_in_a_row(guest.migrations))
    if not failed:
        return None
    passed = seconds_since(_find_moment_of_failure(failed[0]), now)
    if passed is None:
        return None
    wanted = _FIRST_WAIT_SECONDS * 2.0 ** min(len(failed) - 1, _MOST_DOUBLINGS)
    # A clock that was put back must not have anybody wait for longer than that.
    left = min(wanted, wanted - passed)
    return Wait(guest.vmi, failed[0].metadata.uid, left) if left > 0 else None


def _find_failures_in_a_row(
    migrations: Sequence[VirtualMachineInstanceMigration],
) -> Iterator[VirtualMachineInstanceMigration]:
    """The evacuations that have failed since one has succeeded, the latest first."""
    ours = [each for each in migrations if _is_ours(each)]
    for each in sorted(ours, key=lambda each: each.metadata.creation_timestamp or "", reverse=True):
        if each.status.phase == "Succeeded":
            return
        if each.status.phase == "Failed" and each.metadata.deletion_timestamp is None:
            yield each


def _is_ours(migration: VirtualMachineInstanceMigration) -> bool:
    """Whether the controller has made it: admission lets it alone set a priority, anybody may write the annotation."""
    return EVACUATION_MIGRATION in migration.metadata.annotations and migration.spec.priority is not None


def _find_moment_of_failure(migration: VirtualMachineInstanceMigration) -> str | None:
    entries = migration.status.phase_transition_timestamps
    known = [entry.phase_transition_timestamp for entry in entries if entry.phase == "Failed"]
    return known[-1] if known else migration.metadata.creation_timestamp
