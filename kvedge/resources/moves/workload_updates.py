"""What roles must know alike of guests that move because of an upgrade, or because their disks do: KubeVirt's words.

Read by the controller and by clients. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.disks.moved_volumes import VOLUMES_CHANGE, moves_in_place
from kvedge.resources.meta import condition
from kvedge.resources.names import LAUNCHER_VERSION, MIGRATION_REQUIRED
from kvedge.resources.types.vmi import VirtualMachineInstance

# What `workloadUpdateMethods` may name.
LIVE_MIGRATE: Final = "LiveMigrate"
EVICT: Final = "Evict"
METHODS: Final = (LIVE_MIGRATE, EVICT)

# On a VMI: its launcher is of another release than the control plane.
OUTDATED_LAUNCHER: Final = "kubevirt.io/outdatedLauncherImage"
# On a migration: the controller has made it for an update. On one that exchanges claims: the VMI, as a label.
UPDATE_MIGRATION: Final = "kubevirt.io/workloadUpdateMigration"
VOLUME_MIGRATION: Final = "kubevirt.io/volume-update-migration"
# On a migration, as a label: its guest comes to a Pod that is on its networks. kvedge's own.
NETWORK_MIGRATION: Final = "kvedge.io/network-update-migration"
# On a migration, as a label: its guest comes to a larger Pod. kvedge's own.
GROWTH_MIGRATION: Final = "kvedge.io/growth-migration"
# On a VMI: its update is to end.
UPDATE_ABORTION: Final = "kubevirt.io/workloadUpdateMigrationAbortion"
# A condition of the KubeVirt object, kvedge's own: whether all launchers are of this release, and why not.
LAUNCHERS_UP_TO_DATE: Final = "LaunchersUpToDate"
# Its reason once updates have stopped by themselves.
UPDATES_FAILED: Final = "UpdatesFailed"


def is_outdated(vmi: VirtualMachineInstance, version: str) -> bool:
    """Whether its launcher is of another release, as its handler has found; one that nobody knows is not."""
    return not vmi.is_final and vmi.metadata.annotations.get(LAUNCHER_VERSION, version) not in ("", version)


def changes_volumes(vmi: VirtualMachineInstance) -> bool:
    """Whether its disks wait for the guest to move; in place they move without it."""
    found = condition(vmi.status.conditions, VOLUMES_CHANGE)
    return found is not None and found.status == "True" and not moves_in_place(vmi)


def needs_other_pod(vmi: VirtualMachineInstance) -> bool:
    """Whether its Pod is not on the networks that the guest is to be on, and joins none of them by itself."""
    found = condition(vmi.status.conditions, MIGRATION_REQUIRED)
    return found is not None and found.status == "True"
