"""The kinds that keep a number of VMs: what kubectl shows of them, and what `kubectl explain` says of their fields.

Called by crd_manifest.py and field_descriptions.py. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.manifests.custom_kind import AGE, CustomKind, column
from kvedge.resources.types.replica_sets import (
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
}
