"""The kinds of live migration: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.manifests.custom_kind import CustomKind, column
from kvedge.resources.types.migrations import (
    MigrationPolicy,
    MigrationPolicySpec,
    MigrationPolicyStatus,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
    VirtualMachineInstanceMigrationStatus,
)

MIGRATION_KINDS: Final[Sequence[CustomKind]] = (
    CustomKind(
        kind=VirtualMachineInstanceMigration.KIND,
        description="One move of a running VMI to another node. Its guest goes on while it moves; deleting the object "
        "cancels the move.",
        spec=VirtualMachineInstanceMigrationSpec,
        status=VirtualMachineInstanceMigrationStatus,
        short_names=("vmim", "vmims"),
        columns=(
            column("Phase", ".status.phase", text="How far the migration is."),
            column("VMI", ".spec.vmiName", text="The VMI that moves."),
        ),
        has_status_subresource=True,
    ),
    CustomKind(
        kind=MigrationPolicy.KIND,
        description="What migrations of certain VMIs do otherwise than the KubeVirt object says.",
        spec=MigrationPolicySpec,
        status=MigrationPolicyStatus,
        short_names=(),
        columns=(),
        has_status_subresource=True,
        required_spec=("selectors",),
        categories=(),
        deprecated_versions=(),
    ),
)

_NOT_BETWEEN_CLUSTERS: Final = "Not supported by this release: migrations between clusters are refused."
MIGRATION_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "VirtualMachineInstanceMigrationSpec": {
        "vmiName": "The VMI that is to move, in the same namespace.",
        "addedNodeSelector": "Labels that the node must have besides those of the VMI's nodeSelector, which wins where "
        "both name a label.",
        "priority": "Set by kvedge itself: system-critical, user-triggered or system-maintenance.",
        "sendTo": _NOT_BETWEEN_CLUSTERS,
        "receive": _NOT_BETWEEN_CLUSTERS,
    },
    "MigrationEnd": {
        "migrationID": "By what both halves know each other.",
        "connectURL": "Where the other half is reached.",
    },
    "VirtualMachineInstanceMigrationStatus": {
        "phase": "Pending, Scheduling, Scheduled, PreparingTarget, TargetReady, Running, and at last Succeeded or "
        "Failed.",
        "conditions": "What it waits for, and whether it is to be cancelled.",
        "phaseTransitionTimestamps": "When it entered each phase.",
    },
    "MigrationPhaseTransition": {
        "phase": "The phase.",
        "phaseTransitionTimestamp": "When it was entered.",
    },
    "MigrationPolicySpec": {
        "allowAutoConverge": "Slow the guest down when it writes faster than its memory can be sent.",
        "bandwidthPerMigration": "Bytes per second of one migration; 0 for any.",
        "completionTimeoutPerGiB": "Seconds for one GiB of memory and disks that move.",
        "allowPostCopy": "Not supported by this release: refused when it is true.",
        "allowWorkloadDisruption": "A guest that writes faster than its memory can be sent is stopped when its time is "
        "over, and moves while it stands still.",
        "maxDowntimeMs": "How long the guest may stand still at the end, in milliseconds: 1 to 2000000.",
        "experimental": "Not supported: refused when it is given.",
    },
    "PolicySelectors": {
        "namespaceSelector": "Labels of the VMIs' namespace.",
        "virtualMachineInstanceSelector": "Labels of the VMIs themselves.",
    },
    "MigrationState": {
        "migrationUid": "The UID of the migration.",
        "sourceNode": "The node that the guest leaves.",
        "targetNode": "The node that it moves to.",
        "sourcePod": "The name of its launcher Pod on the source node.",
        "targetPod": "The name of its launcher Pod on the target node.",
        "sourcePersistentStatePVCName": "The claim with the state of TPM and firmware that the guest leaves, where the"
        " target has another one.",
        "targetPersistentStatePVCName": "The claim that this state is brought to; the VM's from targetTakenTimestamp"
        " on.",
        "targetAttachmentPodUID": "The UID of the first of targetAttachmentPods, by name.",
        "targetAttachmentPods": "By hotplugged volume, the UID of the Pod that holds its claim on the target node.",
        "migrationPolicyName": "The MigrationPolicy that was found for it.",
        "abortRequested": "Whether it is to be cancelled.",
        "abortStatus": "What came of that: Aborting, Succeeded or Failed.",
        "targetNodeAddress": "The address and port at which the target node takes the guest.",
        "targetNodeDomainDetected": "Whether the guest has been seen on the target node.",
        "targetNodeDomainReadyTimestamp": "When it went on there.",
        "startTimestamp": "When its memory began to move.",
        "endTimestamp": "When the migration ended.",
        "mode": "How its memory moves: PreCopy.",
        "completed": "Whether it has ended, well or not.",
        "failed": "Whether it has failed.",
        "failureReason": "Why it has failed, in words.",
        "sourceNodeDomainGoneTimestamp": "When the source node had nothing of the guest left.",
        "sourcePodGoneTimestamp": "When the source's Pod was known to run nothing any more.",
        "targetTakenTimestamp": "Between two boxes: when the guest became the target's, before it went on there.",
        "sourceState": "On the box that a guest comes to: what the other one has said.",
        "targetState": "On the box that a guest leaves: what the other one has said.",
    },
    "PeerState": {
        "node": "The other box's node.",
        "virtualMachineInstanceUID": "The UID of its VMI there.",
        "syncAddress": "Where the target is reached.",
        "disks": "The bytes of the disks that are copied, by volume.",
        "images": "The bytes of files that are made as the source has them, by volume.",
        "paused": "Whether a user has paused the guest at the source.",
        "unwanted": "Whether somebody at the target wants the guest to stay.",
        "failed": "Whether the guest does not come to the target.",
        "reason": "Why it does not, in words.",
        "over": "Whether nothing is left to say.",
    },
}
