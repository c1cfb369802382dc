"""What Roles and bindings may say.

Called by the rows of its kinds. Pure; the objects have the types of their kinds (`builtin_shape`). All causes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.standalone.apiserver.schema.selectors import check_label_selector
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import invalid, invalids, not_supported_error, required_error

_SUBJECT_KINDS: Final = ("ServiceAccount", "User", "Group")


def check_role(role: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a Role."""
    for index, rule in enumerate(role.get("rules") or []):
        yield from _check_rule(rule, f"rules[{index}]", namespaced=True)


def check_cluster_role(role: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a ClusterRole."""
    for index, rule in enumerate(role.get("rules") or []):
        yield from _check_rule(rule, f"rules[{index}]", namespaced=False)
    gathered = role.get("aggregationRule")
    if gathered is None:
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not gathered.get("clusterRoleSelectors"):
        yield required_error(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(gathered.get("clusterRoleSelectors") or []):
        yield from check_label_selector(selector, f"{path}[{index}]")


def check_role_binding(binding: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a RoleBinding."""
    yield from _check_binding(binding, ("Role", "ClusterRole"), namespaced=True)


def check_cluster_role_binding(binding: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a ClusterRoleBinding."""
    yield from _check_binding(binding, ("ClusterRole",), namespaced=False)


def _check_rule(rule: JsonObject, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required_error(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        return
    if not rule.get("apiGroups"):
        yield required_error(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required_error(f"{path}.resources", "resource rules must supply at least one resource")


def _check_binding(binding: JsonObject, roles: tuple[str, ...], *, namespaced: bool) -> Iterator[FieldError]:
    reference = binding.get("roleRef") or {}
    if reference.get("apiGroup") != RBAC_GROUP:
        yield not_supported_error("roleRef.apiGroup", reference.get("apiGroup") or "", [RBAC_GROUP])
    if reference.get("kind") not in roles:
        yield not_supported_error("roleRef.kind", reference.get("kind") or "", roles)
    if not reference.get("name"):
        yield required_error("roleRef.name")
    else:
        yield from invalids("roleRef.name", reference["name"], name_rules.path_segment(reference["name"]))
    for index, subject in enumerate(binding.get("subjects") or []):
        yield from _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _check_subject(subject: JsonObject, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
    if not name:
        yield required_error(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from invalids(f"{path}.name", name, name_rules.dns_subdomain(name))
        if group:
            yield not_supported_error(f"{path}.apiGroup", group, [""])
        if not namespaced and not subject.get("namespace"):
            yield required_error(f"{path}.namespace")
    elif kind in _SUBJECT_KINDS:
        if group != RBAC_GROUP:
            yield not_supported_error(f"{path}.apiGroup", group, [RBAC_GROUP])
    else:
        yield not_supported_error(f"{path}.kind", kind, _SUBJECT_KINDS)
