"""The constraints of a schema on one value by itself: its type, length, range, pattern, format, enum and counts.

Called by structural_schema for every value it comes to. Pure. Wording is that of kube-openapi's validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.schema.string_formats import (
    FLOAT32_MAX,
    INTEGER_FORMATS,
    NUMBER_FORMATS,
    compile_pattern,
    string_format_of,
)
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType
from kvedge.standalone.apiserver.wire.json_values import compact, same, type_word

# An error names a value by these, where a format stands in for its type.
_FOUND_FORMAT: Final = {"integer": "int64", "number": "float64"}


def types_of(schema: JsonObject) -> list[str]:
    """The types that a schema allows; none means any."""
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []


def type_error(schema: JsonObject, value: JsonValue, path: str) -> FieldError | None:
    """The complaint about a value of a wrong type, or a null where none may be."""
    types = types_of(schema)
    found = type_word(value)
    if not types or found in types or (found == "null" and schema.get("nullable")):
        return None
    if found == "integer" and "number" in types:
        return None
    if found == "number" and "integer" in types and value.is_integer():
        return None
    wanted = ",".join(types)
    if found not in {"null", "string", "array"} and (name := _format(schema)):
        wanted, found = name, _FOUND_FORMAT.get(found, "")
    return FieldError(FieldErrorType.TYPE_INVALID, path, f'{path} in body must be of type {wanted}: "{found}"', found)


def constraint_errors(schema: JsonObject, value: JsonValue, path: str) -> Iterator[FieldError]:
    """Everything wrong with the value itself; its members and items are somebody else's."""
    if isinstance(value, str):
        yield from _string_errors(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_errors(schema, value, path)
    elif isinstance(value, list):
        yield from _count_errors(schema, len(value), path, "Items", "items")
        if schema.get("uniqueItems") and _has_duplicates(value):
            yield _invalid(path, "shouldn't contain duplicates", "")
    elif isinstance(value, dict):
        yield from _count_errors(schema, len(value), path, "Properties", "properties")
    allowed = schema.get("enum")
    if allowed and not any(same(value, item) for item in allowed):
        shown = ", ".join(f'"{item if isinstance(item, str) else compact(item)}"' for item in allowed)
        yield FieldError(FieldErrorType.NOT_SUPPORTED, path, f"supported values: {shown}", value)


def _string_errors(schema: JsonObject, value: str, path: str) -> Iterator[FieldError]:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    # As in the original, one of these three is enough to know.
    if longest is not None and len(value) > longest:
        unit = "byte" if longest == 1 else "bytes"
        yield FieldError(FieldErrorType.TOO_LONG, path, f"may not be more than {longest} {unit}", value)
    elif shortest is not None and len(value) < shortest:
        yield _invalid(path, f"should be at least {shortest} chars long", value)
    elif pattern and not _matches(pattern, value):
        yield _invalid(path, f"should match '{pattern}'", value)
    name = _format(schema)
    check = string_format_of(name) if name else None
    if check is not None and "string" in (types_of(schema) or ["string"]) and not check(value):
        text = f"{path} in body must be of type {name}: {compact(value)}"
        yield FieldError(FieldErrorType.TYPE_INVALID, path, text, value)


def _number_errors(schema: JsonObject, value: int | float, path: str) -> Iterator[FieldError]:
    types, name = types_of(schema), _format(schema)
    if types == ["integer"]:
        low, high = INTEGER_FORMATS[name or "int64"]
        if not low <= value <= high:
            shown = f"with format {name}" if name else "(default format)"
            text = f"Checked value must be of type integer {shown} in {path}"
            yield FieldError(FieldErrorType.INVALID, path, text, value)
    elif name == "float" and abs(value) > FLOAT32_MAX:
        text = f"Checked value must be of type number with format float in {path}"
        yield FieldError(FieldErrorType.INVALID, path, text, value)
    factor = schema.get("multipleOf")
    if factor and not _is_multiple(value, factor):
        yield _invalid(path, f"should be a multiple of {_show(factor)}", value)
    yield from _find_bound_errors(schema, value, path)


def _find_bound_errors(schema: JsonObject, value: int | float, path: str) -> Iterator[FieldError]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _invalid(path, f"should be {words} {_show(low)}", value)
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _invalid(path, f"should be {words} {_show(high)}", value)


def _count_errors(schema: JsonObject, count: int, path: str, suffix: str, noun: str) -> Iterator[FieldError]:
    fewest, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if fewest is not None and count < fewest:
        yield _invalid(path, f"should have at least {fewest} {noun}", count)
    if most is not None and count > most:
        text = f"must have at most {most} {'item' if most == 1 else 'items'}"
        yield FieldError(FieldErrorType.TOO_MANY, path, text, count)


def _format(schema: JsonObject) -> str:
    """The format, where it means something for the schema's type."""
    name: str = schema.get("format", "")
    match types_of(schema):
        case ["integer"]:
            return name if name in INTEGER_FORMATS else ""
        case ["number"]:
            return name if name in NUMBER_FORMATS else ""
        case ["string"] | [] | ["integer", "string"]:
            return name if name and string_format_of(name) else ""
    return ""


def _matches(pattern: str, value: str) -> bool:
    try:
        return compile_pattern(pattern).search(value) is not None
    except re.error:
        # A CRD with such a pattern is refused. If one got in all the same, it must not refuse every object.
        return True


def _is_multiple(value: int | float, factor: int | float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    quotient = value / factor
    return abs(quotient - round(quotient)) < 1e-9


def _has_duplicates(items: list[Any]) -> bool:
    texts = [compact(item) for item in items]
    return len(set(texts)) < len(texts)


def _show(number: int | float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _invalid(path: str, text: str, value: JsonValue) -> FieldError:
    return FieldError(FieldErrorType.INVALID, path, f"{path} in body {text}", value)
