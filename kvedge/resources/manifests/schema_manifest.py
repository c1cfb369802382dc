"""OpenAPI schemas, in the structural form that CRDs need, from the types in this folder.

Called by crd_manifest.py. Touches nothing. Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`) wherever a
user writes, because pruning happens before admission sees an object: a misspelt field would vanish in silence. The
webhook then refuses what it does not know, with the path and the nearest known name. What roles write is pruned.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Final

import msgspec.inspect as shapes

from kvedge.resources.codec import JsonObject, shapes_of
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


class Schemas:
    """Schemas of documents; a type that is a part of many of them is written once, and is one object in all of them."""

    def __init__(self, classes: Sequence[type]) -> None:
        """`classes` are the KubeStructs of the documents."""
        # All at once: a VMI's types are in five kinds, and to look at them took half of the time of all schemas.
        self._shapes = dict(zip(classes, shapes_of(classes), strict=True))
        self._written: dict[tuple[type, bool], JsonObject] = {}

    def schema(self, cls: type, *, keep_unknown: bool) -> JsonObject:
        """The schema of a typed document. Its own keys and properties are the caller's to change, no parts of those.

        Args:
            cls: one of the classes.
            keep_unknown: whether the API server keeps fields that the type does not have (see the module's text).

        Raises:
            SchemaError: when a field's type cannot be said in a structural schema.
        """
        shape = self._shapes[cls]
        if not isinstance(shape, shapes.StructType):
            raise SchemaError(f"{cls.__name__} is no struct")
        schema = dict(self._struct(shape, keep_unknown))
        if "properties" in schema:
            schema["properties"] = {name: dict(field) for name, field in schema["properties"].items()}
        return schema

    def _struct(self, shape: shapes.StructType, keep_unknown: bool) -> JsonObject:
        key = (shape.cls, keep_unknown)
        if key not in self._written:
            self._written[key] = self._write_struct(shape, keep_unknown)
        return self._written[key]

    def _write_struct(self, shape: shapes.StructType, keep_unknown: bool) -> JsonObject:
        if shape.cls is ObjectMeta:
            return _metadata_schema()
        schema: JsonObject = {"type": "object", "description": _docstring(shape.cls)}
        properties = {field.encode_name: self._field(shape.cls, field, keep_unknown) for field in shape.fields}
        if properties:
            schema["properties"] = properties
        required = sorted(field.encode_name for field in shape.fields if field.required)
        if required:
            schema["required"] = required
        if keep_unknown:
            schema[_PRESERVE] = True
        return schema

    def _field(self, owner: type, field: shapes.Field, keep_unknown: bool) -> JsonObject:
        schema = self._schema(field.type, keep_unknown)
        text = DESCRIPTIONS.get(owner.__name__, {}).get(field.encode_name)
        return schema if text is None else {**schema, "description": text}

    def _schema(self, shape: shapes.Type, keep_unknown: bool) -> JsonObject:
        match shape:
            case shapes.Metadata():
                return self._schema(shape.type, keep_unknown)
            case shapes.UnionType():
                return self._union(shape, keep_unknown)
            case shapes.StructType():
                return self._struct(shape, keep_unknown)
            case shapes.ListType():
                return {"type": "array", "items": self._schema(shape.item_type, keep_unknown)}
            case shapes.DictType(value_type=shapes.AnyType()):
                return {"type": "object", _PRESERVE: True}
            case shapes.DictType():
                return {"type": "object", "additionalProperties": self._schema(shape.value_type, keep_unknown)}
            case _:
                return _plain(shape)

    def _union(self, shape: shapes.UnionType, keep_unknown: bool) -> JsonObject:
        parts = [part for part in shape.types if not isinstance(part, shapes.NoneType)]
        if len(parts) == 1:
            # A null is dropped by the API server, as the field is not nullable.
            return self._schema(parts[0], keep_unknown)
        if all(isinstance(part, (shapes.StrType, shapes.IntType, shapes.FloatType)) for part in parts):
            return dict(_QUANTITY if any(isinstance(part, shapes.FloatType) for part in parts) else _INT_OR_STRING)
        raise SchemaError("a union of more than text and numbers has no structural schema")


def struct_schema(cls: type, *, keep_unknown: bool) -> JsonObject:
    """The schema of one typed document, as :meth:`Schemas.schema` has it.

    Raises:
        SchemaError: when a field's type cannot be said in a structural schema.
    """
    return Schemas([cls]).schema(cls, keep_unknown=keep_unknown)


def _plain(shape: shapes.Type) -> JsonObject:
    match shape:
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
