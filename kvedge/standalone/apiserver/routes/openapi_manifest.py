"""The OpenAPI documents: kubectl explains kinds, validates manifests and finds out what a server can do from them.

Called by the server, which caches them until a CRD changes. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.routes.openapi_schemas import V2, V3, Dialect, kind_marks, schema_name, schemas_of
from kvedge.standalone.apiserver.wire.json_values import compact

_TITLE: Final = "kvedge"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    _STRATEGIC,
    "application/apply-patch+yaml",
)
# The options of writes; kubectl looks here before it asks for a dry run or validation by the server.
_WRITE_QUERIES: Final = {
    "dryRun": "All: nothing is stored.",
    "fieldManager": "Who is changing the fields.",
    "fieldValidation": "What to do with unknown fields: Ignore, Warn or Strict.",
}
_LIST_QUERIES: Final = {
    "labelSelector": "Selects objects by their labels.",
    "fieldSelector": "Selects objects by their fields.",
    "limit": "How many objects to return at once.",
    "continue": "Token of the previous part of the list.",
    "resourceVersion": "Version that the list must at least have.",
    "watch": "Whether changes follow as a stream.",
}
_BODIES: Final = frozenset({"post", "put", "patch"})


def v2_document(kinds: Iterable[ServedKind], version: str) -> JsonObject:
    """The one Swagger 2.0 document of all kinds."""
    served = list(kinds)
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": version},
        "paths": _paths(served, V2),
        "definitions": schemas_of(served, V2),
    }


def v3_documents(kinds: Iterable[ServedKind], version: str) -> dict[str, JsonObject]:
    """An OpenAPI 3 document for each group and version, by its path: `api/v1`, `apis/kubevirt.io/v1`."""
    by_path: dict[str, list[ServedKind]] = {}
    for kind in kinds:
        by_path.setdefault(_root(kind).removeprefix("/"), []).append(kind)
    return {
        path: {
            "openapi": "3.0.0",
            "info": {"title": _TITLE, "version": version},
            "paths": _paths(served, V3),
            "components": {"schemas": schemas_of(served, V3)},
        }
        for path, served in by_path.items()
    }


def v3_index(documents: Mapping[str, JsonObject]) -> JsonObject:
    """Where the OpenAPI 3 documents are; the hash changes with the content, so that clients may keep them for good."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document_hash(document)}"}
            for path, document in sorted(documents.items())
        }
    }


def document_hash(document: JsonObject) -> str:
    """What identifies the content of a document."""
    return hashlib.sha256(compact(document).encode()).hexdigest().upper()


def _root(kind: ServedKind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _paths(kinds: list[ServedKind], dialect: Dialect) -> JsonObject:
    paths: JsonObject = {}
    for kind in kinds:
        scope = "/namespaces/{namespace}" if kind.namespaced else ""
        collection = f"{_root(kind)}{scope}/{kind.plural}"
        listed = _operations(kind, dialect, {"get": ("list", "list"), "post": ("create", "post")}, is_list=True)
        single = {
            "get": ("get", "get"),
            "put": ("update", "put"),
            "patch": ("patch", "patch"),
            "delete": ("delete", "delete"),
        }
        one = _operations(kind, dialect, single, is_list=False)
        if listed:
            paths[collection] = {**listed, "parameters": _path_parameters(collection, dialect)}
        if one:
            item = f"{collection}/{{name}}"
            paths[item] = {**one, "parameters": _path_parameters(item, dialect)}
    return paths


def _operations(
    kind: ServedKind, dialect: Dialect, methods: Mapping[str, tuple[str, str]], is_list: bool
) -> JsonObject:
    """The operations of one path; `methods` gives for each HTTP method the verb it needs and the action it is."""
    operations: JsonObject = {}
    for method, (verb, action) in methods.items():
        if verb not in kind.verbs:
            continue
        queries = _WRITE_QUERIES if method != "get" else _LIST_QUERIES if is_list else {}
        if method == "patch":
            queries = {**queries, "force": "Take over fields that others own, when applying."}
        result = schema_name(kind) + ("List" if action == "list" else "")
        operations[method] = {
            "description": f"{action} {kind.kind}",
            "operationId": _operation_id(kind, verb),
            **_content(method, kind, result, dialect),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind_marks(kind),
        }
        parameters = operations[method].setdefault("parameters", [])
        parameters += [_query(name, about, dialect) for name, about in queries.items()]
    return operations


def _patch_types(kind: ServedKind) -> list[str]:
    """A custom kind has no merge keys: kubectl sends a strategic patch to whoever says that it takes one."""
    return [item for item in _PATCH_TYPES if kind.crd is None or item != _STRATEGIC]


def _content(method: str, kind: ServedKind, result: str, dialect: Dialect) -> JsonObject:
    """What goes in and what comes out."""
    answer = dialect.reference(result)
    media = _patch_types(kind) if method == "patch" else ["application/json"]
    if dialect.is_v3:
        content: JsonObject = {
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}}
        }
        if method in _BODIES:
            schema = {"type": "object"} if method == "patch" else dialect.reference(schema_name(kind))
            content["requestBody"] = {"required": True, "content": {item: {"schema": schema} for item in media}}
        return content
    content = {"produces": ["application/json"], "responses": {"200": {"description": "OK", "schema": answer}}}
    if method in _BODIES:
        schema = {"type": "object"} if method == "patch" else dialect.reference(schema_name(kind))
        content["consumes"] = media
        content["parameters"] = [{"name": "body", "in": "body", "required": True, "schema": schema}]
    return content


def _operation_id(kind: ServedKind, verb: str) -> str:
    group = "".join(part.capitalize() for part in kind.group.split(".")) or "Core"
    return f"{verb}{group}{kind.version.capitalize()}{'Namespaced' if kind.namespaced else ''}{kind.kind}"


def _path_parameters(path: str, dialect: Dialect) -> list[JsonObject]:
    about = {"namespace": "Namespace of the object.", "name": "Name of the object."}
    return [
        _convert({"name": name, "in": "path", "required": True, "description": text}, dialect)
        for name, text in about.items()
        if f"{{{name}}}" in path
    ]


def _query(name: str, about: str, dialect: Dialect) -> JsonObject:
    return _convert({"name": name, "in": "query", "description": about}, dialect)


def _convert(parameter: JsonObject, dialect: Dialect) -> JsonObject:
    kinds = {"limit": "integer", "watch": "boolean", "force": "boolean"}
    kind = kinds.get(parameter["name"], "string")
    return {**parameter, "schema": {"type": kind}} if dialect.is_v3 else {**parameter, "type": kind}
