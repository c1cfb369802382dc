"""The ClusterRoles and bindings that every cluster has: cluster-admin, admin, edit, view, and what they gather.

Written by the server at each start when they are missing, and kept current while their autoupdate annotation says so.
Pure. The rules are Kubernetes' for the kinds that are served here.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import EVERYTHING, RBAC_GROUP, PolicyRule
from kvedge.resources.manifests.user_roles_manifest import AUTO_UPDATE, binding, role, user_roles
from kvedge.resources.role_users import MASTERS
from kvedge.resources.types.protection.volume_snapshots import VOLUME_SNAPSHOT_GROUP

_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")

_VIEW: Final = (
    PolicyRule(
        _READ,
        ("",),
        (
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "serviceaccounts",
            "services",
            "services/status",
        ),
    ),
    PolicyRule(
        _READ,
        ("",),
        (
            "bindings",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "resourcequotas",
            "resourcequotas/status",
        ),
    ),
    PolicyRule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
    PolicyRule(_READ, ("apps",), ("controllerrevisions",)),
    PolicyRule(_READ, ("policy",), ("poddisruptionbudgets", "poddisruptionbudgets/status")),
    PolicyRule(_READ, ("networking.k8s.io",), ("networkpolicies",)),
    # A cluster's distribution gives them; a user who may have claims may keep them as well.
    PolicyRule(_READ, (VOLUME_SNAPSHOT_GROUP,), ("volumesnapshots", "volumesnapshots/status")),
    # As metrics-server has it, and k3s with it: Nodes are for those who have the role everywhere.
    PolicyRule(_READ, ("metrics.k8s.io",), ("pods", "nodes")),
)
_EDIT: Final = (
    PolicyRule(_READ, ("",), ("secrets",)),
    PolicyRule(("impersonate",), ("",), ("serviceaccounts",)),
    PolicyRule(_WRITE, ("",), ("pods",)),
    PolicyRule(("create",), ("",), ("pods/eviction", "serviceaccounts/token")),
    PolicyRule(("get", "create"), ("",), ("pods/attach", "pods/exec", "pods/portforward")),
    PolicyRule(
        _WRITE, ("",), ("configmaps", "events", "persistentvolumeclaims", "secrets", "serviceaccounts", "services")
    ),
    PolicyRule(_WRITE, (VOLUME_SNAPSHOT_GROUP,), ("volumesnapshots",)),
    PolicyRule(_WRITE, ("policy",), ("poddisruptionbudgets",)),
    PolicyRule(_WRITE, ("networking.k8s.io",), ("networkpolicies",)),
    PolicyRule((*_READ, *_WRITE), ("coordination.k8s.io",), ("leases",)),
)
_ADMIN: Final = (
    PolicyRule(("create",), ("authorization.k8s.io",), ("localsubjectaccessreviews",)),
    PolicyRule((*_READ, *_WRITE), (RBAC_GROUP,), ("roles", "rolebindings")),
)


def cluster_roles() -> list[JsonObject]:
    """All of them, KubeVirt's included."""
    return [
        role("cluster-admin", EVERYTHING, labels=_LABELS),
        binding("cluster-admin", "Group", MASTERS, labels=_LABELS),
        _make_gathering_role("admin", "admin"),
        _make_gathering_role("edit", "edit", "admin"),
        _make_gathering_role("view", "view", "edit"),
        role("system:aggregate-to-admin", _ADMIN, labels={**_LABELS, **_label("admin")}),
        role("system:aggregate-to-edit", _EDIT, labels={**_LABELS, **_label("edit")}),
        role("system:aggregate-to-view", _VIEW, labels={**_LABELS, **_label("view")}),
        *user_roles(),
    ]


def current(live: JsonObject, wanted: JsonObject) -> JsonObject:
    """What a role or binding should be that is there already: nothing is taken from it, what it lacks is added.

    Left alone where its annotation says so, and a gathering role's rules are the aggregation's.
    """
    if (live["metadata"].get("annotations") or {}).get(AUTO_UPDATE) != "true":
        return live
    for field in ("rules", "subjects"):
        if field in wanted and "aggregationRule" not in wanted:
            have = live.get(field) or []
            live[field] = [*have, *(item for item in wanted[field] if item not in have)]
    if "aggregationRule" in wanted:
        live["aggregationRule"] = wanted["aggregationRule"]
    labels = live["metadata"].get("labels") or {}
    live["metadata"]["labels"] = {**wanted["metadata"]["labels"], **labels}
    return live


def _label(into: str) -> dict[str, str]:
    return {f"{RBAC_GROUP}/aggregate-to-{into}": "true"}


def _make_gathering_role(name: str, own: str, also_into: str = "") -> JsonObject:
    labels = {**_LABELS, **(_label(also_into) if also_into else {})}
    document = role(name, (), labels=labels)
    return {**document, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": _label(own)}]}}
