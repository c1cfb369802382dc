"""What the user may do in a namespace, and giving and taking KubeVirt's roles there; with the user's own rights.

Called by `page_calls` in threads of their own. Raises what the client raises. The server judges who may give what: no
user gives away more than they have.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from kvedge.client.errors import FlagError, NotFoundError, RefusedError
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError
from kvedge.kube.self_review import ask_who
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.web.own_rights import may, may_each
from kvedge.web.site.access_view import KINDS, ROLES, given_view, is_of_role, new_binding, subject_of, without
from kvedge.web.texts.shown_text import showable

_SECONDS: Final = 20.0
_MOST: Final = "1000"
_RBAC: Final = f"/apis/{RBAC_GROUP}/v1"
_KUBEVIRT, _CALLS, _CDI = "kubevirt.io", "subresources.kubevirt.io", "cdi.kubevirt.io"
# What is told of the user's rights, in words: verb, group, resource, subresource.
_ACTS: Final = {
    "See virtual machines": ("list", _KUBEVIRT, "virtualmachines", ""),
    "Make virtual machines": ("create", _KUBEVIRT, "virtualmachines", ""),
    "Change virtual machines": ("update", _KUBEVIRT, "virtualmachines", ""),
    "Delete virtual machines": ("delete", _KUBEVIRT, "virtualmachines", ""),
    "Start them": ("update", _CALLS, "virtualmachines", "start"),
    "Stop them": ("update", _CALLS, "virtualmachines", "stop"),
    "Open serial consoles": ("get", _CALLS, "virtualmachineinstances", "console"),
    "Open screens": ("get", _CALLS, "virtualmachineinstances", "vnc"),
    "Move guests to other nodes": ("update", _CALLS, "virtualmachines", "migrate"),
    "Take snapshots": ("create", "snapshot.kubevirt.io", "virtualmachinesnapshots", ""),
    "Make disks and upload images": ("create", _CDI, "datavolumes", ""),
    "See who has which role": ("list", RBAC_GROUP, "rolebindings", ""),
    "Give roles": ("create", RBAC_GROUP, "rolebindings", ""),
    "Take roles away": ("delete", RBAC_GROUP, "rolebindings", ""),
    "Take roles away that are given to several at once": ("update", RBAC_GROUP, "rolebindings", ""),
}
_SEE, _GIVE, _TAKE = "See who has which role", "Give roles", "Take roles away"
_TAKE_SHARED: Final = "Take roles away that are given to several at once"


def read_access(session: Session, namespace: str) -> JsonObject:
    """Who the user is, what they may do there, and who has which role, as far as they may see it."""
    here = replace(session, client=session.client.hurry(_SECONDS))
    rights = may_each(here, check_name(namespace, "namespace"), _ACTS)
    given = given_view([])
    is_seen = rights[_SEE]
    if is_seen:
        try:
            found: Any = here.client.request("GET", _path(namespace), query={"limit": _MOST})
        except Forbidden:
            is_seen = False
        else:
            given = given_view(found.get("items") or [])
            given["more"] |= bool((found.get("metadata") or {}).get("continue"))
    return {
        "user": _name_of(here),
        "rights": [{"words": words, "may": is_allowed} for words, is_allowed in rights.items()],
        "isSeen": is_seen,
        "mayGive": rights[_GIVE],
        "mayTake": rights[_TAKE],
        "mayTakeShared": rights[_TAKE_SHARED],
        "roles": list(ROLES),
        "kinds": list(KINDS),
        **given,
    }


def give_role(session: Session, namespace: str, body: JsonObject) -> JsonObject:
    """Give a role to a user, a group or a ServiceAccount.

    Raises:
        FlagError: for a name that cannot be one, and for a role that the user may not give.
    """
    kind, name, role = (str(body.get(key) or "") for key in ("kind", "name", "role"))
    subject = subject_of(kind, name, check_name(namespace, "namespace"))
    binding = new_binding(namespace, role, subject)
    try:
        session.client.hurry(_SECONDS).request("POST", _path(namespace), binding)
    except AlreadyExists:
        found = _read(session, namespace, binding["metadata"]["name"])
        if subject not in (found.get("subjects") or ()) or found.get("roleRef") != binding["roleRef"]:
            raise
    except Forbidden as error:
        if not may(session, namespace, _ACTS[_GIVE]):
            raise
        # It lists each of the role's rules otherwise.
        why = "you may not give it: nobody gives more than they have there"
        raise FlagError("role", why, f"{role}: {why}") from error
    return {}


def take_role(session: Session, namespace: str, body: JsonObject) -> JsonObject:
    """Take it away; others of the same binding keep it.

    Raises:
        NotFoundError: when it was not given.
    """
    kind, name, called = (str(body.get(key) or "") for key in ("kind", "name", "binding"))
    found = _read(session, namespace, called)
    if not is_of_role(found):
        raise RefusedError(f"RoleBinding {showable(called)} gives none of KubeVirt's roles: change it with kubectl")
    left = without(found, kind, name)
    if len(left) == len(found.get("subjects") or ()):
        raise NotFoundError(f"{showable(name)} does not have this role any more")
    client = session.client.hurry(_SECONDS)
    if left:
        client.request("PUT", _path(namespace, called), {**found, "subjects": left})
        return {}
    seen = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    client.request("DELETE", _path(namespace, called), {"preconditions": seen})
    return {}


def _read(session: Session, namespace: str, name: str) -> JsonObject:
    if not name.strip("."):
        raise NotFoundError("binding: name one")
    found: Any = session.client.hurry(_SECONDS).request("GET", _path(namespace, name))
    return dict(found)


def _path(namespace: str, name: str = "") -> str:
    where = f"{_RBAC}/namespaces/{check_name(namespace, 'namespace')}/rolebindings"
    # Names of bindings may have a colon, and blanks.
    return f"{where}/{quote(name, safe=':')}" if name else where


def _name_of(session: Session) -> str:
    try:
        return showable(str(ask_who(session.client).get("username") or ""))
    except KubeError:
        # An older server does not tell.
        return ""
