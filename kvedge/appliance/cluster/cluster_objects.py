"""What an installation puts into a cluster, and takes out of it again.

Called by install and uninstall with an administrator's client. Rights and priority classes go in here; CRDs, webhooks,
APIServices and the policies are the api role's, which writes them anew as long as it runs, and go out here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.registration.admission_manifest import mutating_webhooks, validating_webhooks
from kvedge.api.registration.clone_manifest import clone_webhooks
from kvedge.api.registration.controller_restriction_manifest import controller_restriction
from kvedge.api.registration.node_restriction_manifest import node_restriction
from kvedge.appliance.cluster.leave_plan import plan_node
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.self_review import ask_who
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.cluster_manifest import list_applied_documents
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.core import Node
from kvedge.resources.types.kubevirt import KubeVirt

_MANAGER: Final = "kvedge-install"
_APPLY: Final = "application/apply-patch+yaml"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_PLURALS: Final = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "PriorityClass": "priorityclasses",
}


def apply_documents(client: KubeClient) -> int:
    """Rights and priority classes, as `kubectl apply --server-side` of k3s/rbac and k3s/priority-classes.yaml does.

    Returns how many documents they are.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    documents = list_applied_documents()
    for document in documents:
        query = {"fieldManager": _MANAGER, "force": "true"}
        client.request("PATCH", _path(document), document, query, _APPLY)
    return len(documents)


def remove_registration(client: KubeClient) -> Iterator[str]:
    """Take webhooks, policies and rights out, in this order; yields the path of each that was there.

    The namespace stays, with the KubeVirt object in it, and so do CRDs: with them all VMs would go.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    registered = [mutating_webhooks(b"", ""), validating_webhooks(b"", ""), clone_webhooks(b"", "", serves=False)]
    # The bindings first: without them the policies judge nobody.
    registered += reversed([*node_restriction(), *controller_restriction()])
    applied = [_path(document) for document in reversed(list_applied_documents()) if document["kind"] != "Namespace"]
    for path in [*(document.path for document in registered), *applied]:
        try:
            client.request("DELETE", path)
        except NotFound:
            continue
        yield path


def other_nodes(client: KubeClient, own: str) -> list[str]:
    """The names of other nodes that kvedge is on, whether it runs there or not.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    # The label's value does not matter: a handler that stops writes false, and a host that is down comes back later.
    found = client.request("GET", "/api/v1/nodes", query={"labelSelector": SCHEDULABLE})
    return sorted(name for item in found["items"] if (name := str(item["metadata"]["name"])) != own)


def clear_node(client: KubeClient, name: str) -> bool:
    """Take off a Node what its handler has written; whether there was anything. The handler must not run any more.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    try:
        metadata = client.get(Node, "", name).metadata
        patch = plan_node(metadata.labels, metadata.annotations)
        if patch is not None:
            client.patch(Node, "", name, MergePatch(patch))
    except NotFound:
        return False
    return patch is not None


def control_plane_version(client: KubeClient) -> str:
    """The version of kvedge that leads in this cluster, as its controller has told; empty where none has.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    try:
        versions = [item.status.operator_version.removeprefix("v") for item in client.list(KubeVirt)]
    except NotFound:
        # The cluster does not have the kind yet.
        return ""
    return next((version for version in versions if version), "")


def own_name(client: KubeClient) -> str:
    """The node that this client speaks for; empty when it is no node.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    user = ask_who(client)
    return UserInfo(str(user.get("username", "")), tuple(user.get("groups") or ())).node


def may_report(client: KubeClient) -> bool:
    """Whether this client may write what becomes of VMIs: the rights of kvedge's handlers have been given.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    asked = {"verb": "patch", "group": "kubevirt.io", "resource": "virtualmachineinstances"}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return bool(client.request("POST", _ACCESS, {**body, "spec": {"resourceAttributes": asked}})["status"]["allowed"])


def _path(document: JsonObject) -> str:
    version, metadata = document["apiVersion"], document["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{root}{where}/{_PLURALS[document['kind']]}/{metadata['name']}"
