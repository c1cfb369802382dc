"""Whether a CustomResourceDefinition can be served: its names, versions, schemas, columns and subresources.

Called by the rows of its kinds. Pure; all causes at once, in apiextensions' words. The status of a CRD is crd_status's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.custom.crd_schema_rules import check_schema
from kvedge.standalone.apiserver.schema.metadata_rules import check_immutable
from kvedge.standalone.apiserver.wire import jsonpath, name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError, first_errors
from kvedge.standalone.apiserver.wire.causes import duplicate, invalid, not_supported_error, one_of, required_error

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE: Final = frozenset({"string", "boolean", "integer"})
_SIMPLE_PATH: Final = re.compile(r"(\.[a-zA-Z_][-a-zA-Z0-9_]*)+")


def check_crd(crd: JsonObject) -> list[FieldError]:
    """What is wrong with a CRD's name and spec: the first errors."""
    return first_errors(_check(crd))


def check_crd_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """What a CRD that has objects cannot change."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    yield from check_immutable(after.get("group"), before.get("group"), "spec.group")
    for field in ("plural", "kind"):
        names = ((after.get("names") or {}).get(field), (before.get("names") or {}).get(field))
        yield from check_immutable(*names, f"spec.names.{field}")
    yield from check_immutable(after.get("scope"), before.get("scope"), "spec.scope")
    known = {version.get("name") for version in after.get("versions") or []}
    for index, name in enumerate((old.get("status") or {}).get("storedVersions") or []):
        if name not in known:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} "
                "from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", name, text)


def _check(crd: JsonObject) -> Iterator[FieldError]:
    spec = crd.get("spec") or {}
    group, names = spec.get("group") or "", spec.get("names") or {}
    name, expected = (crd.get("metadata") or {}).get("name") or "", f"{names.get('plural') or ''}.{group}"
    if name != expected:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required_error("spec.group")
    elif complaints := name_rules.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(complaints))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield required_error("spec.scope")
    yield from one_of("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, text)
    strategy = (spec.get("conversion") or {}).get("strategy") or "None"
    if strategy != "None":
        yield not_supported_error("spec.conversion.strategy", strategy, ("None",))
    yield from _check_names(names)
    yield from _check_versions(spec.get("versions") or [])


def _check_names(names: JsonObject) -> Iterator[FieldError]:
    mixed = "may have mixed case, but should otherwise match: "
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            if field in {"plural", "kind"}:
                yield required_error(f"spec.names.{field}")
            continue
        capitals = field in {"kind", "listKind"}
        complaints = name_rules.dns1035_label(value.lower() if capitals else value)
        if complaints:
            yield invalid(f"spec.names.{field}", value, (mixed if capitals else "") + ",".join(complaints))
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or []):
            complaints = name_rules.dns1035_label(value)
            if complaints:
                yield invalid(f"spec.names.{field}[{index}]", value, ",".join(complaints))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _check_versions(versions: list[JsonObject]) -> Iterator[FieldError]:
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from _check_version(version, f"spec.versions[{index}]")


def _check_version(version: JsonObject, path: str) -> Iterator[FieldError]:
    name = version.get("name") or ""
    if complaints := name_rules.dns1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(complaints))
    warning = version.get("deprecationWarning")
    if warning and not version.get("deprecated"):
        text = "can only be set for deprecated versions"
        yield invalid(f"{path}.deprecationWarning", warning, text)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required_error(f"{path}.schema.openAPIV3Schema")
    else:
        yield from check_schema(schema, f"{path}.schema.openAPIV3Schema")
    yield from _check_columns(version.get("additionalPrinterColumns") or [], f"{path}.additionalPrinterColumns")
    yield from _check_selectable(version.get("selectableFields") or [], schema or {}, f"{path}.selectableFields")
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _check_scale(scale, f"{path}.subresources.scale")


def _check_columns(columns: list[JsonObject], path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns):
        where = f"{path}[{index}]"
        if not column.get("name"):
            yield required_error(f"{where}.name")
        kind, words = column.get("type") or "", f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            yield required_error(f"{where}.type", words)
        elif kind not in _COLUMN_TYPES:
            yield invalid(f"{where}.type", kind, words)
        form = column.get("format")
        if form and form not in _COLUMN_FORMATS:
            yield invalid(f"{where}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        column_path = column.get("jsonPath") or ""
        if not column_path:
            yield required_error(f"{where}.jsonPath")
            continue
        try:
            jsonpath.parse(column_path)
        except jsonpath.JsonPathError as error:
            yield invalid(f"{where}.jsonPath", column_path, str(error))


def _check_selectable(fields: list[JsonObject], schema: JsonObject, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, value = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not value:
            yield required_error(where)
        elif not _SIMPLE_PATH.fullmatch(value):
            yield invalid(where, value, "is an invalid path: must be a simple json path starting with .")
        elif value.startswith(".metadata"):
            yield invalid(where, value, "must not point to fields in metadata")
        elif _type_at(schema, value) not in _SELECTABLE:
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(where, value, text)
        if value and value in seen:
            yield duplicate(where, value)
        seen.add(value)


def _type_at(schema: JsonObject, path: str) -> Any:
    node: Any = schema
    for name in path.split(".")[1:]:
        node = ((node or {}).get("properties") or {}).get(name)
    return (node or {}).get("type")


def _check_scale(scale: JsonObject, path: str) -> Iterator[FieldError]:
    roots = {
        "specReplicasPath": (".spec.",),
        "statusReplicasPath": (".status.",),
        "labelSelectorPath": (".spec.", ".status."),
    }
    words = {
        "specReplicasPath": "should be a json path under .spec",
        "statusReplicasPath": "should be a json path under .status",
        "labelSelectorPath": "should be a json path under either .spec or .status",
    }
    for field, starts in roots.items():
        value = scale.get(field) or ""
        if not value:
            if field != "labelSelectorPath":
                yield required_error(f"{path}.{field}")
        elif not _SIMPLE_PATH.fullmatch(value):
            yield invalid(f"{path}.{field}", value, "must be a simple json path starting with .")
        elif not value.startswith(starts):
            yield invalid(f"{path}.{field}", value, words[field])
