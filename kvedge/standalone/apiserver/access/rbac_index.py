"""The Roles and bindings that are stored, ready to be asked: which rules has this caller?

Used by the authorizer and by the guard of RBAC objects, in the API server's event loop. Follows the cache, so that a
binding counts from the moment in which its write is answered. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP, PolicyRule, policy_rules
from kvedge.resources.role_users import ACCOUNT_PREFIX
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored

ROLES: Final = f"roles.{RBAC_GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{RBAC_GROUP}"
BINDINGS: Final = f"rolebindings.{RBAC_GROUP}"
CLUSTER_BINDINGS: Final = f"clusterrolebindings.{RBAC_GROUP}"


class Binding(Struct, frozen=True):
    """A binding's subjects and rights; `namespace` is empty for everywhere. Subjects: `User:NAME`, `Group:NAME`."""

    namespace: str
    role: ObjectKey
    subjects: frozenset[str]


class RbacIndex:
    """Bindings by subject, rules by role."""

    def __init__(self, cache: ObjectCache) -> None:
        self._cache = cache
        self._bindings: dict[ObjectKey, Binding] = {}
        self._by_subject: dict[str, set[ObjectKey]] = {}
        self._rules: dict[ObjectKey, tuple[PolicyRule, ...]] = {}
        for resource in (CLUSTER_BINDINGS, BINDINGS):
            for stored in cache.in_namespace(resource):
                self._add(stored)
        cache.on_change(self._notice)

    def rules_of(self, caller: Caller, namespace: str) -> Iterator[PolicyRule]:
        """The rules that a caller has in a namespace; in the whole cluster when it is empty."""
        subjects = [f"User:{caller.user}", *(f"Group:{group}" for group in caller.groups)]
        keys = {key for subject in subjects for key in self._by_subject.get(subject, ())}
        for key in keys:
            binding = self._bindings[key]
            if not binding.namespace or binding.namespace == namespace:
                yield from self.find_role_rules(binding.role) or ()

    def find_role_rules(self, role: ObjectKey) -> tuple[PolicyRule, ...] | None:
        """The rules of a role; None when there is no such role."""
        known = self._rules.get(role)
        if known is None:
            stored = self._cache.get(role)
            if stored is None:
                return None
            known = self._rules[role] = policy_rules(stored.load().get("rules"))
        return known

    def _notice(self, change: Change) -> None:
        key = change.current.key
        if key.resource in (ROLES, CLUSTER_ROLES):
            self._rules.pop(key, None)
        elif key.resource in (BINDINGS, CLUSTER_BINDINGS):
            self._remove(key)
            if change.type is not ChangeType.DELETED:
                self._add(change.current)

    def _add(self, stored: Stored) -> None:
        binding = binding_of(stored.load())
        self._bindings[stored.key] = binding
        for subject in binding.subjects:
            self._by_subject.setdefault(subject, set()).add(stored.key)

    def _remove(self, key: ObjectKey) -> None:
        binding = self._bindings.pop(key, None)
        for subject in binding.subjects if binding else ():
            keys = self._by_subject[subject]
            keys.discard(key)
            if not keys:
                del self._by_subject[subject]


def binding_of(document: JsonObject) -> Binding:
    """What a RoleBinding or ClusterRoleBinding says."""
    namespace = document["metadata"].get("namespace") or ""
    subjects = (_subject(subject, namespace) for subject in document.get("subjects") or ())
    return Binding(namespace, role_of(document), frozenset(subject for subject in subjects if subject))


def role_of(binding: JsonObject) -> ObjectKey:
    """The role that a binding names."""
    reference = binding.get("roleRef") or {}
    name = reference.get("name") or ""
    if reference.get("kind") == "Role":
        return ObjectKey(ROLES, binding["metadata"].get("namespace") or "", name)
    return ObjectKey(CLUSTER_ROLES, "", name)


def _subject(subject: JsonObject, namespace: str) -> str:
    """The subject's key, or "" for one that means nobody."""
    name = subject.get("name") or ""
    match subject.get("kind"):
        case "User" | "Group" as kind:
            return f"{kind}:{name}"
        case "ServiceAccount":
            where = subject.get("namespace") or namespace
            return f"User:{ACCOUNT_PREFIX}{where}:{name}" if where and name else ""
    return ""
