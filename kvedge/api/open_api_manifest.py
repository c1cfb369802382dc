"""The OpenAPI documents of the aggregated API: its paths, made from the table of guest verbs.

Called by subresource_server.py, for the API server that merges them into its own. Pure. Bodies are a handful of
options, of which no client asks for a schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kvedge import __version__
from kvedge.api.served_paths import SUBRESOURCE_GROUP, SUBRESOURCE_VERSIONS
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import GUEST_VERBS

_INFO: Final = {"title": "kvedge subresources", "version": __version__}
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ABOUT: Final = {
    "namespace": "Namespace of the object.",
    "name": "Name of the object.",
    "port": "Port of the guest.",
    "protocol": "tcp or udp.",
}
_BODIES: Final = frozenset({"put", "post"})
_ANSWERS: Final = {"200": "OK", "401": "Unauthorized", "403": "Forbidden", "404": "Not Found"}


class _Call(NamedTuple):
    """One call, below its version's path."""

    method: str
    path: str
    about: str


_OWN: Final[Sequence[_Call]] = (
    _Call("get", "version", "The version of KubeVirt whose API is served."),
    _Call("get", "healthz", "Whether the server is well."),
    _Call("get", "metrics", "Series for Prometheus."),
    _Call("put", "namespaces/{namespace}/expand-vm-spec", "The VM that was sent, with what its instance type adds."),
)


def open_api_v2() -> JsonObject:
    """The Swagger 2.0 document of all versions."""
    paths = {path: item for version in SUBRESOURCE_VERSIONS for path, item in _paths(version, is_v3=False)}
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": {}}


def open_api_v3(version: str) -> JsonObject:
    """The OpenAPI 3 document of one version."""
    return {"openapi": "3.0.0", "info": _INFO, "paths": dict(_paths(version, is_v3=True)), "components": {}}


def open_api_index() -> JsonObject:
    """Where the OpenAPI 3 documents are; they change with the program alone."""
    roots = [_root(version).removeprefix("/") for version in SUBRESOURCE_VERSIONS]
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={__version__}"} for root in roots}}


def _root(version: str) -> str:
    return f"/apis/{SUBRESOURCE_GROUP}/{version}"


def _calls() -> Iterator[_Call]:
    yield from _OWN
    for verb in GUEST_VERBS:
        # Those to come are answered with 501.
        if verb.way != "later":
            path = f"namespaces/{{namespace}}/{verb.resource}/{{name}}/{verb.route}"
            yield _Call(verb.method.lower(), path, f"{verb.name} of {verb.resource}.")


def _paths(version: str, *, is_v3: bool) -> Iterator[tuple[str, JsonObject]]:
    for call in _calls():
        names = _PARAMETER.findall(call.path)
        parameters = [_parameter(name, is_v3=is_v3) for name in names]
        yield (
            f"{_root(version)}/{call.path}",
            {
                call.method: _operation(version, call, is_v3=is_v3),
                "parameters": parameters,
            },
        )


def _operation(version: str, call: _Call, *, is_v3: bool) -> JsonObject:
    words = re.findall(r"[a-zA-Z]+", call.path)
    operation: JsonObject = {
        "description": call.about,
        "operationId": f"{call.method}{version.capitalize()}Subresources{''.join(map(str.capitalize, words))}",
        "responses": {code: {"description": text} for code, text in _ANSWERS.items()},
    }
    if call.method not in _BODIES:
        return operation
    if is_v3:
        return {**operation, "requestBody": {"content": {"*/*": {"schema": {"type": "object"}}}}}
    body = {"name": "body", "in": "body", "schema": {"type": "object"}}
    return {**operation, "consumes": ["*/*"], "parameters": [body]}


def _parameter(name: str, *, is_v3: bool) -> JsonObject:
    found: JsonObject = {"name": name, "in": "path", "required": True, "description": _ABOUT[name]}
    return {**found, "schema": {"type": "string"}} if is_v3 else {**found, "type": "string"}
