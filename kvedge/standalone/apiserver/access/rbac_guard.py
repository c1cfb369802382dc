"""A writer of a Role or a binding must have the rights that it hands on.

Called by `builtin_admission`. Pure but for the questions to the authorizer and the index. As in Kubernetes: the writer
of a Role must hold all its rules, or the verb `escalate`; the writer of a binding must hold the rules of its role, or
the verb `bind` on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import (
    EVERYTHING,
    RBAC_GROUP,
    PolicyRule,
    TooManyRules,
    find_uncovered,
    policy_rules,
)
from kvedge.standalone.apiserver.access.authorizer_rules import Authorizer
from kvedge.standalone.apiserver.access.rbac_index import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    RbacIndex,
    role_of,
)
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.requests.write_rules import target_of
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import Forbidden, NotFound
from kvedge.standalone.apiserver.wire.json_values import same

# These fields may change while an object is being deleted, whatever rights the object gives.
_CLEANUP: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class RbacGuard:
    """Checks writes of the kinds of rbac.authorization.k8s.io."""

    def __init__(self, authorizer: Authorizer, index: RbacIndex) -> None:
        self._authorizer = authorizer
        self._index = index

    def check(self, context: RequestContext, obj: JsonObject, live: JsonObject | None) -> None:
        """Let a write pass; `live` is the object that it replaces.

        Raises:
            Forbidden: the caller would hand on more than they have.
            NotFound: a binding names a role that is not there.
        """
        if live is not None and _is_only_cleanup(obj, live):
            return
        if context.kind.storage in (ROLES, CLUSTER_ROLES):
            self._check_role(context, obj)
        elif context.kind.storage in (BINDINGS, CLUSTER_BINDINGS):
            self._check_binding(context, obj)

    def _check_role(self, context: RequestContext, role: JsonObject) -> None:
        name = role["metadata"].get("name") or ""
        key = ObjectKey(context.kind.storage, context.namespace, name)
        if self._may(context.caller, "escalate", key):
            return
        # The rules that a role will gather by labels are not known beforehand.
        rules = EVERYTHING if role.get("aggregationRule") is not None else policy_rules(role.get("rules"))
        self._check_held(context, name, rules)

    def _check_binding(self, context: RequestContext, binding: JsonObject) -> None:
        name = binding["metadata"].get("name") or ""
        # The namespace is that of the URL, whatever the body says.
        key = role_of({**binding, "metadata": {"namespace": context.namespace}})
        if self._may(context.caller, "bind", key, context.namespace):
            return
        rules = self._index.find_role_rules(key)
        if rules is None:
            # Named by the binding's kind, as the real server does.
            raise NotFound(target_of(context.kind, key.name))
        self._check_held(context, name, rules)

    def _may(self, caller: Caller, verb: str, key: ObjectKey, namespace: str = "") -> bool:
        plural = key.resource.partition(".")[0]
        where = key.namespace or namespace
        return self._authorizer.allows(caller, RequestTarget(verb, "", RBAC_GROUP, "v1", where, plural, key.name))

    def _check_held(self, context: RequestContext, name: str, rules: Iterable[PolicyRule]) -> None:
        caller = context.caller
        try:
            missing = find_uncovered(self._authorizer.rules_of(caller, context.namespace), rules)
        except TooManyRules as error:
            why = (
                "these rules stand for more rights than can be compared with those that you hold;"
                " write several roles, or let somebody write it who has the verb escalate"
            )
            raise Forbidden(target_of(context.kind, name), why) from error
        if missing:
            groups = " ".join(f'"{group}"' for group in caller.groups)
            lines = "\n".join(dict.fromkeys(map(_spell, missing)))
            why = (
                f'user "{caller.user}" (groups=[{groups}]) is attempting to grant RBAC permissions'
                f" not currently held:\n{lines}"
            )
            raise Forbidden(target_of(context.kind, name), why)


def _is_only_cleanup(obj: JsonObject, live: JsonObject) -> bool:
    def drop_cleanup(document: JsonObject) -> JsonObject:
        metadata = {key: value for key, value in document["metadata"].items() if key not in _CLEANUP}
        return {**document, "metadata": metadata}

    return same(drop_cleanup(obj), drop_cleanup(live))


def _spell(rule: PolicyRule) -> str:
    fields = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.names),
        ("NonResourceURLs", rule.urls),
        ("Verbs", rule.verbs),
    )
    shown = [f"{name}:[" + ", ".join(f'"{value}"' for value in values) + "]" for name, values in fields if values]
    return "{" + ", ".join(shown) + "}"
