"""What roles must know alike of guests that are to leave their node: marks, and what a VMI wants of an eviction.

Read by the api role, which marks VMIs, and by the controller, which moves them. Pure; KubeVirt's words.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.meta import condition
from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance

# What `evictionStrategy` may be: of a VMI, and of the KubeVirt object for those that say nothing.
NONE: Final = "None"
LIVE_MIGRATE: Final = "LiveMigrate"
LIVE_MIGRATE_IF_POSSIBLE: Final = "LiveMigrateIfPossible"
EXTERNAL: Final = "External"
EVICTION_STRATEGIES: Final = (NONE, LIVE_MIGRATE, LIVE_MIGRATE_IF_POSSIBLE, EXTERNAL)

# On a migration: the node that it empties.
EVACUATION_MIGRATION: Final = "kubevirt.io/evacuationMigration"
# On a VMI: who asked for its eviction.
EVICTION_SOURCE: Final = "kubevirt.io/eviction-source"
DESCHEDULER: Final = "descheduler"
# On a launcher Pod that is not evicted at once: its guest is being moved.
EVICTION_IN_PROGRESS: Final = "descheduler.alpha.kubernetes.io/eviction-in-progress"
# Conditions of a VMI: it is marked; it can move.
EVICTION_REQUESTED: Final = "EvictionRequested"
LIVE_MIGRATABLE: Final = "LiveMigratable"
# It could move if its disks moved along.
STORAGE_LIVE_MIGRATABLE: Final = "StorageLiveMigratable"
# The effect of the taint by which a node is emptied without evictions.
DRAIN_EFFECT: Final = "NoSchedule"


def strategy_of(vmi: VirtualMachineInstance, default: str) -> str:
    """What the VMI wants of an eviction; `default` is the KubeVirt object's."""
    return vmi.spec.eviction_strategy or default


def is_migratable(vmi: VirtualMachineInstance) -> bool:
    """Whether its handler says that its guest can move."""
    found = condition(vmi.status.conditions, LIVE_MIGRATABLE)
    return found is not None and found.status == "True"


def is_marked(vmi: VirtualMachineInstance) -> bool:
    """Whether an eviction has asked for its guest to leave a node."""
    return bool(vmi.status.evacuation_node_name)


def has_drain_taint(node: Node, key: str) -> bool:
    """Whether all guests of the node are to leave it, evicted or not."""
    return any(taint.get("key") == key and taint.get("effect") == DRAIN_EFFECT for taint in node.spec.taints)
