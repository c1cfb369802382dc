"""What the controller sees when it brings guests up to date: the words that the plan, its report and its loop share.

Made by `workload_loop`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kvedge.controller.guest_moves import Guest, Wait
from kvedge.resources.configuration.configuration import WorkloadUpdates
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance


class Rules(Struct, frozen=True):
    """What holds now: the KubeVirt object's words, this release, and the versions of all nodes' handlers."""

    updates: WorkloadUpdates
    # Migrations in the cluster at a time.
    places: int
    version: str
    versions: Mapping[str, str]
    # Whether the KubeVirt object is Deployed.
    is_deployed: bool = True
    # How many nodes have handlers.
    nodes: int = 2

    @property
    def other_nodes(self) -> list[str]:
        """Nodes whose handlers are of another version, or tell none."""
        return sorted(node for node, version in self.versions.items() if version != self.version)


class Evictions(Struct, frozen=True):
    """What was evicted: in how many seconds the next batch may go, and when each VMI was tried last, by its UID."""

    next_batch: float = 0.0
    tried: Mapping[str, float] = field(default_factory=dict)


class Pause(Struct, frozen=True):
    """Migrations of so many VMIs in a row have failed; one is tried again in `seconds`, at the moment `until`."""

    vmis: int
    last: VirtualMachineInstanceMigration
    seconds: float
    until: str


class Abort(Struct, frozen=True):
    """A migration whose change was withdrawn."""

    vmi: VirtualMachineInstance
    migration: VirtualMachineInstanceMigration


class Outdated(Struct, frozen=True):
    """The guests in launchers of another release, by what can be done about each."""

    # Free, and can move.
    ready: tuple[Guest, ...] = ()
    # A migration is open, or something of an earlier one is left.
    moving: tuple[Guest, ...] = ()
    waiting: tuple[Wait, ...] = ()
    # Cannot move, or not by the methods that are allowed.
    stuck: tuple[Guest, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ready) + len(self.moving) + len(self.waiting) + len(self.stuck)


class UpdatePlan(Struct, frozen=True):
    """What to do now; `again_after` is in how many seconds to look again when nothing changes."""

    move: tuple[VirtualMachineInstance, ...] = ()
    exchange: tuple[VirtualMachineInstance, ...] = ()
    join: tuple[VirtualMachineInstance, ...] = ()
    evict: tuple[VirtualMachineInstance, ...] = ()
    abort: tuple[Abort, ...] = ()
    wait: tuple[Wait, ...] = ()
    mark: tuple[VirtualMachineInstance, ...] = ()
    unmark: tuple[VirtualMachineInstance, ...] = ()
    outdated: Outdated = Outdated()
    pause: Pause | None = None
    again_after: float | None = None
