"""Who has KubeVirt's roles in a namespace, made of its RoleBindings. Pure; called by `access_calls`."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from kvedge.client.errors import FlagError, UsageError
from kvedge.client.users.user_manifest import RESERVED, NewUser, binding_manifest, check_user
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.resources.values.name_grammar import is_label, is_subdomain
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
    if not name:
        raise _bad_name(name, "this is needed")
    if name != name.strip() or not name.isprintable():
        raise _bad_name(name, "write a name without blanks around it, and without control characters")
    if len(name) > _LONGEST:
        raise _bad_name(name, f"it may have {_LONGEST} characters at most")
    if kind == USER and name.startswith(RESERVED):
        raise _bad_name(name, f"names of users that begin with {' or '.join(RESERVED)} are taken")
    if kind != ACCOUNT:
        return {"kind": kind, "apiGroup": RBAC_GROUP, "name": name}
    place, _, account = name.rpartition("/")
    place = place or namespace
    if not is_subdomain(account) or not is_label(place):
        raise _bad_name(name, "write the name of a ServiceAccount, or NAMESPACE/NAME, in small letters")
    return {"kind": kind, "name": account, "namespace": place}


def new_binding(namespace: str, role: str, subject: JsonObject) -> JsonObject:
    """The RoleBinding that gives it. That of a user is as `kvedge user create` makes it, which then lists it, too.

    Raises:
        FlagError: for a role that is not given here.
    """
    if role not in ROLES:
        raise FlagError("role", f"use {', '.join(ROLES)}", f"role: use {', '.join(ROLES)}")
    if subject["kind"] == USER:
        with contextlib.suppress(UsageError):
            _, made = binding_manifest(check_user(NewUser(subject["name"], namespace=namespace)), role)
            return made
    # A group's name, or that of a user of an issuer, may have what no object's may.
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
    subjects = binding.get("subjects") or ()
    return [each for each in subjects if (each.get("kind"), _find_name(each, namespace)) != (kind, name)]


def _rows(bindings: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for binding in filter(is_of_role, bindings):
        namespace, called = binding["metadata"].get("namespace", ""), binding["metadata"]["name"]
        subjects = binding.get("subjects") or ()
        for subject in subjects:
            name = _find_name(subject, namespace)
            shown = showable(name, _LONGEST)
            yield {
                "kind": showable(str(subject.get("kind"))),
                "name": shown,
                "role": binding["roleRef"]["name"],
                "binding": showable(called, _LONGEST),
                # What cannot be shown as it is cannot be named by a page either.
                "isPlain": shown == name and showable(called, _LONGEST) == called,
                # Others have the role by it, too: it is changed, not deleted.
                "isShared": len(subjects) > 1,
            }


def _bad_name(name: str, why: str) -> FlagError:
    return FlagError("name", why, f"name {showable(name)!r}: {why}")


def _find_name(subject: JsonObject, namespace: str) -> str:
    name, place = str(subject.get("name")), str(subject.get("namespace") or "")
    return f"{place}/{name}" if subject.get("kind") == ACCOUNT and place != namespace else name
