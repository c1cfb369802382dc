"""Which guests of a node get a migration now, as they are to leave it.

Called by the loop of evacuations. Pure: the node, the VMIs on it with their migrations and Pods, and the time go in.
All migrations are made at once; how many of them run at a time is for the queue of migrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

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
from kvedge.resources.moves.disk_moves import leaves_with_disks
from kvedge.resources.moves.workload_updates import changes_volumes
from kvedge.resources.types.core import Node
from kvedge.resources.types.migrations import (
    MigrationPriority,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.vmi import VirtualMachineInstance

# How often guests are looked at that wait for others to have left, or for a snapshot of their VM.
_LOOK_SECONDS: Final = 10.0


class Rules(Struct, frozen=True):
    """What the KubeVirt object says: the key of the drain taint, the strategy of VMIs that have none, and how many
    guests may leave a node with their disks at a time.
    """

    taint_key: str
    strategy: str
    per_node: int = 2


class EvacuationPlan(Struct, frozen=True):
    """Guests that get a migration now, those that get claims to move to, and those that wait for another try."""

    move: tuple[VirtualMachineInstance, ...] = ()
    wait: tuple[Wait, ...] = ()
    exchange: tuple[VirtualMachineInstance, ...] = ()
    # Whether there are more that leave with their disks than may at a time.
    has_more: bool = False

    @property
    def again_after(self) -> float | None:
        """In how many seconds to look again when nothing changes."""
        moments = [each.seconds for each in self.wait] + ([_LOOK_SECONDS] if self.has_more or self.exchange else [])
        return min(moments, default=None)


def plan_evacuation(node: Node, guests: Sequence[Guest], rules: Rules, now: datetime) -> EvacuationPlan:
    """Decide who leaves now."""
    leaving = [guest for guest in guests if is_leaving(guest.vmi, node, rules) and guest.is_free]
    waiting = {
        guest.vmi.metadata.uid: wait
        for guest in leaving
        if (wait := find_wait(guest, EVACUATION_MIGRATION, now)) is not None
    }
    move = tuple(guest.vmi for guest in leaving if guest.vmi.metadata.uid not in waiting)
    # Each of them has claims that take space twice, and is copied: that is begun for no more than may move.
    free = max(0, rules.per_node - sum(guest.exchange == "moves" for guest in guests))
    along = [guest for guest in guests if _is_leaving_with_disks(guest, node, rules)]
    ready = [guest.vmi for guest in along if not guest.exchange]
    # They are told why they stay.
    refused = [guest.vmi for guest in along if guest.exchange]
    return EvacuationPlan(move, tuple(waiting.values()), (*ready[:free], *refused), len(ready) > free)


def is_leaving(vmi: VirtualMachineInstance, node: Node, rules: Rules) -> bool:
    """Whether its guest is to move away from the node, and can.

    A VMI that cannot move, and one that another controller moves, gets no migration: who evicts it hears why.
    """
    # A guest whose disks get other claims is moved for that already.
    if changes_volumes(vmi) or not is_migratable(vmi):
        return False
    return strategy_of(vmi, rules.strategy) in (LIVE_MIGRATE, LIVE_MIGRATE_IF_POSSIBLE) and _is_asked(vmi, node, rules)


def _is_leaving_with_disks(guest: Guest, node: Node, rules: Rules) -> bool:
    """Whether its disks need claims to move to, which it has not got yet."""
    if guest.exchange == "moves" or not guest.is_free:
        return False
    strategy = strategy_of(guest.vmi, rules.strategy)
    return leaves_with_disks(guest.vmi, strategy) and _is_asked(guest.vmi, node, rules)


def _is_asked(vmi: VirtualMachineInstance, node: Node, rules: Rules) -> bool:
    """Whether somebody wants the guest of a VMI away from the node."""
    if vmi.is_final or vmi.metadata.deletion_timestamp is not None:
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
