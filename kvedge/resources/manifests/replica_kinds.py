"""The kinds that keep a number of VMs: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.manifests.custom_kind import AGE, CustomKind, column
from kvedge.resources.types.scaling.pools import VirtualMachinePool, VirtualMachinePoolSpec, VirtualMachinePoolStatus
from kvedge.resources.types.scaling.replica_sets import (
    DEFAULT_REPLICAS,
    VirtualMachineInstanceReplicaSet,
    VirtualMachineInstanceReplicaSetSpec,
    VirtualMachineInstanceReplicaSetStatus,
)

REPLICA_KINDS: Final[Sequence[CustomKind]] = (
    CustomKind(
        kind=VirtualMachineInstanceReplicaSet.KIND,
        description="So many VMIs of one template: one that ends is replaced by another.",
        spec=VirtualMachineInstanceReplicaSetSpec,
        status=VirtualMachineInstanceReplicaSetStatus,
        short_names=("vmirs", "vmirss"),
        columns=(
            column("Desired", ".spec.replicas", type_="integer", text="How many VMIs are wanted."),
            column("Current", ".status.replicas", type_="integer", text="How many VMIs run or are to run."),
            column("Ready", ".status.readyReplicas", type_="integer", text="How many of them are ready."),
            AGE,
        ),
        has_status_subresource=True,
        has_scale=True,
        required_spec=("selector", "template"),
        # An autoscaler needs the number, also where nobody has given one.
        default_spec=(("replicas", DEFAULT_REPLICAS),),
    ),
    CustomKind(
        kind=VirtualMachinePool.KIND,
        description="So many VMs of one template, each with a number in its name: one that is deleted is made anew, "
        "and a change of the template reaches all.",
        spec=VirtualMachinePoolSpec,
        status=VirtualMachinePoolStatus,
        short_names=("vmpool", "vmpools"),
        columns=(
            column("Desired", ".spec.replicas", type_="integer", text="How many VMs are wanted."),
            column("Current", ".status.replicas", type_="integer", text="How many VMs there are."),
            column("Ready", ".status.readyReplicas", type_="integer", text="How many of them are ready."),
            AGE,
        ),
        has_status_subresource=True,
        has_scale=True,
        required_spec=("selector", "virtualMachineTemplate"),
        default_spec=(("replicas", DEFAULT_REPLICAS),),
        deprecated_versions=("v1alpha1",),
        old_version_is_deprecated=False,
    ),
)

_PRESERVATION: Final = (
    "Offline keeps the DataVolumes of a VM that goes for the next one of its number, and so does Online; "
    "Disabled unless given."
)
REPLICA_DESCRIPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "VirtualMachineInstanceReplicaSetSpec": {
        "replicas": "How many VMIs are wanted; 1 unless given.",
        "paused": "While it is true, no VMI is made or deleted.",
    },
    "VirtualMachineInstanceReplicaSetStatus": {
        "replicas": "VMIs that run or are to run.",
        "readyReplicas": "Those of them that are ready.",
        "conditions": "ReplicaPaused, and ReplicaFailure when the server refuses a VMI or its end.",
        "labelSelector": "The selector as a text, which autoscalers read.",
    },
    "VirtualMachinePoolSpec": {
        "replicas": "How many VMs are wanted; 1 unless given.",
        "selector": "The labels by which its VMs are known; it never changes.",
        "paused": "While it is true, no VM is made, changed or deleted.",
        "maxUnavailable": "How many VMs, or what share of them (50%), a change may keep from being ready at a time; "
        "100% unless given.",
    },
    "VirtualMachinePoolStatus": {
        "replicas": "VMs that there are.",
        "readyReplicas": "Those of them that are ready.",
        "conditions": "ReplicaPaused, and ReplicaFailure when the server refuses a VM, its change or its end.",
        "labelSelector": "The selector as a text, which autoscalers read.",
    },
    "PoolNameGeneration": {
        "appendIndexToConfigMapRefs": "Whether ConfigMaps of volumes are called config-0, config-1 and so on.",
        "appendIndexToSecretRefs": "Whether Secrets of volumes and of cloud-init are.",
    },
    "PoolSelectors": {
        "nodeSelectorRequirementMatcher": "Conditions that the nodeSelector of a VM's template must meet, all of them.",
    },
    "PoolSelectionPolicy": {
        "sortPolicy": "Random, AscendingOrder or DescendingOrder (by the number), Newest or Oldest.",
    },
    "PoolOpportunisticScaleIn": {"statePreservation": _PRESERVATION},
    "PoolProactiveScaleIn": {"statePreservation": _PRESERVATION},
    "PoolAutohealing": {
        "startUpFailureThreshold": "How many starts in a row may fail; 3 unless given.",
        "minFailingToStartDuration": "How long a VM may stand in another failure to start; 5m unless given.",
    },
}
