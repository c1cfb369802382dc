"""Who has KubeVirt's roles in a namespace, made of its RoleBindings. Pure; called by `access_calls`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from kvedge.client.errors import FlagError
from kvedge.client.users.user_manifest import NewUser, binding_manifest, check_user
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.web.texts.shown_text import showable

ROLES: Final = ("kubevirt.io:view", "kubevirt.io:edit", "kubevirt.io:admin", "kubevirt.io:migrate")
USER: Final = "User"
GROUP: Final = "Group"
ACCOUNT: Final = "ServiceAccount"
KINDS: Final = (USER, GROUP, ACCOUNT)
_MOST: Final = 1000
_LONGEST: Final = 253


def given_view(bindings: Sequence[JsonObject]) -> JsonObject:
    """A row for each subject of each binding of one of the roles, by name; and whether there are more."""
    found = list(islice(_rows(bindings), _MOST + 1))
    rows = sorted(found[:_MOST], key=lambda row: (row["kind"], row["name"], row["role"]))
    return {"rows": rows, "more": len(found) > _MOST}


def subject_of(kind: str, name: str, namespace: str) -> JsonObject:
    """The subject of a binding; a ServiceAccount is of the binding's namespace, or named as NAMESPACE/NAME.

    Raises:
        FlagError: for what cannot be one.
    """
    if kind not in KINDS:
        raise FlagError("kind", f"use {', '.join(KINDS)}", f"kind: use {', '.join(KINDS)}")
    if not name or name != name.strip() or not name.isprintable() or len(name) > _LONGEST:
        raise FlagError("name", "write a name without blanks around it", f"name {name!r}: is no name")
    if kind != ACCOUNT:
        return {"kind": kind, "apiGroup": RBAC_GROUP, "name": name}
    place, _, account = name.rpartition("/")
    return {"kind": kind, "name": account, "namespace": place or namespace}


def new_binding(namespace: str, role: str, subject: JsonObject) -> JsonObject:
    """The RoleBinding that gives it. That of a user is as `kvedge user create` makes it, which then lists it, too.

    Raises:
        UsageError: for a role or a user that is given nothing here.
    """
    if role not in ROLES:
        raise FlagError("role", f"use {', '.join(ROLES)}", f"role: use {', '.join(ROLES)}")
    if subject["kind"] == USER:
        _, made = binding_manifest(check_user(NewUser(subject["name"], namespace=namespace)), role)
        return made
    # A group's name may have what no object's may.
    digest = hashlib.sha256(repr(sorted(subject.items())).encode()).hexdigest()[:12]
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{subject['kind'].lower()}-{digest}:{role}", "namespace": namespace},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def is_of_role(binding: JsonObject) -> bool:
    """Whether it gives one of KubeVirt's roles."""
    role = binding.get("roleRef") or {}
    return role.get("kind") == "ClusterRole" and role.get("name") in ROLES


def without(binding: JsonObject, kind: str, name: str) -> list[JsonObject]:
    """The other subjects of a binding."""
    namespace = binding["metadata"].get("namespace", "")
    return [
        each
        for each in binding.get("subjects") or ()
        if (each.get("kind"), _find_name(each, namespace)) != (kind, name)
    ]


def _rows(bindings: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for binding in filter(is_of_role, bindings):
        namespace = binding["metadata"].get("namespace", "")
        for subject in binding.get("subjects") or ():
            name = _find_name(subject, namespace)
            shown = showable(name, _LONGEST)
            yield {
                "kind": showable(str(subject.get("kind"))),
                "name": shown,
                "role": binding["roleRef"]["name"],
                "binding": showable(binding["metadata"]["name"], _LONGEST),
                # What cannot be shown as it is cannot be named by a page either.
                "isPlain": shown == name,
            }


def _find_name(subject: JsonObject, namespace: str) -> str:
    name, place = str(subject.get("name")), str(subject.get("namespace") or "")
    return f"{place}/{name}" if subject.get("kind") == ACCOUNT and place != namespace else name
