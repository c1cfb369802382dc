"""What another server says of its API is taken as far as it is its own, and can be written in each encoding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.api.open_api_manifest import open_api_v2, open_api_v3
from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.aggregation.aggregation_rules import AggregatedApi
from kvedge.standalone.apiserver.aggregation.foreign_openapi import LARGEST_DOCUMENT, add_v2, read_document, take_v3
from kvedge.standalone.apiserver.routes import openapi_protobuf
from tests.unit.standalone.apiserver import swagger_message

OWN: JsonObject = {
    "swagger": "2.0",
    "info": {"title": "ours", "version": "1"},
    "paths": {"/api/v1/pods": {"get": {"operationId": "listPods", "responses": {}}}},
    "definitions": {"Pod": {"type": "object"}},
}


def api(group: str = "subresources.kubevirt.io", version: str = "v1") -> AggregatedApi:
    return AggregatedApi(f"{version}.{group}", group, version, "kvedge", "api", 443, "", False, 1, 1)


def test_the_paths_of_the_api_role_come_into_ours_and_into_protobuf() -> None:
    merged = add_v2(OWN, open_api_v2(), api())
    start = "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}/start"
    assert {"/api/v1/pods", start} <= merged["paths"].keys()
    assert not [path for path in merged["paths"] if "v1alpha3" in path], "that is another API"
    message = swagger_message.parse(openapi_protobuf.encode(merged))
    (found,) = [item.value for item in message.paths.path if item.name == start]
    assert found.put.operation_id == "putV1SubresourcesNamespacesNamespaceVirtualmachinesNameStart"
    assert [each.parameter.body_parameter.name for each in found.put.parameters] == ["body"]


def test_a_server_speaks_for_its_own_paths_and_takes_no_name_of_ours() -> None:
    foreign = {
        "paths": {
            "/api/v1/pods": {"get": {"operationId": "stolen"}},
            "/apis/agg.example.com/v10/things": {"get": {}},
            "/apis/agg.example.com/v1/things": {"get": {"operationId": "listThings"}},
        },
        "definitions": {"Pod": {"type": "string"}, "Thing": {"type": "object"}, "Bad": 1},
    }
    merged = add_v2(OWN, foreign, api("agg.example.com"))
    assert merged["paths"].keys() == {"/api/v1/pods", "/apis/agg.example.com/v1/things"}
    assert merged["paths"]["/api/v1/pods"]["get"]["operationId"] == "listPods"
    assert merged["definitions"] == {"Pod": {"type": "object"}, "Thing": {"type": "object"}}


def test_parameters_that_are_shared_stand_where_they_are_used() -> None:
    foreign = {
        "parameters": {"namespace-x": {"name": "namespace", "in": "path", "type": "string", "required": True}},
        "paths": {
            "/apis/agg.example.com/v1/things": {
                "parameters": [{"$ref": "#/parameters/namespace-x"}, {"$ref": "#/parameters/none"}],
                "get": {"operationId": "listThings"},
            }
        },
    }
    item = add_v2(OWN, foreign, api("agg.example.com"))["paths"]["/apis/agg.example.com/v1/things"]
    assert [parameter["name"] for parameter in item["parameters"]] == ["namespace"]


@pytest.mark.parametrize(
    "item",
    [
        {"get": 1, "put": {"parameters": "x", "responses": [], "consumes": "y"}},
        {"get": {"parameters": [None, {"in": "body", "name": "b"}, {"in": "header", "name": "h", "type": "string"}]}},
        {"get": {"responses": {"200": None, "404": {"description": 5, "schema": "no"}}, "description": []}},
        {"parameters": {}, "servers": [], "get": {"x-word": {"a": 1}, "operationId": 7}},
    ],
)
def test_what_makes_no_sense_spoils_nothing(item: Any) -> None:
    merged = add_v2(OWN, {"paths": {"/apis/agg.example.com/v1/things": item}}, api("agg.example.com"))
    message = swagger_message.parse(openapi_protobuf.encode(merged))
    assert {each.name for each in message.paths.path} == {"/api/v1/pods", "/apis/agg.example.com/v1/things"}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"paths": {}}'),
        (200, b"no JSON"),
        (200, b"[" * 100_000),
        (200, b'{"paths": []}'),
        (200, b'{"paths": {}, "x": "' + b"y" * LARGEST_DOCUMENT + b'"}'),
    ],
    ids=["not found", "no JSON", "deep", "no paths", "long"],
)
def test_what_is_no_document_is_none(status: int, body: bytes) -> None:
    assert read_document(status, body) is None


def test_an_openapi_3_document_has_the_paths_of_its_api_alone() -> None:
    document = read_document(200, json.dumps(open_api_v3("v1")).encode())
    assert document is not None
    document["paths"]["/api/v1/pods"] = {}
    taken = take_v3(document, api())["paths"]
    assert taken.keys() == open_api_v3("v1")["paths"].keys()
