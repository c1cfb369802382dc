"""The kinds of rbac.authorization.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing
from kvedge.standalone.apiserver.kinds.rules import core_rules, rbac_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _set_binding_defaults(obj: JsonObject) -> None:
    if isinstance(obj.get("roleRef"), dict):
        set_missing(obj["roleRef"], apiGroup=RBAC_GROUP)
    for subject in obj.get("subjects") or []:
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            set_missing(subject, apiGroup=RBAC_GROUP)


def _role(binding: JsonObject, now: datetime) -> str:
    return f"{at(binding, 'roleRef.kind', '')}/{at(binding, 'roleRef.name', '')}"


_BINDING_COLUMNS: Final = (NAME, Column("Role", _role, description="What is granted."), AGE)

KINDS: Final = (
    BuiltinKind(
        RBAC_GROUP,
        "v1",
        kind="ClusterRole",
        plural="clusterroles",
        namespaced=False,
        name_rule=name_rules.path_segment,
        check=rbac_rules.check_cluster_role,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        RBAC_GROUP,
        "v1",
        kind="ClusterRoleBinding",
        plural="clusterrolebindings",
        namespaced=False,
        columns=_BINDING_COLUMNS,
        name_rule=name_rules.path_segment,
        set_defaults=_set_binding_defaults,
        check=rbac_rules.check_cluster_role_binding,
        check_update=core_rules.check_role_binding_update,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        RBAC_GROUP,
        "v1",
        kind="Role",
        plural="roles",
        name_rule=name_rules.path_segment,
        check=rbac_rules.check_role,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        RBAC_GROUP,
        "v1",
        kind="RoleBinding",
        plural="rolebindings",
        columns=_BINDING_COLUMNS,
        name_rule=name_rules.path_segment,
        set_defaults=_set_binding_defaults,
        check=rbac_rules.check_role_binding,
        check_update=core_rules.check_role_binding_update,
        protobuf=IN_KUBERNETES,
    ),
)
