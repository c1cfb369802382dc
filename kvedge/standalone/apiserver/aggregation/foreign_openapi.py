"""What is taken of another server's OpenAPI documents: the paths of its own group and version, and the schemas beside.

Used by the routes that serve these documents. Pure. Another server may say anything: what is no path of its own, or
cannot be written as a document of ours, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.aggregation.aggregation_rules import AggregatedApi

# A document of a hundred kinds is as long. A longer one would hold up others while it is read.
LARGEST_DOCUMENT: Final = 4 << 20
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_PLACES: Final = frozenset({"path", "query"})
_SHARED: Final = "#/parameters/"


def read_document(status: int, body: bytes) -> JsonObject | None:
    """The document that a server has answered with; None when that is none."""
    if status != 200 or len(body) > LARGEST_DOCUMENT:
        return None
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return document if isinstance(document, dict) and isinstance(document.get("paths"), dict) else None


def add_v2(document: JsonObject, foreign: JsonObject, api: AggregatedApi) -> JsonObject:
    """A Swagger 2.0 document of ours with the paths of this API; a schema of ours keeps its name."""
    paths = {path: _take_item(item, _mapping(foreign, "parameters")) for path, item in _own_paths(foreign, api)}
    definitions = {name: item for name, item in _mapping(foreign, "definitions").items() if isinstance(item, dict)}
    return {
        **document,
        "paths": {**paths, **document["paths"]},
        "definitions": {**definitions, **document["definitions"]},
    }


def take_v3(foreign: JsonObject, api: AggregatedApi) -> JsonObject:
    """Its OpenAPI 3 document of this API."""
    return {**foreign, "paths": dict(_own_paths(foreign, api))}


def root_of(api: AggregatedApi) -> str:
    """Where it answers."""
    return f"/apis/{api.group}/{api.version}"


def _own_paths(foreign: JsonObject, api: AggregatedApi) -> Iterator[tuple[str, Any]]:
    root = root_of(api)
    for path, item in foreign["paths"].items():
        if isinstance(item, dict) and (path == root or path.startswith(f"{root}/")):
            yield path, item


def _mapping(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _take_item(item: Mapping[str, Any], shared: Mapping[str, Any]) -> JsonObject:
    operations = {method: item[method] for method in _METHODS if isinstance(item.get(method), dict)}
    taken: JsonObject = {method: _take_operation(each, shared) for method, each in operations.items()}
    if parameters := list(_take_parameters(item.get("parameters"), shared)):
        taken["parameters"] = parameters
    return taken


def _take_operation(operation: Mapping[str, Any], shared: Mapping[str, Any]) -> JsonObject:
    taken: JsonObject = {
        "description": _text(operation.get("description")),
        "operationId": _text(operation.get("operationId")),
        "responses": dict(_take_responses(_mapping(operation, "responses"))),
    }
    for name in ("consumes", "produces"):
        found = operation.get(name)
        if isinstance(found, list):
            taken[name] = [each for each in found if isinstance(each, str)]
    if parameters := list(_take_parameters(operation.get("parameters"), shared)):
        taken["parameters"] = parameters
    return taken | {name: value for name, value in operation.items() if name.startswith("x-")}


def _take_parameters(found: object, shared: Mapping[str, Any]) -> Iterator[JsonObject]:
    for each in found if isinstance(found, list) else ():
        parameter = each
        if isinstance(each, dict) and isinstance(each.get("$ref"), str):
            parameter = shared.get(each["$ref"].removeprefix(_SHARED))
        if not isinstance(parameter, dict) or not isinstance(parameter.get("name"), str):
            continue
        is_body = parameter.get("in") == "body" and isinstance(parameter.get("schema"), dict)
        if is_body or (parameter.get("in") in _PLACES and isinstance(parameter.get("type"), str)):
            yield {**parameter, "description": _text(parameter.get("description"))}


def _take_responses(found: Mapping[str, Any]) -> Iterator[tuple[str, JsonObject]]:
    for code, response in found.items():
        if isinstance(response, dict):
            taken: JsonObject = {"description": _text(response.get("description"))}
            if isinstance(response.get("schema"), dict):
                taken["schema"] = response["schema"]
            yield code, taken


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
