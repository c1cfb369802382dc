"""CustomResourceDefinitions of kinds that are CRDs in a cluster and built in here: tools look for them by these.

Written by the server when it starts. The rows of the kinds have the rules, the columns and what `kubectl explain` says;
objects are served also while there is no such CRD. Pure.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind


def describe_own_kind(kind: ServedKind, about: str) -> JsonObject:
    """The document, as apiextensions.k8s.io/v1 has it."""
    schema = {"type": "object", "description": about, "x-kubernetes-preserve-unknown-fields": True}
    version: JsonObject = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if kind.has_status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # The group is one of Kubernetes' own, for which it asks who has approved it.
        "metadata": {
            "name": kind.qualified,
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
            },
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": kind.list_name,
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
            },
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    }
