"""VMIs whose guests move, the Pods that they come to, and migrations."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any, Final

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    MIGRATION_FINALIZER,
    MIGRATION_JOB_NAME,
    MIGRATION_JOB_UID,
    MigrationPhase,
    MigrationPhaseTransition,
    MigrationState,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, POD_UID, a_pod, a_vmi

MIGRATION_UID: Final = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
TARGET_UID: Final = "uid-of-the-target-pod"
SOURCE: Final = a_pod(a_vmi()).metadata.name
TARGET: Final = "virt-launcher-web-target"


def a_migrating_vmi(**state: Any) -> VirtualMachineInstance:
    """One that runs on node-1 and begins to move to node-2; `state` has other fields of its migration.

    A guest whose migration has completed, and has not failed, is on its target's node.
    """
    vmi = a_vmi("Running")
    vmi.status.active_pods = {POD_UID: "node-1", TARGET_UID: "node-2"}
    vmi.metadata.labels = {MIGRATION_TARGET_NODE: "node-2"}
    given = {
        "migration_uid": MIGRATION_UID,
        "source_node": "node-1",
        "source_pod": SOURCE,
        "target_node": "node-2",
        "target_pod": TARGET,
        "start_timestamp": rfc3339(NOW),
        **state,
    }
    moved = vmi.status.migration_state = MigrationState(**given)
    if moved.completed and not moved.failed:
        vmi.status.node_name = moved.target_node
    return vmi


def a_target_pod(vmi: VirtualMachineInstance, phase: str = "Running", node: str = "node-2") -> Pod:
    """The Pod that a guest comes to."""
    pod = copy.deepcopy(a_pod(vmi, phase, node))
    pod.metadata.name, pod.metadata.uid = TARGET, TARGET_UID
    pod.metadata.labels[MIGRATION_JOB_UID] = MIGRATION_UID
    pod.metadata.annotations[MIGRATION_JOB_NAME] = "move"
    return pod


def a_migration(
    phase: MigrationPhase = "Pending",
    *,
    name: str = "move",
    age: int = 0,
    deleting: bool = False,
    priority: Any = None,
    annotations: dict[str, str] | None = None,
) -> VirtualMachineInstanceMigration:
    """A migration of the VMI `web` that came to `phase` at once; `age` is in seconds."""
    uid = MIGRATION_UID if name == "move" else f"uid-of-{name}"
    moment = rfc3339(NOW - timedelta(seconds=age))
    entry = MigrationPhaseTransition(phase=phase, phase_transition_timestamp=moment)
    return VirtualMachineInstanceMigration(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=uid,
            resource_version="40",
            creation_timestamp=moment,
            deletion_timestamp=rfc3339(NOW) if deleting else None,
            finalizers=[MIGRATION_FINALIZER],
            annotations=annotations or {},
        ),
        spec=VirtualMachineInstanceMigrationSpec(vmi_name="web", priority=priority),
        status=VirtualMachineInstanceMigrationStatus(phase=phase, phase_transition_timestamps=[entry] if phase else []),
    )
