"""The Swagger 2.0 document in protobuf: the only form in which kubectl asks for it.

Called by the server for clients that accept one of `ACCEPTED`. Pure. The messages are those of proto/gnostic; the
generated module is loaded with the first such request, so that a server without such clients does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.resources.values.whole_numbers import INT64
from kvedge.standalone.apiserver.wire.json_values import compact

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from kvedge.rpc import openapi_v2_pb2 as messages

ACCEPTED: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
# Clients ask with an @, which Go's parser of media types refuses in an answer.
CONTENT_TYPE: Final = ACCEPTED[1]

# Keywords of a schema and the fields of the message that hold them.
_AS_THEY_ARE: Final = {
    "$ref": "_ref",
    "format": "format",
    "title": "title",
    "description": "description",
    "pattern": "pattern",
    "multipleOf": "multiple_of",
    "maximum": "maximum",
    "minimum": "minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "uniqueItems": "unique_items",
    "readOnly": "read_only",
}
_COUNTS: Final = {
    "maxLength": "max_length",
    "minLength": "min_length",
    "maxItems": "max_items",
    "minItems": "min_items",
    "maxProperties": "max_properties",
    "minProperties": "min_properties",
}
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")


def encode(document: JsonObject) -> bytes:
    """The bytes of a Swagger 2.0 document."""
    from kvedge.rpc import openapi_v2_pb2

    info = document["info"]
    message = openapi_v2_pb2.Document(swagger=document["swagger"])
    message.info.title, message.info.version = info["title"], info["version"]
    # One without paths or definitions has them all the same, empty.
    message.paths.SetInParent()
    message.definitions.SetInParent()
    for path, item in document["paths"].items():
        _fill_path_item(message.paths.path.add(name=path).value, item)
    for name, schema in document["definitions"].items():
        _fill_schema(message.definitions.additional_properties.add(name=name).value, schema)
    return message.SerializeToString()


def _fill_schema(message: messages.Schema, schema: JsonObject) -> None:
    # An empty message is there, too: a schema that takes anything.
    message.SetInParent()
    for keyword, field in _AS_THEY_ARE.items():
        if schema.get(keyword):
            setattr(message, field, schema[keyword])
    for keyword, field in _COUNTS.items():
        if keyword in schema:
            setattr(message, field, max(INT64[0], min(schema[keyword], INT64[1])))
    if "default" in schema:
        message.default.yaml = compact(schema["default"])
    message.required.extend(schema.get("required") or [])
    for value in schema.get("enum") or []:
        message.enum.add(yaml=compact(value))
    if isinstance(schema.get("additionalProperties"), dict):
        _fill_schema(message.additional_properties.schema, schema["additionalProperties"])
    if schema.get("type"):
        message.type.value.append(schema["type"])
    if isinstance(schema.get("items"), dict):
        _fill_schema(message.items.schema.add(), schema["items"])
    for name, inner in (schema.get("properties") or {}).items():
        _fill_schema(message.properties.additional_properties.add(name=name).value, inner)
    _add_extensions(message.vendor_extension, schema)


def _fill_path_item(message: messages.PathItem, item: JsonObject) -> None:
    message.SetInParent()
    for method in _METHODS:
        if method in item:
            _fill_operation(getattr(message, method), item[method])
    _add_parameters(message.parameters, item.get("parameters") or [])


def _fill_operation(message: messages.Operation, operation: JsonObject) -> None:
    message.description, message.operation_id = operation.get("description", ""), operation["operationId"]
    message.produces.extend(operation.get("produces") or [])
    message.consumes.extend(operation.get("consumes") or [])
    _add_parameters(message.parameters, operation.get("parameters") or [])
    for code, response in operation["responses"].items():
        found = message.responses.response_code.add(name=code).value.response
        found.description = response["description"]
        if "schema" in response:
            _fill_schema(found.schema.schema, response["schema"])
    _add_extensions(message.vendor_extension, operation)


def _add_parameters(
    message: RepeatedCompositeFieldContainer[messages.ParametersItem], parameters: Iterable[JsonObject]
) -> None:
    """Bodies, queries and parts of the path."""
    for parameter in parameters:
        holder = message.add().parameter
        if parameter["in"] == "body":
            body = holder.body_parameter
            body.name, body.required = parameter["name"], parameter.get("required", False)
            # A name that Python keeps for itself.
            setattr(body, "in", "body")
            _fill_schema(body.schema, parameter["schema"])
            continue
        other = holder.non_body_parameter
        found = other.query_parameter_sub_schema if parameter["in"] == "query" else other.path_parameter_sub_schema
        found.name, found.type = parameter["name"], parameter["type"]
        found.description, found.required = parameter.get("description", ""), parameter.get("required", False)
        setattr(found, "in", parameter["in"])


def _add_extensions(
    message: RepeatedCompositeFieldContainer[messages.NamedAny], document: Mapping[str, JsonValue]
) -> None:
    """The keys that begin with x-. An Any holds YAML, which JSON is."""
    for key, value in document.items():
        if key.startswith("x-"):
            message.add(name=key).value.yaml = compact(value)
