"""Gives kvedge's roles their rights on a real API server, as k3s/rbac does; the embedded one knows them by itself."""

from __future__ import annotations

from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.rbac_manifest import rbac_files

_PLURALS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


def give_roles_their_rights(admin: KubeClient) -> None:
    """Create every document of k3s/rbac."""
    for documents in rbac_files().values():
        for document in documents:
            try:
                admin.request("POST", collection(document), document)
            except AlreadyExists:
                continue


def collection(document: JsonObject) -> str:
    """The path that a document is created at."""
    version = document["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{_PLURALS[document['kind']]}"
