"""Which migrations may begin: the limits of the cluster and of each node that guests leave, and who is first.

Called by the migrations' loop. Pure. There is no limit for nodes that guests come to, as in KubeVirt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration

# KubeVirt's numbers. A migration that somebody asked for without a word, as `virtctl migrate` does, is the last.
_RANKS: Final[Mapping[str, int]] = {"system-critical": 100, "user-triggered": 50, "system-maintenance": 20}
_PAUSES: Final[Mapping[str, float]] = {"system-critical": 1.0, "user-triggered": 3.0}
_PAUSE: Final = 5.0
_STARTED: Final = frozenset({"Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running"})
# So many final migrations of a VMI are kept.
KEPT: Final = 5


class Place(Struct, frozen=True):
    """A migration in the queue; `source` is the node that its guest leaves."""

    migration: VirtualMachineInstanceMigration
    source: str

    @property
    def order(self) -> tuple[int, str, str]:
        """By which the first is found: its priority, then its age."""
        meta = self.migration.metadata
        return (-_RANKS.get(self.migration.spec.priority or "", 0), meta.creation_timestamp or "", meta.uid)


def has_begun(migration: VirtualMachineInstanceMigration, target: Pod | None) -> bool:
    """Whether it counts for the limits: it is under way, or has a Pod already."""
    return not migration.is_final and (migration.status.phase in _STARTED or target is not None)


def find_next(waiting: Iterable[Place], begun: Sequence[Place], limits: Migrations) -> list[Place]:
    """Those that may begin now, the first one first."""
    free = limits.parallel_per_cluster - len(begun)
    leaving = Counter(place.source for place in begun)
    chosen: list[Place] = []
    for place in sorted(waiting, key=lambda each: each.order):
        if len(chosen) >= free:
            break
        if leaving[place.source] < limits.parallel_per_node:
            leaving[place.source] += 1
            chosen.append(place)
    return chosen


def pause_seconds(migration: VirtualMachineInstanceMigration) -> float:
    """After how long one that had no turn looks again."""
    return _PAUSES.get(migration.spec.priority or "", _PAUSE)


def newest_first(
    migrations: Iterable[VirtualMachineInstanceMigration],
) -> list[VirtualMachineInstanceMigration]:
    """Migrations by their age."""
    return sorted(
        migrations, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.uid), reverse=True
    )


def is_surplus(migration: VirtualMachineInstanceMigration, others: Iterable[VirtualMachineInstanceMigration]) -> bool:
    """Whether enough newer ones of the VMI have ended that this one need not be kept."""
    over = [each for each in (*others, migration) if each.is_final and each.metadata.deletion_timestamp is None]
    return migration.metadata.uid in {each.metadata.uid for each in newest_first(over)[KEPT:]}
