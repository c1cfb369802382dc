"""OpenAPI documents: what kubectl explains from and validates with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.resources.manifests.crd_manifest import crds
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind, kinds_of_crd
from kvedge.standalone.apiserver.routes import openapi_manifest, openapi_protobuf
from kvedge.standalone.apiserver.routes.openapi_schemas import V2, V3, schema_name, schemas_of
from tests.unit.standalone.apiserver import swagger_message

KINDS = [*BUILT_IN, *(kind for crd in crds() for kind in kinds_of_crd(crd))]
INDEX = KindIndex(KINDS)
V2_DOCUMENT = openapi_manifest.v2_document(KINDS, "v0.1")
V3_DOCUMENTS = openapi_manifest.v3_documents(KINDS, "v0.1")


def kind_of(api_version: str, kind: str) -> ServedKind:
    found = INDEX.of(api_version, kind)
    assert found is not None
    return found


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def test_every_reference_leads_somewhere() -> None:
    definitions = V2_DOCUMENT["definitions"]
    assert {name.removeprefix("#/definitions/") for name in references(V2_DOCUMENT)} <= set(definitions)
    for document in V3_DOCUMENTS.values():
        schemas = document["components"]["schemas"]
        assert {name.removeprefix("#/components/schemas/") for name in references(document)} <= set(schemas)


def test_there_is_a_document_for_each_group_and_version_and_its_address_changes_with_it() -> None:
    index = openapi_manifest.v3_index(V3_DOCUMENTS)["paths"]
    assert {"api/v1", "apis/kubevirt.io/v1", "apis/coordination.k8s.io/v1"} <= set(index)
    url = index["api/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/api/v1?hash=")
    changed = {**V3_DOCUMENTS, "api/v1": {**V3_DOCUMENTS["api/v1"], "info": {"title": "x", "version": "y"}}}
    assert openapi_manifest.v3_index(changed)["paths"]["api/v1"]["serverRelativeURL"] != url


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "patch" in kind.verbs], ids=lambda kind: kind.qualified + kind.version
)
def test_kubectl_finds_each_kind_its_schema_and_what_its_patch_can_be_asked_for(kind: ServedKind) -> None:
    root = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
    paths = V3_DOCUMENTS[root]["paths"]
    place = "/namespaces/{namespace}" if kind.namespaced else ""
    item = paths[f"/{root}{place}/{kind.plural}/{{name}}"]["patch"]
    marks = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    assert item["x-kubernetes-group-version-kind"] == marks
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= {one["name"] for one in item["parameters"]}
    assert paths[f"/{root}{place}/{kind.plural}"]["get"]["x-kubernetes-group-version-kind"] == marks
    schema = V3_DOCUMENTS[root]["components"]["schemas"][schema_name(kind)]
    assert schema["x-kubernetes-group-version-kind"] == [marks]


def test_a_built_in_field_is_described_with_its_type_and_merge_key() -> None:
    schemas = V3_DOCUMENTS["api/v1"]["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    resources = schemas["io.k8s.api.core.v1.Container"]["properties"]["resources"]
    assert resources["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ResourceRequirements"}]
    assert resources["description"] == "What the container needs, and the most it may use."
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]


def test_a_custom_kind_is_described_by_its_schema_with_real_metadata() -> None:
    name = schema_name(kind_of("kubevirt.io/v1", "VirtualMachine"))
    assert name == "io.kubevirt.v1.VirtualMachine"
    schema = V3_DOCUMENTS["apis/kubevirt.io/v1"]["components"]["schemas"][name]
    assert "spec" in schema["properties"]
    assert "ObjectMeta" in schema["properties"]["metadata"]["allOf"][0]["$ref"]


def test_an_older_kubectl_is_not_told_what_it_cannot_understand() -> None:
    schema = {
        "type": "object",
        "properties": {
            "size": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "free": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"a": {"type": "string"}},
            },
            "maybe": {"type": "string", "nullable": True},
            "list": {"type": "array", "items": {"type": "object", "oneOf": [{"required": ["a"]}]}},
        },
    }
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    kind = ServedKind("e.x", "v1", "Box", "boxes", crd={}, crd_version=version)
    properties = schemas_of([kind], V2)["x.e.v1.Box"]["properties"]
    assert properties["size"] == {"x-kubernetes-int-or-string": True}
    assert properties["free"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert properties["maybe"] == {}
    assert properties["list"] == {"type": "array", "items": {"type": "object"}}
    assert schemas_of([kind], V3)["x.e.v1.Box"]["properties"]["size"]["anyOf"]


def test_a_kind_of_which_nothing_is_known_takes_anything() -> None:
    version = {
        "name": "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    kind = ServedKind("e.x", "v1", "Box", "boxes", crd={}, crd_version=version)
    assert "properties" not in schemas_of([kind], V2)["x.e.v1.Box"]


def test_the_protobuf_form_says_what_the_json_form_says() -> None:
    message = swagger_message.parse(openapi_protobuf.encode(V2_DOCUMENT))
    assert (message.swagger, message.info.version) == ("2.0", "v0.1")
    assert [path.name for path in message.paths.path] == list(V2_DOCUMENT["paths"])
    found = {item.name: item.value for item in message.definitions.additional_properties}
    assert set(found) == set(V2_DOCUMENT["definitions"])
    for name, definition in V2_DOCUMENT["definitions"].items():
        assert_same_schema(found[name], definition)


def assert_same_schema(message: Any, schema: dict[str, Any]) -> None:
    assert getattr(message, "_ref") == schema.get("$ref", "")  # noqa: B009 - a leading underscore
    assert message.description == schema.get("description", "")
    assert message.format == schema.get("format", "")
    assert list(message.type.value) == ([schema["type"]] if "type" in schema else [])
    assert list(message.required) == (schema.get("required") or [])
    extensions = {item.name: json.loads(item.value.yaml) for item in message.vendor_extension}
    assert extensions == {key: value for key, value in schema.items() if key.startswith("x-")}
    properties = {item.name: item.value for item in message.properties.additional_properties}
    assert set(properties) == set(schema.get("properties") or {})
    for name, inner in (schema.get("properties") or {}).items():
        assert_same_schema(properties[name], inner)
    if isinstance(schema.get("items"), dict):
        assert_same_schema(message.items.schema[0], schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        assert_same_schema(message.additional_properties.schema, schema["additionalProperties"])


def test_numbers_flags_and_enums_survive_the_protobuf_form() -> None:
    schema = {
        "type": "integer",
        "minimum": -1.5,
        "maximum": 10,
        "maxLength": 300,
        "minItems": 0,
        "enum": [1, "a"],
        "default": {"a": 1},
    }
    document = {"swagger": "2.0", "info": {"title": "t", "version": "v"}, "paths": {}, "definitions": {"a": schema}}
    found = swagger_message.parse(openapi_protobuf.encode(document)).definitions.additional_properties[0].value
    assert (found.minimum, found.maximum, found.max_length, found.default.yaml) == (-1.5, 10, 300, '{"a":1}')
    assert [item.yaml for item in found.enum] == ["1", '"a"']


def test_the_operations_survive_the_protobuf_form() -> None:
    message = swagger_message.parse(openapi_protobuf.encode(V2_DOCUMENT))
    path = next(item.value for item in message.paths.path if item.name == "/api/v1/namespaces/{namespace}/pods/{name}")
    assert json.loads(path.patch.vendor_extension[1].value.yaml) == {"group": "", "version": "v1", "kind": "Pod"}
    queries = [item.parameter.non_body_parameter.query_parameter_sub_schema.name for item in path.patch.parameters]
    assert {"dryRun", "fieldValidation"} <= set(queries)
    assert [item.parameter.non_body_parameter.path_parameter_sub_schema.name for item in path.parameters] == [
        "namespace",
        "name",
    ]
    assert path.put.parameters[0].parameter.body_parameter.required


def test_the_messages_are_loaded_with_the_first_document_only() -> None:
    program = """
import sys
from kvedge.standalone.apiserver.routes import openapi_protobuf, openapi_routes
assert "google.protobuf" not in sys.modules
document = {"swagger": "2.0", "info": {"title": "t", "version": "v"}, "paths": {}, "definitions": {}}
assert openapi_protobuf.encode(document).startswith(b"\\x0a\\x032.0")
assert "kvedge.rpc.openapi_v2_pb2" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
