"""The rights of kvedge's own roles as documents for a cluster: accounts, ClusterRoles, Roles, and who has them.

Called by `packaging/rbac`, which writes k3s/rbac/, and by `kvedge install`. Pure; made from the one table that the
embedded API evaluates itself (`role_rights`). A role is known by its certificate's group or by its service account, and
a handler by its node's own name as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.resources.manifests.role_rights import ROLE_RIGHTS
from kvedge.resources.manifests.user_roles_manifest import role, user_roles
from kvedge.resources.moves.crossing import CREDENTIALS_NAMESPACE
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.node_loss.node_lease import NODES_NAMESPACE
from kvedge.resources.role_users import API_GROUP, CONTROLLER_GROUP, HANDLER_GROUP, NODES_GROUP

_LABELS: Final = {"app.kubernetes.io/managed-by": "kvedge"}
# By the group of the role's certificate: the name of its ClusterRole and of its service account.
_NAMES: Final = {
    CONTROLLER_GROUP: ("kvedge:controller", "kvedge-controller"),
    API_GROUP: ("kvedge:api", "kvedge-api"),
    HANDLER_GROUP: ("kvedge:handler", "kvedge-handler"),
}
# Groups with the same rights. A policy and the API server's own node restriction keep each node to itself.
_OTHER_GROUPS: Final = {HANDLER_GROUP: (NODES_GROUP,)}


def rbac_files() -> Mapping[str, list[JsonObject]]:
    """All documents, by the name of the file in k3s/rbac that holds them."""
    files = {f"{account}.yaml": role_documents(group) for group, (_, account) in _NAMES.items()}
    # A cluster that enforces Pod security everywhere would refuse the handler's Pods.
    labels = {**_LABELS, "pod-security.kubernetes.io/enforce": "privileged"}
    namespaces: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": each}}
        for name, each in ((SYSTEM_NAMESPACE, labels), (NODES_NAMESPACE, _LABELS), (CREDENTIALS_NAMESPACE, _LABELS))
    ]
    # In the order in which kubectl applies a folder: namespaces come first.
    return {"00-namespace.yaml": namespaces, **files, "users.yaml": user_roles()}


def role_documents(group: str) -> list[JsonObject]:
    """What the role whose certificates have this group needs in a cluster."""
    name, account = _NAMES[group]
    rights = ROLE_RIGHTS[group]
    groups = [group, *_OTHER_GROUPS.get(group, ())]
    subjects = [
        *({"kind": "Group", "apiGroup": RBAC_GROUP, "name": name} for name in groups),
        {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE},
    ]
    documents: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": SYSTEM_NAMESPACE, "labels": dict(_LABELS)},
        }
    ]
    for namespace in dict.fromkeys(right.namespace for right in rights):
        rules = tuple(right.rule for right in rights if right.namespace == namespace)
        documents += [role(name, rules, labels=_LABELS, namespace=namespace), _binding(name, namespace, subjects)]
    return documents


def _binding(name: str, namespace: str, subjects: list[JsonObject]) -> JsonObject:
    kind = "Role" if namespace else "ClusterRole"
    metadata: JsonObject = {"name": name, "labels": dict(_LABELS)}
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
        "subjects": [dict(subject) for subject in subjects],
    }
