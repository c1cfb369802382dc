"""The schemas inside OpenAPI documents: of built-in types from their table, of custom kinds from their CRD.

Called by openapi_manifest. Pure. Version 2 is what older kubectls validate with; they trip over fields that may hold
more than one thing, so what they cannot express is left out for them, as apiextensions does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.types import builtin_schemas
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import META_PACKAGE, Field, Type

QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIME: Final = f"{META_PACKAGE}.Time"
MICRO_TIME: Final = f"{META_PACKAGE}.MicroTime"
OBJECT_META: Final = f"{META_PACKAGE}.ObjectMeta"
LIST_META: Final = f"{META_PACKAGE}.ListMeta"
# Types that a table's word stands for.
_NAMED: Final = {"quantity": QUANTITY, "intstr": INT_OR_STRING, "time": TIME, "microtime": MICRO_TIME}
_SCALARS: Final[dict[str, JsonObject]] = {
    QUANTITY: {"type": "string", "description": "An amount with a suffix, as 500m or 2Gi."},
    INT_OR_STRING: {"type": "string", "format": "int-or-string", "description": "A number or a text."},
    TIME: {"type": "string", "format": "date-time", "description": "A time in RFC 3339."},
    MICRO_TIME: {"type": "string", "format": "date-time", "description": "A time in RFC 3339 with microseconds."},
}
# Swagger 2.0 has no word for these.
_ONLY_V3: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "nullable"})


class Dialect(Struct, frozen=True):
    """A version of OpenAPI: where its schemas are, and whether a reference may stand beside other keywords only in
    allOf.
    """

    references: str
    is_v3: bool

    def reference(self, name: str, about: str = "") -> JsonObject:
        """The schema that refers to another one."""
        target: JsonObject = {"$ref": self.references + name}
        if not about:
            return target
        if self.is_v3:
            return {"description": about, "default": {}, "allOf": [target]}
        return {"description": about, **target}


V2: Final = Dialect("#/definitions/", is_v3=False)
V3: Final = Dialect("#/components/schemas/", is_v3=True)


def schema_name(kind: ServedKind) -> str:
    """Under which name clients find the schema of a kind: `io.kubevirt.v1.VirtualMachine`."""
    built_in = builtin_schemas.type_of_kind(kind.group, kind.kind) if kind.crd is None else None
    if built_in is not None:
        return built_in.qualified
    package = ".".join(reversed(kind.group.split("."))) or "io.k8s.api.core"
    return f"{package}.{kind.version}.{kind.kind}"


def schemas_of(kinds: Iterable[ServedKind], dialect: Dialect) -> dict[str, JsonObject]:
    """The schemas of these kinds and their lists, and of every type that they use."""
    found: dict[str, JsonObject] = {}
    wanted = {OBJECT_META, LIST_META}
    for kind in kinds:
        schema, used = _kind_schema(kind, dialect)
        found[schema_name(kind)] = schema
        found[f"{schema_name(kind)}List"] = _list_schema(kind, dialect)
        wanted |= used
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        if name in _SCALARS:
            found[name] = dict(_SCALARS[name])
            continue
        one = builtin_schemas.all_types()[name]
        found[name] = _type_schema(one, dialect)
        wanted |= set(_find_used(one))
    return found


def kind_marks(kind: ServedKind) -> JsonObject:
    """The group, version and kind, as clients look for them."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _kind_schema(kind: ServedKind, dialect: Dialect) -> tuple[JsonObject, set[str]]:
    built_in = builtin_schemas.type_of_kind(kind.group, kind.kind) if kind.crd is None else None
    if built_in is not None:
        schema = _type_schema(built_in, dialect)
        used = set(_find_used(built_in))
    else:
        schema, used = _custom_schema(kind, dialect), set()
    schema["x-kubernetes-group-version-kind"] = [kind_marks(kind)]
    return schema, used


def _custom_schema(kind: ServedKind, dialect: Dialect) -> JsonObject:
    schema = kind.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found = dict(schema) if dialect.is_v3 else _for_v2(schema)
    if not dialect.is_v3 and "properties" not in found:
        # A kind of which nothing is known: an older kubectl takes anything then.
        return found
    fields = {field.name: _field_schema(field, META_PACKAGE, dialect) for field in _kind_fields()}
    found["properties"] = {**(found.get("properties") or {}), **fields}
    return found


def _kind_fields() -> tuple[Field, ...]:
    """apiVersion, kind and metadata, as any built-in kind has them."""
    pod = builtin_schemas.type_of_kind("", "Pod")
    return pod.fields[:3] if pod is not None else ()


def _list_schema(kind: ServedKind, dialect: Dialect) -> JsonObject:
    items = {"type": "array", "description": "The objects.", "items": dialect.reference(schema_name(kind))}
    api_version, kind_field, _ = _kind_fields()
    properties = {
        "apiVersion": _field_schema(api_version, META_PACKAGE, dialect),
        "kind": _field_schema(kind_field, META_PACKAGE, dialect),
        "items": items,
        "metadata": dialect.reference(LIST_META, "Version and continuation of the list."),
    }
    return {
        "type": "object",
        "description": f"A list of {kind.kind} objects.",
        "required": ["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind": [{**kind_marks(kind), "kind": kind.list_name}],
    }


def _type_schema(one: Type, dialect: Dialect) -> JsonObject:
    properties = {field.name: _field_schema(field, one.package, dialect) for field in one.fields}
    schema: JsonObject = {"type": "object", "description": one.about, "properties": properties}
    required = [field.name for field in one.fields if field.required]
    if required:
        schema["required"] = required
    if one.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _field_schema(field: Field, package: str, dialect: Dialect) -> JsonObject:
    name = _reference_of(field, package)
    if name is None:
        schema = builtin_schemas.scalar_schema(field.type)
        if not dialect.is_v3:
            schema = _for_v2(schema)
    else:
        schema = dialect.reference(name, "" if field.container else field.about)
    if name is not None and not field.container:
        return schema
    return builtin_schemas.with_marks(field, schema)


def _find_used(one: Type) -> Iterator[str]:
    for field in one.fields:
        name = _reference_of(field, one.package)
        if name is not None:
            yield name


def _reference_of(field: Field, package: str) -> str | None:
    """The type that a field refers to; None for what is described in place."""
    if field.type in _NAMED:
        return _NAMED[field.type]
    inner = builtin_schemas.resolve(field.type, package)
    return inner.qualified if inner is not None else None


def _for_v2(schema: JsonObject) -> JsonObject:
    """The part of a schema that Swagger 2.0 and older kubectls understand."""
    plain: dict[str, Any] = {key: value for key, value in schema.items() if key not in _ONLY_V3}
    if schema.get("x-kubernetes-int-or-string") or schema.get("nullable"):
        for keyword in ("type", "items", "properties", "additionalProperties", "format"):
            plain.pop(keyword, None)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        for keyword in ("items", "properties", "required"):
            plain.pop(keyword, None)
    if isinstance(plain.get("items"), dict):
        plain["items"] = _for_v2(plain["items"])
    if isinstance(plain.get("additionalProperties"), dict):
        plain["additionalProperties"] = _for_v2(plain["additionalProperties"])
    elif "additionalProperties" in plain:
        plain.pop("additionalProperties")
    if plain.get("properties"):
        plain["properties"] = {name: _for_v2(inner) for name, inner in plain["properties"].items()}
    return plain
