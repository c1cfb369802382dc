"""Objects of built-in kinds brought into the shape of their type, as decoding into a Go struct does.

Called by the server before defaults and rules, which may then rely on the types. Pure; the input is not touched.
"""

from __future__ import annotations

import base64

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import schema_of
from kvedge.standalone.apiserver.schema.schema_constraints import type_error
from kvedge.standalone.apiserver.schema.string_formats import INTEGER_FORMATS
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, type_word
from kvedge.standalone.apiserver.wire.told import child, note

_GO_TYPES = {"object": "struct", "array": "slice", "string": "string", "boolean": "bool", "integer": "int64"}


def decode(kind: ServedKind, obj: JsonObject) -> tuple[JsonObject, list[str]]:
    """The object without nulls and unknown fields, and the sorted paths of the unknown ones.

    Raises:
        BadRequest: when a value is of another type than its field, naming the field.
    """
    schema = schema_of(kind.group, kind.kind)
    if schema is None:
        return clone(obj), []
    unknown: list[str] = []
    try:
        decoded: JsonObject = _decode(obj, schema, "", unknown)
    except _WrongType as error:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise BadRequest(text) from error
    return decoded, sorted(unknown)


class _WrongType(ValueError):
    """A value that does not fit its field."""


def _decode(value: JsonValue, schema: JsonObject, path: str, unknown: list[str]) -> JsonValue:
    if type_error(schema, value, path) is not None:
        wanted = _GO_TYPES.get(str(schema.get("type")), "intstr.IntOrString")
        raise _WrongType(f"json: cannot unmarshal {type_word(value)} into Go struct field {path} of type {wanted}")
    if isinstance(value, dict):
        return _decode_object(value, schema, path, unknown)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_decode(item, items, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    _check_scalar(value, schema, path)
    return value


def _decode_object(value: JsonObject, schema: JsonObject, path: str, unknown: list[str]) -> JsonObject:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties is None and additional is None:
        # Nothing is said of what is inside.
        return dict(clone(value))
    decoded = {}
    for key, item in value.items():
        where = child(path, key)
        inner = (properties or {}).get(key, additional)
        if inner is None:
            note(unknown, where)
        elif item is not None:
            decoded[key] = _decode(item, inner, where, unknown)
    return decoded


def _check_scalar(value: JsonValue, schema: JsonObject, path: str) -> None:
    if isinstance(value, float) and schema.get("x-kubernetes-int-or-string"):
        raise _WrongType(f"json: cannot unmarshal number {value} into Go struct field {path} of type int32 or string")
    name = schema.get("format", "")
    if name in INTEGER_FORMATS and not INTEGER_FORMATS[name][0] <= value <= INTEGER_FORMATS[name][1]:
        raise _WrongType(f"json: cannot unmarshal number {value} into Go struct field {path} of type {name}")
    if name == "byte":
        try:
            base64.b64decode(value, validate=True)
        except ValueError as error:
            raise _WrongType(f"illegal base64 data in {path}") from error
