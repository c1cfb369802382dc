"""NetworkAttachmentDefinitions (k8s.cni.cncf.io/v1): networks that Pods join besides their own.

In a cluster the kind is Multus's; on one box the embedded API has it, and the node agent plays Multus. Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta


class NetworkAttachmentDefinitionSpec(KubeStruct, kw_only=True):
    """What the network is: a CNI configuration, as JSON text."""

    config: str = ""


class NetworkAttachmentDefinition(KubeStruct, kw_only=True):
    """k8s.cni.cncf.io/v1 NetworkAttachmentDefinition."""

    KIND: ClassVar[Kind] = Kind(
        "k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NetworkAttachmentDefinitionSpec = field(default_factory=NetworkAttachmentDefinitionSpec)
