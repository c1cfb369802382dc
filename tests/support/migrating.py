"""VMIs whose guests move, and the Pods that they come to."""

from __future__ import annotations

import copy
from typing import Any, Final

from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MIGRATION_JOB_NAME, MIGRATION_JOB_UID, MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import POD_UID, a_pod, a_vmi

MIGRATION_UID: Final = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
TARGET_UID: Final = "uid-of-the-target-pod"
SOURCE: Final = a_pod(a_vmi()).metadata.name
TARGET: Final = "virt-launcher-web-target"


def a_migrating_vmi(**state: Any) -> VirtualMachineInstance:
    """One that runs on node-1 and is handed over to node-2; `state` has other fields of its migration."""
    vmi = a_vmi("Running")
    vmi.status.active_pods = {POD_UID: "node-1", TARGET_UID: "node-2"}
    vmi.metadata.labels = {MIGRATION_TARGET_NODE: "node-2"}
    given = {
        "migration_uid": MIGRATION_UID,
        "source_node": "node-1",
        "source_pod": SOURCE,
        "target_node": "node-2",
        "target_pod": TARGET,
        **state,
    }
    vmi.status.migration_state = MigrationState(**given)
    return vmi


def a_target_pod(vmi: VirtualMachineInstance, phase: str = "Running", node: str = "node-2") -> Pod:
    """The Pod that a guest comes to."""
    pod = copy.deepcopy(a_pod(vmi, phase, node))
    pod.metadata.name, pod.metadata.uid = TARGET, TARGET_UID
    pod.metadata.labels[MIGRATION_JOB_UID] = MIGRATION_UID
    pod.metadata.annotations[MIGRATION_JOB_NAME] = "move"
    return pod
