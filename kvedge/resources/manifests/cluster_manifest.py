"""What a cluster gets for kvedge besides kinds and registration: rights, priority classes, and the KubeVirt object.

Called by `packaging/cluster`, which writes k3s/*.yaml, and by installing, which applies them and leaves them where k3s
looks for manifests. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.rbac_manifest import rbac_files
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.kubevirt import DEFAULT_NAME, KubeVirt

# KubeVirt's name and value: for the roles' Pods, and for VMs that must not give way to ordinary ones.
CRITICAL_CLASS: Final = "kubevirt-cluster-critical"
_CRITICAL: Final = 1_000_000_000
_LABELS: Final = {"app.kubernetes.io/managed-by": "kvedge"}


def priority_classes() -> list[JsonObject]:
    """The classes that kvedge brings along."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": CRITICAL_CLASS, "labels": dict(_LABELS)},
            "value": _CRITICAL,
            "globalDefault": False,
            "description": "For kvedge itself, and for virtual machines that ordinary ones must not push aside.",
        }
    ]


def default_kubevirt() -> JsonObject:
    """The object that configures kvedge, with KubeVirt's defaults; the controller makes it too, where there is none."""
    kind = KubeVirt.KIND
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": DEFAULT_NAME, "namespace": SYSTEM_NAMESPACE},
        "spec": {"configuration": {}},
    }


def list_applied_documents() -> list[JsonObject]:
    """What an administrator's client can apply before any role runs: the KubeVirt object needs its kind first."""
    return [*(document for documents in rbac_files().values() for document in documents), *priority_classes()]


def manifest_documents() -> list[JsonObject]:
    """What lies among a distribution's manifests.

    k3s deletes what a later text of the same file does not name any more, and servers of two versions may take turns
    with it: so nothing that ever was in here goes, and the kinds never come in, as with one all of its objects go.
    """
    return [*list_applied_documents(), default_kubevirt()]
