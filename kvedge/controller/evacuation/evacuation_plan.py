"""Which guests of a node get a migration now, as they are to leave it.

Called by the loop of evacuations. Pure: the node, the VMIs on it with their migrations and Pods, and the time go in.
All migrations are made at once; how many of them run at a time is for the queue of migrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kvedge.controller.guest_moves import Guest, Wait, find_wait
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


@dataclass(frozen=True, slots=True)
class Rules:
    """What the KubeVirt object says: the key of the drain taint, and the strategy of VMIs that have none."""

    taint_key: str
    strategy: str


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
    leaving = [guest for guest in guests if is_leaving(guest.vmi, node, rules) and guest.is_free]
    waiting = {
        guest.vmi.metadata.uid: wait
        for guest in leaving
        if (wait := find_wait(guest, EVACUATION_MIGRATION, now)) is not None
    }
    move = tuple(guest.vmi for guest in leaving if guest.vmi.metadata.uid not in waiting)
    return EvacuationPlan(move, tuple(waiting.values()))


def is_leaving(vmi: VirtualMachineInstance, node: Node, rules: Rules) -> bool:
    """Whether its guest is to move away from the node, and can.

    A VMI that cannot move, and one that another controller moves, gets no migration: who evicts it hears why.
    """
    if vmi.is_final or vmi.metadata.deletion_timestamp is not None:
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
