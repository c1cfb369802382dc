"""OpenAPI schemas, in the structural form that CRDs need, from the types in this folder.

Called by crd_manifest.py. Touches nothing. Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`) wherever a
user writes, because pruning happens before admission sees an object: a misspelt field would vanish in silence. The
webhook then refuses what it does not know, with the path and the nearest known name. What roles write is pruned.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

import msgspec.inspect as shapes

from kvedge.resources.codec import JsonObject, shape_of
from kvedge.resources.manifests.field_descriptions import DESCRIPTIONS
from kvedge.resources.meta import ObjectMeta

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final[JsonObject] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
# A structural schema cannot say "a number or a text": a type may be named for integers and texts alone. YAML's
# `memory: 1.5` is a number, which Kubernetes' own kinds take for a quantity. The webhook judges the value.
_QUANTITY: Final[JsonObject] = {_PRESERVE: True}
_SNAKE: Final = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_METADATA_TEXT: Final = "Labels and annotations of what is made from this template."


class SchemaError(Exception):
    """A type has no structural schema; a defect of the type."""


def struct_schema(cls: type, *, keep_unknown: bool) -> JsonObject:
    """The schema of a typed document.

    Args:
        cls: a KubeStruct.
        keep_unknown: whether the API server keeps fields that the type does not have (see the module's text).

    Raises:
        SchemaError: when a field's type cannot be said in a structural schema.
    """
    shape = shape_of(cls)
    if not isinstance(shape, shapes.StructType):
        raise SchemaError(f"{cls.__name__} is no struct")
    return _struct(shape, keep_unknown)


def _struct(shape: shapes.StructType, keep_unknown: bool) -> JsonObject:
    if shape.cls is ObjectMeta:
        return _metadata_schema()
    schema: JsonObject = {"type": "object", "description": _docstring(shape.cls)}
    properties = {field.encode_name: _field(shape.cls, field, keep_unknown) for field in shape.fields}
    if properties:
        schema["properties"] = properties
    required = sorted(field.encode_name for field in shape.fields if field.required)
    if required:
        schema["required"] = required
    if keep_unknown:
        schema[_PRESERVE] = True
    return schema


def _field(owner: type, field: shapes.Field, keep_unknown: bool) -> JsonObject:
    schema = _schema(field.type, keep_unknown)
    text = DESCRIPTIONS.get(owner.__name__, {}).get(field.encode_name)
    if text is not None:
        schema["description"] = text
    return schema


def _schema(shape: shapes.Type, keep_unknown: bool) -> JsonObject:
    match shape:
        case shapes.Metadata():
            return _schema(shape.type, keep_unknown)
        case shapes.UnionType():
            return _union(shape, keep_unknown)
        case shapes.StructType():
            return _struct(shape, keep_unknown)
        case shapes.ListType():
            return {"type": "array", "items": _schema(shape.item_type, keep_unknown)}
        case shapes.DictType(value_type=shapes.AnyType()):
            return {"type": "object", _PRESERVE: True}
        case shapes.DictType():
            return {"type": "object", "additionalProperties": _schema(shape.value_type, keep_unknown)}
        case shapes.LiteralType():
            # msgspec keeps them in a set: in no order, and another one in each run.
            return {"type": "string", "enum": sorted(str(value) for value in shape.values)}
        case shapes.StrType():
            return {"type": "string"} if shape.pattern is None else {"type": "string", "pattern": shape.pattern}
        case shapes.BoolType():
            return {"type": "boolean"}
        case shapes.IntType():
            return {"type": "integer", "format": "int64"}
        case shapes.FloatType():
            return {"type": "number"}
        case shapes.AnyType():
            return {_PRESERVE: True}
        case _:
            raise SchemaError(f"{type(shape).__name__} has no structural schema")


def _union(shape: shapes.UnionType, keep_unknown: bool) -> JsonObject:
    parts = [part for part in shape.types if not isinstance(part, shapes.NoneType)]
    if len(parts) == 1:
        # A null is dropped by the API server, as the field is not nullable.
        return _schema(parts[0], keep_unknown)
    if all(isinstance(part, (shapes.StrType, shapes.IntType, shapes.FloatType)) for part in parts):
        return dict(_QUANTITY if any(isinstance(part, shapes.FloatType) for part in parts) else _INT_OR_STRING)
    raise SchemaError("a union of more than text and numbers has no structural schema")


def _metadata_schema() -> JsonObject:
    """Metadata of a template: copied fields are typed; Go clients' `creationTimestamp: null` is accepted."""
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    return {
        "type": "object",
        "description": _METADATA_TEXT,
        "nullable": True,
        "properties": {
            "labels": {**texts, "description": "Labels, copied as they are."},
            "annotations": {**texts, "description": "Annotations, copied as they are."},
        },
        _PRESERVE: True,
    }


def _docstring(cls: type) -> str:
    text = " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split()).replace("`", "")
    # Docstrings name fields as Python does.
    return _SNAKE.sub(_camel, text)


def _camel(match: re.Match[str]) -> str:
    first, *rest = match[0].split("_")
    return first + "".join(word.capitalize() for word in rest)
