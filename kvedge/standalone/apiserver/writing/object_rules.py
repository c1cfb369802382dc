"""What objects of built-in kinds may say: the rule for their names, for what is in them, and for what may change.

Called by the server (`object_checks`) once an object has its final shape. Pure; nothing is raised, the first causes are
returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.custom import crd_rules
from kvedge.standalone.apiserver.kinds.rules import (
    certificate_request_rules,
    core_rules,
    limit_rules,
    pod_rules,
    quota_rules,
    rbac_rules,
)
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.schema.metadata_rules import NameRule
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError, first_errors
from kvedge.standalone.apiserver.wire.json_values import same

Check = Callable[[JsonObject], Iterable[FieldError]]
UpdateCheck = Callable[[JsonObject, JsonObject], Iterable[FieldError]]

# Kinds that are not here have names that are DNS subdomains; those of RBAC may be anything that fits into a path.
_NAME_RULES: Final[Mapping[str, NameRule]] = {
    "namespaces": name_rules.dns_label,
    "services": name_rules.dns1035_label,
}
_PATH_NAMED_GROUPS: Final = frozenset({"rbac.authorization.k8s.io", "apiregistration.k8s.io"})

_CHECKS: Final[Mapping[str, Check]] = {
    "certificatesigningrequests.certificates.k8s.io": certificate_request_rules.check_request,
    "clusterrolebindings.rbac.authorization.k8s.io": rbac_rules.check_cluster_role_binding,
    "clusterroles.rbac.authorization.k8s.io": rbac_rules.check_cluster_role,
    "configmaps": core_rules.check_config_map,
    "customresourcedefinitions.apiextensions.k8s.io": crd_rules.check_crd,
    "endpoints": core_rules.check_endpoints,
    "endpointslices.discovery.k8s.io": core_rules.check_endpoint_slice,
    "events": core_rules.check_event,
    "ipaddresses.networking.k8s.io": core_rules.check_ip_address,
    "leases.coordination.k8s.io": core_rules.check_lease,
    "limitranges": limit_rules.check_limit_range,
    "nodes": core_rules.check_node,
    "persistentvolumeclaims": core_rules.check_claim,
    "pods": pod_rules.check_pod,
    "resourcequotas": quota_rules.check_quota,
    "rolebindings.rbac.authorization.k8s.io": rbac_rules.check_role_binding,
    "roles.rbac.authorization.k8s.io": rbac_rules.check_role,
    "secrets": core_rules.check_secret,
    "services": core_rules.check_service,
}
_UPDATE_CHECKS: Final[Mapping[str, UpdateCheck]] = {
    "certificatesigningrequests.certificates.k8s.io": certificate_request_rules.check_request_update,
    "clusterrolebindings.rbac.authorization.k8s.io": core_rules.check_role_binding_update,
    "configmaps": core_rules.check_config_map_update,
    "customresourcedefinitions.apiextensions.k8s.io": crd_rules.check_crd_update,
    "ipaddresses.networking.k8s.io": core_rules.check_ip_address_update,
    "pods": pod_rules.check_pod_update,
    "resourcequotas": quota_rules.check_quota_update,
    "rolebindings.rbac.authorization.k8s.io": core_rules.check_role_binding_update,
    "secrets": core_rules.check_secret_update,
    "services": core_rules.check_service_update,
}

# Kinds of which only the spec is checked. Older versions have let every spec in: what lies there with a wrong one can
# still have its labels and its status written, as both do not change it.
_SPEC_CHECKED: Final = frozenset({"limitranges", "resourcequotas"})


def name_rule_of(kind: ServedKind) -> NameRule:
    """What the names of a kind's objects may look like."""
    if kind.group in _PATH_NAMED_GROUPS:
        return name_rules.path_segment
    return _NAME_RULES.get(kind.storage, name_rules.dns_subdomain)


def check_content(kind: ServedKind, obj: JsonObject) -> list[FieldError]:
    """What is wrong with an object besides its metadata: the first errors."""
    check = _CHECKS.get(kind.storage)
    return first_errors(check(obj)) if check is not None else []


def check_content_update(kind: ServedKind, new: JsonObject, old: JsonObject) -> list[FieldError]:
    """What is wrong with an object that replaces `old`, besides its metadata: the first errors."""
    if kind.storage in _SPEC_CHECKED and same(new.get("spec"), old.get("spec")):
        return []
    changed = _UPDATE_CHECKS.get(kind.storage)
    return first_errors(chain(check_content(kind, new), changed(new, old) if changed is not None else ()))
