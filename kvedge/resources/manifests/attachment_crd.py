"""The CustomResourceDefinition of NetworkAttachmentDefinitions, for one box.

Called by the embedded API when it starts; a cluster has Multus's own. The names are those of the CNI working group's
de-facto standard, so that a manifest means the same in both places. Pure.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.attachments import NetworkAttachmentDefinition

_CONFIG = "The network as a CNI configuration, a JSON text: its type, its bridge on the host, its VLAN."


def attachment_crd() -> JsonObject:
    """The document, as apiextensions.k8s.io/v1 has it."""
    kind = NetworkAttachmentDefinition.KIND
    schema: JsonObject = {
        "type": "object",
        "description": "A network that VMs and Pods may join besides the Pod network.",
        "properties": {
            "apiVersion": {"type": "string", "description": "The group and version of this document."},
            "kind": {"type": "string", "description": f"{kind.kind}."},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "description": "What the network is.",
                "properties": {"config": {"type": "string", "description": _CONFIG}},
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified_plural},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": "network-attachment-definition",
                "shortNames": ["net-attach-def"],
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
