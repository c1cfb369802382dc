"""Structural schemas of CRDs: everything wrong with an object, its defaults, and what the schema does not know.

Called by the server before a custom resource is stored. Pure; the inputs are not touched. Paths and wording are those
of apiextensions-apiserver, so that kubectl and people read what they know. One difference: a failed oneOf, anyOf,
allOf or not names the field it is about, where the original names none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.schema.metadata_rules import check_embedded_object
from kvedge.standalone.apiserver.schema.schema_constraints import constraint_errors, type_error
from kvedge.standalone.apiserver.schema.string_formats import compile_pattern
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType, first_errors
from kvedge.standalone.apiserver.wire.json_values import clone, compact
from kvedge.standalone.apiserver.wire.told import child, member_path, note

_META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def validate(schema: JsonObject, value: JsonValue, path: str = "") -> list[FieldError]:
    """The first errors of a value that stands at `path`: of the schema, of embedded objects, of maps and sets in
    lists.
    """
    return first_errors(
        chain(
            _schema_errors(schema, value, path),
            _find_embedded_errors(schema, value, path),
            _list_type_errors(schema, value, path),
        )
    )


def apply_defaults(schema: JsonObject, value: JsonValue) -> JsonValue:
    """A copy with the defaults filled in; nulls that may not be are taken for absent, as the API server does."""
    if isinstance(value, dict):
        return _object_with_defaults(schema, value)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [apply_defaults(items, _or_default(items, item)) for item in value]
    return clone(value)


def prune(schema: JsonObject, value: JsonValue) -> tuple[JsonValue, list[str]]:
    """A copy without the fields that the schema does not know, and the sorted paths of those fields.

    The root's apiVersion, kind and metadata stay, and those of embedded objects.
    """
    unknown: list[str] = []
    kept = _prune({**schema, "x-kubernetes-embedded-resource": True}, value, "", unknown)
    return kept, sorted(unknown)


def _schema_errors(schema: JsonObject, value: JsonValue, path: str) -> Iterator[FieldError]:
    wrong_type = type_error(schema, value, path)
    if wrong_type is not None:
        yield wrong_type
    if value is None:
        yield from constraint_errors(schema, value, path)
        return
    yield from _combination_errors(schema, value, path)
    yield from constraint_errors(schema, value, path)
    if isinstance(value, dict):
        yield from _member_errors(schema, value, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _schema_errors(schema["items"], item, f"{path}[{index}]")


def _member_errors(schema: JsonObject, value: JsonObject, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    patterns = schema.get("patternProperties") or {}
    additional = schema.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            yield from _schema_errors(properties[key], item, child(path, key))
            continue
        matched = [found for pattern, found in patterns.items() if re.search(compile_pattern(pattern), key)]
        for found in matched:
            yield from _schema_errors(found, item, child(path, key))
        if not matched and isinstance(additional, dict):
            yield from _schema_errors(additional, item, child(path, key))
        elif not matched and additional is False:
            text = f"{child(path, key)} in body is a forbidden property"
            yield FieldError(FieldErrorType.INVALID, path, text, key)
    for key in schema.get("required") or []:
        if key not in value:
            yield FieldError(FieldErrorType.REQUIRED, child(path, key))


def _combination_errors(schema: JsonObject, value: JsonValue, path: str) -> Iterator[FieldError]:
    if schema.get("anyOf"):
        failures = _failures(schema["anyOf"], value, path)
        if all(failures):
            yield _combine(path, "must validate at least one schema (anyOf)")
            yield from min(failures, key=len)
    if schema.get("oneOf"):
        failures = _failures(schema["oneOf"], value, path)
        valid = sum(not failure for failure in failures)
        if valid != 1:
            found = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _combine(path, f"must validate one and only one schema (oneOf). {found}")
            if not valid:
                yield from min(failures, key=len)
    if schema.get("allOf"):
        failures = _failures(schema["allOf"], value, path)
        for failure in failures:
            yield from failure
        if any(failures):
            yield _combine(
                path, "must validate all the schemas (allOf)" + (". None validated" if all(failures) else "")
            )
    if schema.get("not") is not None and not any(True for _ in _schema_errors(schema["not"], value, path)):
        yield _combine(path, "must not validate the schema (not)")


def _failures(schemas: list[JsonObject], value: JsonValue, path: str) -> list[list[FieldError]]:
    return [first_errors(_schema_errors(schema, value, path)) for schema in schemas]


def _combine(path: str, text: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, path, f'"{path}" {text}', "")


def _find_embedded_errors(schema: JsonObject, value: JsonValue, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            yield from check_embedded_object(value, path)
        for key, item, inner, _ in _members(schema, value):
            yield from _find_embedded_errors(inner, item, child(path, key))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _find_embedded_errors(schema["items"], item, f"{path}[{index}]")


def _list_type_errors(schema: JsonObject, value: JsonValue, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        for key, item, inner, additional in _members(schema, value):
            yield from _list_type_errors(inner, item, member_path(path, key) if additional else child(path, key))
    elif isinstance(value, list):
        if schema.get("x-kubernetes-list-type") == "set":
            yield from _duplicates(value, path)
        elif schema.get("x-kubernetes-list-type") == "map":
            yield from _map_errors(schema.get("x-kubernetes-list-map-keys") or [], value, path)
        if isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                yield from _list_type_errors(schema["items"], item, f"{path}[{index}]")


def _map_errors(keys: list[str], value: list[Any], path: str) -> Iterator[FieldError]:
    text = "must be an object for an array of list-type map"
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield FieldError(FieldErrorType.INVALID, f"{path}[{index}]", text, item)
            return
    yield from _duplicates([{key: item[key] for key in keys if item and key in item} for item in value], path)


def _duplicates(items: list[Any], path: str) -> Iterator[FieldError]:
    """An error for the second appearance of each item; a third one says nothing new."""
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        text = compact(item)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield FieldError(FieldErrorType.DUPLICATE, f"{path}[{index}]", "", item)


def _members(schema: JsonObject, value: JsonObject) -> Iterator[tuple[str, JsonValue, JsonObject, bool]]:
    """Key, value, schema, and whether that is the schema of additional properties, of each member that has one."""
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            yield key, item, properties[key], False
        elif isinstance(additional, dict):
            yield key, item, additional, True


def _object_with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    filled: JsonObject = {}
    for key, item in value.items():
        inner = properties.get(key, additional)
        if not isinstance(inner, dict):
            filled[key] = clone(item)
            continue
        item = _or_default(inner, item)
        if item is not None or inner.get("nullable"):
            filled[key] = apply_defaults(inner, item)
    for key, inner in properties.items():
        if key not in value and inner.get("default") is not None:
            filled[key] = apply_defaults(inner, inner["default"])
    return filled


def _or_default(schema: JsonObject, value: JsonValue) -> JsonValue:
    return schema.get("default") if value is None and not schema.get("nullable") else value


def _prune(schema: JsonObject | None, value: JsonValue, path: str, unknown: list[str]) -> JsonValue:
    if isinstance(value, list):
        inner = (schema or {}).get("items")
        if (schema or {}).get("x-kubernetes-preserve-unknown-fields"):
            # The items of a list preserve unknown fields if the list does.
            inner = {**(inner or {}), "x-kubernetes-preserve-unknown-fields": True}
        return [_prune(inner, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = schema or {}
    properties, additional = known.get("properties") or {}, known.get("additionalProperties")
    kept: JsonObject = {}
    for key, item in value.items():
        where = child(path, key)
        if key in _META_FIELDS and known.get("x-kubernetes-embedded-resource"):
            kept[key] = clone(item)
        elif key in properties:
            kept[key] = _prune(properties[key], item, where, unknown)
        elif isinstance(additional, dict):
            kept[key] = _prune(additional, item, where, unknown)
        elif additional is True or known.get("x-kubernetes-preserve-unknown-fields"):
            kept[key] = clone(item)
        else:
            note(unknown, where)
    return kept
