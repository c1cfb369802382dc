"""What a request asks for, read off its method and URL: the verb, the kind, the object.

Used by the dispatcher, the authorizer and admission. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from kvedge.standalone.apiserver.schema.selectors import parse_field_selector
from kvedge.standalone.apiserver.wire.api_errors import BadRequest

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
# Methods that change nothing.
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Below a namespace's own name these are parts of the namespace, not resources inside it.
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


class RequestTarget(Struct, frozen=True):
    """The parts of a request.

    For paths outside /api and /apis only `verb` (the lower-case method) and `path` are set. `selected_name` is the one
    object that a list or watch is narrowed to by its field selector: a client that may read that object may do this.
    """

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    selected_name: str = ""

    @property
    def is_resource(self) -> bool:
        """True when a resource is meant, false for discovery, health and the like."""
        return bool(self.resource)


def request_target(method: str, path: str, query: Mapping[str, str]) -> RequestTarget:
    """Parse `/api/v1/namespaces/a/pods/b/log` and its like."""
    method = method.upper()
    parts = [part for part in path.split("/") if part]
    plain = RequestTarget(method.lower(), path)
    if len(parts) >= 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return plain
    if not rest:
        return RequestTarget(method.lower(), path, group, version)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = _verb(method, name, query)
    return RequestTarget(
        verb=verb,
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        resource=rest[0],
        name=name,
        subresource="/".join(rest[2:]),
        selected_name=_name_of_selector(query.get("fieldSelector", "")) if verb in ("list", "watch") else "",
    )


def is_plain(raw_path: str) -> bool:
    """False for a path that somebody else may read differently: what is authorized here must be what is served
    there.
    """
    path = raw_path.partition("?")[0].lower()
    segments = [unquote(segment) for segment in path.rstrip("/").split("/")[1:]]
    return "%2f" not in path and "%5c" not in path and not any(part in ("", ".", "..") for part in segments)


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    # A method that no resource knows is still about the resource: nobody but who may do everything gets further.
    verb = _VERBS.get(method, method.lower())
    if name:
        return verb
    if verb == "get":
        return "watch" if is_true(query.get("watch", "")) else "list"
    return "deletecollection" if verb == "delete" else verb


def _name_of_selector(selector: str) -> str:
    """The name that a field selector asks for, read as the list itself will read it."""
    if not selector:
        return ""
    try:
        return parse_field_selector(selector).exact("metadata.name") or ""
    except BadRequest:
        # The list says what is wrong with it, to whom may list.
        return ""


def is_true(text: str) -> bool:
    """A boolean of a query string: absent, empty, 0 and false mean no, all else yes."""
    return text.lower() not in ("", "0", "false")
