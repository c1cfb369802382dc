"""Whether the schema of a CRD is structural, which pruning and defaulting rest upon, and stays within what we validate.

Called by crd_rules. Pure; all causes at once, in apiextensions' words. Rules in CEL (x-kubernetes-validations) are
refused: they would be skipped silently otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.schema.string_formats import compile_pattern
from kvedge.standalone.apiserver.schema.structural_schema import prune, validate
from kvedge.standalone.apiserver.wire.api_errors import FieldError, first_errors
from kvedge.standalone.apiserver.wire.causes import forbidden, invalid, not_supported_error, required_error
from kvedge.standalone.apiserver.wire.json_values import same
from kvedge.standalone.apiserver.wire.told import member_path

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_STR: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_CEL: Final = "x-kubernetes-validations"
_NOT_SUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
# Inside of allOf, anyOf, oneOf and not only conditions on values may stand, and these are something else.
_NOT_NESTED: Final[Mapping[str, str]] = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _PRESERVE: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_STR: "must be false to be structural",
    _LIST_KEYS: "must be empty to be structural",
    _LIST_TYPE: "must be undefined to be structural",
    _MAP_TYPE: "must be undefined to be structural",
    _CEL: "must be empty to be structural",
}


def check_schema(schema: JsonObject, path: str) -> list[FieldError]:
    """What is wrong with the root schema of a version: the first errors."""
    nullable = [forbidden(f"{path}.nullable", "nullable cannot be true at the root")] if schema.get("nullable") else []
    return first_errors(chain(_check_node(schema, path, "root"), nullable))


def _check_node(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    yield from _check_keywords(schema, path)
    yield from _check_type(schema, path, level)
    yield from _check_children(schema, path, level)
    yield from _check_list(schema, path)
    yield from _check_metadata(schema, path, level)
    yield from _check_conditions(schema, path)
    yield from _check_default(schema, path, level)


def _check_keywords(schema: JsonObject, path: str) -> Iterator[FieldError]:
    for keyword in _NOT_SUPPORTED:
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get(_CEL):
        text = "validation rules in CEL are not supported by kvedge; remove them or express them as keywords"
        yield forbidden(f"{path}.{_CEL}", text)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    if schema.get("properties") and "additionalProperties" in schema:
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    if schema.get(_PRESERVE) is False:
        yield invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    for other in (_PRESERVE, _EMBEDDED):
        if schema.get(_INT_STR) and schema.get(other):
            yield invalid(f"{path}.{other}", True, f"must be false if {_INT_STR} is true")
    if schema.get(_MAP_TYPE) not in {None, "atomic", "granular"}:
        yield not_supported_error(f"{path}.{_MAP_TYPE}", schema[_MAP_TYPE], ("atomic", "granular"))
    if schema.get(_MAP_TYPE) and schema.get("type") != "object":
        yield _needs_type(schema, path, f"must be object if {_MAP_TYPE} is specified")


def _check_type(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in _TYPES:
        yield not_supported_error(f"{path}.type", kind, _TYPES)
    if schema.get(_EMBEDDED) and kind != "object":
        yield _needs_type(schema, path, f"must be object if {_EMBEDDED} is true")
    elif not kind and not schema.get(_INT_STR) and not schema.get(_PRESERVE):
        words = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
        yield required_error(f"{path}.type", f"must not be empty {words[level]}")
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")


def _check_children(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        yield required_error(f"{path}.items", "must be specified")
    if isinstance(items, list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif isinstance(items, dict):
        yield from _check_node(items, f"{path}.items", "item")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _check_node(inner, member_path(f"{path}.properties", name), "field")
    if additional is None:
        return
    if level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get(_EMBEDDED):
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if isinstance(additional, dict):
        yield from _check_node(additional, f"{path}.additionalProperties", "field")


def _check_list(schema: JsonObject, path: str) -> Iterator[FieldError]:
    kind, keys = schema.get(_LIST_TYPE), schema.get(_LIST_KEYS) or []
    if kind not in {None, "atomic", "set", "map"}:
        yield not_supported_error(f"{path}.{_LIST_TYPE}", kind, ("atomic", "set", "map"))
    if kind and schema.get("type") != "array":
        yield _needs_type(schema, path, f"must be array if {_LIST_TYPE} is specified")
    if keys and kind != "map":
        yield invalid(f"{path}.{_LIST_TYPE}", kind, f"must be map if {_LIST_KEYS} is non-empty")
    if kind != "map":
        return
    if not keys:
        yield required_error(f"{path}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if len(set(keys)) < len(keys):
        yield invalid(f"{path}.{_LIST_KEYS}", keys, "must not contain duplicate entries")
    items = schema.get("items")
    if not isinstance(items, dict):
        yield required_error(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", text)
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is map")
    required_names = set(items.get("required") or [])
    for key in keys:
        yield from _check_list_key(key, items, path, keys, key in required_names)


def _check_list_key(key: str, items: JsonObject, path: str, keys: list[str], is_required: bool) -> Iterator[FieldError]:
    found = (items.get("properties") or {}).get(key)
    where = member_path(f"{path}.items.properties", key)
    if found is None:
        yield invalid(f"{path}.{_LIST_KEYS}", keys, "entries must all be names of item properties")
        return
    if found.get("type") not in _SCALARS:
        text = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{where}.type", found.get("type") or "", text)
    if found.get("default") is None and not is_required:
        text = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
        yield required_error(f"{where}.default", text)
    if found.get("nullable"):
        yield forbidden(f"{where}.nullable", f"this property is in {_LIST_KEYS}, so it cannot be nullable")


def _check_metadata(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    if level != "root" and not schema.get(_EMBEDDED):
        return
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in properties and properties[name].get("type") != kind:
            where = f"{path}.properties[{name}].type"
            yield invalid(where, properties[name].get("type") or "", f"must be {kind}")
    if level == "root" and "metadata" in properties:
        metadata = {key: value for key, value in properties["metadata"].items() if key != "type"}
        named = set(metadata.pop("properties", {}))
        if metadata or not named <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(f"{path}.properties[metadata]", text)
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) and not properties:
        text = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        yield required_error(f"{path}.properties", text)


def _check_conditions(schema: JsonObject, path: str) -> Iterator[FieldError]:
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, text)
    for keyword in ("allOf", "anyOf", "oneOf"):
        conditions = schema.get(keyword) or []
        if keyword == "anyOf" and same(conditions, _INT_OR_STRING):
            # The one use of types in a condition that is allowed: how controller-gen writes int-or-string.
            continue
        for index, inner in enumerate(conditions):
            yield from _check_nested(inner, f"{path}.{keyword}[{index}]")
    if schema.get("not") is not None:
        yield from _check_nested(schema["not"], f"{path}.not")


def _check_nested(schema: JsonObject, path: str) -> Iterator[FieldError]:
    for keyword, text in _NOT_NESTED.items():
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", text)
    yield from _check_conditions(schema, path)
    if isinstance(schema.get("items"), dict):
        yield from _check_nested(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        if name == "metadata":
            yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
        yield from _check_nested(inner, member_path(f"{path}.properties", name))


def _check_default(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    default: Any = schema.get("default")
    if default is None:
        return
    if level == "root":
        yield forbidden(f"{path}.default", "must not be set at the root")
        return
    for error in validate(schema, default, f"{path}.default"):
        yield FieldError(error.type, error.field, error.message, error.bad_value)
    _, unknown = prune({"properties": {"default": schema}}, {"default": default})
    if unknown:
        yield invalid(f"{path}.default", default, "must not have unspecified fields")


def _needs_type(schema: JsonObject, path: str, text: str) -> FieldError:
    kind = schema.get("type")
    return invalid(f"{path}.type", kind, text) if kind else required_error(f"{path}.type", text)
