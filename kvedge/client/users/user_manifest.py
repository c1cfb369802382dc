"""The documents behind `kvedge user create`: the request for a certificate, the bindings, the kubeconfig.

Called by user_verbs and user_credentials. Pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from kvedge.client.errors import UsageError
from kvedge.kube.kubeconfigs.kubeconfig_reader import CLUSTERS, CONTEXTS, values_of
from kvedge.kube.kubeconfigs.own_kubeconfig import OwnKubeconfig, own_kubeconfig_manifest
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.resources.role_users import (
    API_GROUP,
    API_USER,
    CONTROLLER_GROUP,
    CONTROLLER_USER,
    HANDLER_GROUP,
    handler_user,
)

CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
USER_LABEL: Final = "kvedge.io/user"
# Names that begin so mean something else.
RESERVED: Final = ("system:", "kvedge:")
_LONGEST_COMMON_NAME: Final = 64
_RBAC: Final = f"/apis/{RBAC_GROUP}/v1"
_NODE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9._-]+")


class NewUser(Struct, frozen=True):
    """A user to make: `roles` are ClusterRoles that count in `namespace`, or everywhere when it is empty."""

    name: str
    groups: Sequence[str] = ()
    roles: Sequence[str] = ()
    namespace: str = ""
    days: int = 365


def role_user(role: str, node: str, days: int) -> NewUser:
    """One of kvedge's own roles; its rights are those that k3s/rbac gives to its group.

    Raises:
        UsageError: a handler without its node, or another role with one.
    """
    if (role == "handler") != bool(node):
        raise UsageError("--node goes with the handler, which speaks for one node, and with no other role")
    if node and not _NODE.fullmatch(node):
        raise UsageError(f"--node {node}: is not a name of a node")
    name, group = {
        "controller": (CONTROLLER_USER, CONTROLLER_GROUP),
        "api": (API_USER, API_GROUP),
        "handler": (handler_user(node), HANDLER_GROUP),
    }[role]
    if len(name) > _LONGEST_COMMON_NAME:
        raise UsageError(f"--node {node}: is too long for a certificate's name")
    return NewUser(name, (group,), days=days)


def check_user(user: NewUser) -> NewUser:
    """The user, when it is one that may be made.

    Raises:
        UsageError: for names that Kubernetes or kvedge give a meaning to, or that no certificate can carry.
    """
    for what, name in (("user", user.name), *(("--group", group) for group in user.groups)):
        if not name or name != name.strip() or not name.isprintable():
            raise UsageError(f"{what} {name!r}: must be a name without blanks around it")
        if name.startswith(RESERVED):
            raise UsageError(f"{what} {name}: names that begin with {' or '.join(RESERVED)} are taken")
        if len(name) > _LONGEST_COMMON_NAME:
            raise UsageError(f"{what} {name}: may have {_LONGEST_COMMON_NAME} characters at most")
    if set(user.name) & set("/%") or user.name in (".", ".."):
        raise UsageError(f"user {user.name}: may have no '/' or '%', as its bindings are named after it")
    return user


def request_manifest(user: NewUser, request_pem: bytes) -> JsonObject:
    """The CertificateSigningRequest."""
    slug = re.sub(r"[^a-z0-9]+", "-", user.name.lower()).strip("-")
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": f"kvedge-user-{slug}-" if slug else "kvedge-user-"},
        "spec": {
            "request": base64.b64encode(request_pem).decode(),
            "signerName": CLIENT_SIGNER,
            "expirationSeconds": user.days * 24 * 3600,
            "usages": ["client auth"],
        },
    }


def approval_patch() -> JsonObject:
    """What approves the request."""
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "KvedgeUserCreate",
        "message": "approved by the administrator who made it with `kvedge user create`",
    }
    return {"status": {"conditions": [condition]}}


def role_path(role: str) -> str:
    """Where a ClusterRole is."""
    return f"{_RBAC}/clusterroles/{role}"


def binding_manifest(user: NewUser, role: str) -> tuple[str, JsonObject]:
    """The collection of a binding, and the binding."""
    kind = "RoleBinding" if user.namespace else "ClusterRoleBinding"
    metadata: JsonObject = {
        "name": f"{user.name}:{role}",
        "labels": {USER_LABEL: _NOT_IN_LABELS.sub("-", user.name).strip("._-")[:63].rstrip("._-")},
    }
    if user.namespace:
        metadata["namespace"] = user.namespace
    where = f"/namespaces/{user.namespace}/rolebindings" if user.namespace else "/clusterrolebindings"
    return f"{_RBAC}{where}", {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC_GROUP, "name": user.name}],
    }


# Where bindings of users are found, whatever namespace they count in.
BINDINGS: Final = (f"{_RBAC}/clusterrolebindings", f"{_RBAC}/rolebindings")


class Given(Struct, frozen=True):
    """One role that a user was given; `path` is its binding's, `namespace` empty for everywhere."""

    user: str
    role: str
    namespace: str
    path: str


def list_given_roles(bindings: Sequence[JsonObject]) -> list[Given]:
    """The roles in bindings that `user create` has made, by user."""
    found = []
    for binding in bindings:
        metadata, subjects = binding["metadata"], binding.get("subjects") or []
        users = [subject["name"] for subject in subjects if subject.get("kind") == "User"]
        if USER_LABEL not in (metadata.get("labels") or {}) or len(users) != 1:
            continue
        namespace = metadata.get("namespace") or ""
        where = f"/namespaces/{namespace}/rolebindings" if namespace else "/clusterrolebindings"
        path = f"{_RBAC}{where}/{quote(metadata['name'])}"
        found.append(Given(users[0], binding["roleRef"]["name"], namespace, path))
    return sorted(found, key=lambda given: (given.user, given.namespace, given.role))


def cluster_of(document: dict[str, Any], context: str) -> JsonObject:
    """The cluster that a kubeconfig's context leads to, as it stands there.

    Raises:
        UsageError: when the kubeconfig does not hold together.
    """
    found = values_of(document, CLUSTERS, (values_of(document, CONTEXTS, context) or {}).get("cluster"))
    if found is None:
        raise UsageError(f'the context "{context}" names no cluster of the kubeconfig')
    return dict(found)


def at_server(cluster: JsonObject, server: str) -> JsonObject:
    """The same at another address, as others reach it; unchanged when that is empty.

    Raises:
        UsageError: for what is no address of an API server.
    """
    if not server:
        return cluster
    if not server.startswith("https://"):
        raise UsageError(f"--server {server}: must be like https://192.0.2.1:6443")
    return {**cluster, "server": server}


def kubeconfig_manifest(user: NewUser, cluster: JsonObject, certificate: bytes, key: bytes) -> JsonObject:
    """The user's kubeconfig."""
    return own_kubeconfig_manifest(OwnKubeconfig(user.name, certificate, key, cluster, user.namespace or "default"))
