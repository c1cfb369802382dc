"""The Swagger 2.0 document in protobuf: the only form in which kubectl asks for it.

Called by the server for clients that accept one of `ACCEPTED`. Pure. The messages are
gnostic's OpenAPIv2.proto; what is written here is their wire format (field number and type, length, bytes), as far as
our documents use it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.wire.json_values import compact

ACCEPTED: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
# Clients ask with an @, which Go's parser of media types refuses in an answer.
CONTENT_TYPE: Final = ACCEPTED[1]

_VARINT: Final = 0
_DOUBLE: Final = 1
_BYTES: Final = 2

# Field numbers of the Schema message, by the kind of value they hold.
_SCHEMA_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_DOUBLES: Final = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_FLAGS: Final = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16, "readOnly": 27}
_SCHEMA_COUNTS: Final = {
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "maxProperties": 17,
    "minProperties": 18,
}
_SCHEMA_EXTENSION: Final = 31
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def encode(document: JsonObject) -> bytes:
    """The bytes of a Swagger 2.0 document."""
    info = document["info"]
    parts = [
        _text(1, document["swagger"]),
        _message(2, _text(1, info["title"]) + _text(2, info["version"])),
        _message(8, _named(2, document["paths"], _path_item)),
        _message(9, _named(1, document["definitions"], _schema)),
    ]
    return b"".join(parts)


def _schema(schema: JsonObject) -> bytes:
    parts = [_text(number, schema[key]) for key, number in _SCHEMA_TEXTS.items() if schema.get(key)]
    parts += [_double(number, schema[key]) for key, number in _SCHEMA_DOUBLES.items() if key in schema]
    parts += [_flag(number, schema[key]) for key, number in _SCHEMA_FLAGS.items() if schema.get(key)]
    parts += [_count(number, schema[key]) for key, number in _SCHEMA_COUNTS.items() if key in schema]
    if "default" in schema:
        parts.append(_message(5, _any(schema["default"])))
    parts += [_text(19, name) for name in schema.get("required") or []]
    parts += [_message(20, _any(value)) for value in schema.get("enum") or []]
    if isinstance(schema.get("additionalProperties"), dict):
        parts.append(_message(21, _message(1, _schema(schema["additionalProperties"]))))
    if schema.get("type"):
        parts.append(_message(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if schema.get("properties"):
        parts.append(_message(25, _named(1, schema["properties"], _schema)))
    parts.append(_extensions(_SCHEMA_EXTENSION, schema))
    return b"".join(parts)


def _path_item(item: JsonObject) -> bytes:
    parts = [_message(number, _operation(item[method])) for method, number in _METHODS.items() if method in item]
    parts += [_message(9, _parameter(parameter)) for parameter in item.get("parameters") or []]
    return b"".join(parts)


def _operation(operation: JsonObject) -> bytes:
    parts = [_text(3, operation.get("description", "")), _text(5, operation["operationId"])]
    parts += [_text(6, media) for media in operation.get("produces") or []]
    parts += [_text(7, media) for media in operation.get("consumes") or []]
    parts += [_message(8, _parameter(parameter)) for parameter in operation.get("parameters") or []]
    parts.append(_message(9, _named(1, operation["responses"], _response)))
    parts.append(_extensions(13, operation))
    return b"".join(parts)


def _response(response: JsonObject) -> bytes:
    schema = _message(2, _message(1, _schema(response["schema"]))) if "schema" in response else b""
    return _message(1, _text(1, response["description"]) + schema)


def _parameter(parameter: JsonObject) -> bytes:
    """A ParametersItem: a body, a query or a part of the path."""
    required = _flag(4 if parameter["in"] == "body" else 1, parameter.get("required", False))
    if parameter["in"] == "body":
        body = _text(2, parameter["name"]) + _text(3, "body") + required + _message(5, _schema(parameter["schema"]))
        return _message(1, _message(1, body))
    is_query = parameter["in"] == "query"
    fields = required + _text(2, parameter["in"]) + _text(3, parameter.get("description", ""))
    fields += _text(4, parameter["name"]) + _text(6 if is_query else 5, parameter["type"])
    return _message(1, _message(2, _message(3 if is_query else 4, fields)))


def _extensions(number: int, document: JsonObject) -> bytes:
    """The keys that begin with x-, each as a NamedAny."""
    found = {key: value for key, value in document.items() if key.startswith("x-")}
    return _named(number, found, _any)


def _any(value: JsonValue) -> bytes:
    """An Any holds YAML, which JSON is."""
    return _text(2, compact(value))


def _named(number: int, items: Mapping[str, Any], encode_one: Callable[[Any], bytes]) -> bytes:
    """A map as gnostic has it: repeated messages of a name and a value."""
    return b"".join(_message(number, _text(1, name) + _message(2, encode_one(item))) for name, item in items.items())


def _message(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode()) if value else b""


def _flag(number: int, value: bool) -> bytes:
    return _tag(number, _VARINT) + b"\x01" if value else b""


def _count(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _tag(number, _DOUBLE) + struct.pack("<d", value)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    return bytes(_septets(value & (1 << 64) - 1))


def _septets(value: int) -> Iterable[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
