"""The rights of callers: the fixed ones of kvedge's roles, and those of the stored Roles and bindings.

The dispatcher asks for every request, the access reviews ask, and so does each check of a special right (to approve, to
bind, to impersonate). Pure. Everything that no rule allows is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import EVERYTHING, PolicyRule
from kvedge.resources.manifests.role_rights import (
    AUTHORITY_SECRET,
    CHANGE,
    EVERY_VERB,
    READ,
    ROLE_RIGHTS,
    Limit,
    Right,
    right,
)
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.node_loss.node_lease import lease_name
from kvedge.resources.role_users import API_GROUP, CONTROLLER_GROUP, HANDLER_GROUP, MASTERS, UserInfo
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.request_target import RequestTarget

AUTHENTICATED: Final = "system:authenticated"
CONTROLLERS: Final = CONTROLLER_GROUP
HANDLERS: Final = HANDLER_GROUP
APIS: Final = API_GROUP
AGENTS: Final = "kvedge:agents"
VOLUMES: Final = "kvedge:volumes"
NETWORKING: Final = "kvedge:networking"

# Discovery, health and the like are for everybody who is known.
_OPEN: Final = PolicyRule(
    ("get",), urls=("/", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/")
)
_HEALTH: Final = PolicyRule(("get",), urls=("/healthz", "/livez", "/readyz", "/healthz/*", "/livez/*", "/readyz/*"))

_AUTHORITY: Final = (SYSTEM_NAMESPACE, AUTHORITY_SECRET)

FIXED_RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    **ROLE_RIGHTS,
    # Everybody who is known may ask who they are, what they may do, and what there is.
    AUTHENTICATED: (
        right(("create",), "authentication.k8s.io", "selfsubjectreviews"),
        right(("create",), "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        Right(_OPEN),
        Right(_HEALTH),
    ),
    # The node agent plays kubelet and scheduler.
    AGENTS: (
        right(READ, "core", "namespaces"),
        right(CHANGE, "core events.k8s.io", "events"),
        right(EVERY_VERB, "core", "nodes nodes/status pods pods/status pods/binding pods/eviction endpoints"),
        right(EVERY_VERB, "discovery.k8s.io", "endpointslices"),
        right(EVERY_VERB, "networking.k8s.io", "ipaddresses"),
        right(EVERY_VERB, "coordination.k8s.io", "leases"),
        right(READ, "core", "configmaps services persistentvolumeclaims persistentvolumes"),
        right(READ, "storage.k8s.io", "storageclasses"),
        # It plays Multus as well.
        right(("get",), "k8s.cni.cncf.io", "network-attachment-definitions"),
        # The scheduler tells a claim that waits for its first consumer where that will be.
        right(("patch",), "core", "persistentvolumeclaims"),
        right(READ, "kubevirt.io", "virtualmachines virtualmachineinstances"),
        # One at a time, as Pods name them.
        right(("get",), "core", "secrets"),
        # Of a Pod that is bound to its node and has not ended, and no others: `token_routes` looks.
        right(("create",), "core", "serviceaccounts/token"),
    ),
    # The storage of one box plays volume binder, provisioner and resizer.
    VOLUMES: (
        right(CHANGE, "core events.k8s.io", "events"),
        right(EVERY_VERB, "core", "persistentvolumes persistentvolumes/status"),
        right((*READ, "update", "patch"), "core", "persistentvolumeclaims persistentvolumeclaims/status"),
        right((*READ, "create"), "storage.k8s.io", "storageclasses"),
        # It plays the snapshot controller and its driver's sidecar as well.
        right((*READ, "patch"), "snapshot.storage.k8s.io", "volumesnapshots volumesnapshots/status"),
        right(
            (*READ, "create", "patch", "delete"),
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents volumesnapshotcontents/status",
        ),
        right((*READ, "create"), "snapshot.storage.k8s.io", "volumesnapshotclasses"),
        right(READ, "core", "nodes pods"),
        # What it writes down beside their disks.
        right(READ, "kubevirt.io", "virtualmachines"),
        # Its own condition: how full the places for volumes are.
        right(("patch",), "core", "nodes/status"),
    ),
    # The networking of one box plays endpoints controller, load balancer, kube-proxy, and enforces policies.
    NETWORKING: (
        right(CHANGE, "core events.k8s.io", "events"),
        right(EVERY_VERB, "core", "endpoints"),
        right(EVERY_VERB, "discovery.k8s.io", "endpointslices"),
        right(READ, "core", "services pods namespaces"),
        right(READ, "networking.k8s.io", "networkpolicies"),
        right(("patch",), "core", "services/status"),
    ),
}

# Those who speak as these are kvedge itself. Only whoever holds the box's authority makes certificates of them.
OWN_GROUPS: Final = frozenset(FIXED_RIGHTS) - {AUTHENTICATED}

# Looks an object up, so that a right may depend on it: (group, resource, namespace, name) to the object or None.
Lookup = Callable[[str, str, str, str], JsonObject | None]


class StoredRules(Protocol):
    """The rules that stored bindings give."""

    def rules_of(self, caller: Caller, namespace: str) -> Iterator[PolicyRule]:
        """The rights of a caller in a namespace; in the whole cluster when it is empty."""


class NoStoredRules:
    """Nothing is stored."""

    def rules_of(self, caller: Caller, namespace: str) -> Iterator[PolicyRule]:
        """None."""
        return iter(())


class Authorizer:
    """Answers by the fixed rights first, then by the stored ones. `lookup` finds objects for rights with a limit."""

    def __init__(self, lookup: Lookup, stored: StoredRules | None = None) -> None:
        self._lookup = lookup
        self._stored = stored or NoStoredRules()

    def allows(self, caller: Caller, target: RequestTarget) -> bool:
        """Whether the caller may do this."""
        if MASTERS in caller.groups:
            return True
        if any(self._gives(each, caller, target) for each in _find_fixed_rights(caller)):
            return True
        return any(_allows(rule, target) for rule in self._stored.rules_of(caller, target.namespace))

    def rules_of(self, caller: Caller, namespace: str) -> Iterator[PolicyRule]:
        """All rules that a caller has in a namespace without any limit: what may be handed on to others."""
        if MASTERS in caller.groups:
            yield from EVERYTHING
        for each in _find_fixed_rights(caller):
            if each.limit is Limit.NONE and each.namespace in ("", namespace):
                yield each.rule
        yield from self._stored.rules_of(caller, namespace)

    @staticmethod
    def has_limited_rights(caller: Caller) -> bool:
        """Whether a caller has rights that depend on the object, which no list of rules can say."""
        return any(each.limit is not Limit.NONE for each in _find_fixed_rights(caller))

    def _gives(self, each: Right, caller: Caller, target: RequestTarget) -> bool:
        return (
            _allows(each.rule, target)
            and (not each.namespace or each.namespace == target.namespace)
            and self._is_within(each.limit, caller, target)
            and not _is_reserved(caller, target)
        )

    def _is_within(self, limit: Limit, caller: Caller, target: RequestTarget) -> bool:
        if limit is Limit.NONE:
            return True
        node = UserInfo(caller.user, caller.groups, caller.uid, caller.extra).node
        if not node:
            return False
        if limit is Limit.OWN_NODE:
            return target.name == node
        if limit is Limit.OWN_LEASE:
            return target.name == lease_name(node)
        found = self._lookup(target.group, target.resource, target.namespace, target.name)
        status = (found or {}).get("status")
        return isinstance(status, dict) and node in (status.get("nodeName"), _migration_target(status))


def _find_fixed_rights(caller: Caller) -> Iterator[Right]:
    for group in caller.groups:
        yield from FIXED_RIGHTS.get(group, ())


def _allows(rule: PolicyRule, target: RequestTarget) -> bool:
    if not target.is_resource:
        return rule.means_path(target.verb, target.path)
    name = target.name or target.selected_name
    return rule.means_resource(target.verb, target.group, target.resource, target.subresource, name)


def _is_reserved(caller: Caller, target: RequestTarget) -> bool:
    """Whether this is the authority's Secret, which no fixed right opens to another role than api."""
    where = (target.namespace, target.name or target.selected_name)
    is_authority = target.resource == "secrets" and not target.group and where == _AUTHORITY
    return is_authority and APIS not in caller.groups


def _migration_target(status: JsonObject) -> object:
    migration = status.get("migrationState")
    return migration.get("targetNode") if isinstance(migration, dict) else None
