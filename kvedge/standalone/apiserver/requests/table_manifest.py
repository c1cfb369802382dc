"""Tables (metav1.Table): what `kubectl get` prints, rendered by the server so that kubectl shows columns it never
heard of.

Called by the server when a client accepts `as=Table`. Pure; the time is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.kinds.built_in import find_built_in
from kvedge.standalone.apiserver.kinds.pod_columns import completion_conditions
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.table_columns import AGE, CREATED_AT, NAME, Cell, Column
from kvedge.standalone.apiserver.wire import jsonpath
from kvedge.standalone.apiserver.wire.human_ages import INVALID, age
from kvedge.standalone.apiserver.wire.json_values import compact

_GROUP: Final = "meta.k8s.io"
# A CRD that names no columns shows this one beside the name.
_CRD_AGE: Final = Column("Age", AGE.cell, type="date", description=AGE.description)


def columns_of(kind: ServedKind) -> tuple[Column, ...]:
    """The columns of a kind: its own, those of its CRD, or the name and when it was created."""
    if kind.crd_version is not None:
        return columns_for_crd(kind.crd_version)
    row = find_built_in(kind.storage)
    return (NAME, CREATED_AT) if row is None else row.columns


def columns_for_crd(version: JsonObject) -> tuple[Column, ...]:
    """The name and the additionalPrinterColumns of an entry of a CRD's spec.versions."""
    declared = version.get("additionalPrinterColumns")
    if not declared:
        return (NAME, _CRD_AGE)
    return (NAME, *map(_make_declared_column, declared))


def table(
    objects: Iterable[JsonObject],
    columns: tuple[Column, ...],
    now: datetime,
    include: str = "Metadata",
    list_metadata: JsonObject | None = None,
    version: str = "v1",
) -> JsonObject:
    """The Table of these objects.

    Args:
        objects: one row each.
        columns: from `columns_of`.
        now: for the ages.
        include: how much of each object its row carries: Metadata, Object or None.
        list_metadata: the metadata of the list, with its resourceVersion and continue token.
        version: v1, or v1beta1 for older clients.
    """
    api_version = f"{_GROUP}/{version}"
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": list_metadata or {},
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [_row(obj, columns, now, include, api_version) for obj in objects],
    }


def partial_metadata(obj: JsonObject, api_version: str = f"{_GROUP}/v1") -> JsonObject:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata") or {}}


def _row(obj: JsonObject, columns: tuple[Column, ...], now: datetime, include: str, api_version: str) -> JsonObject:
    row: JsonObject = {"cells": [column.cell(obj, now) for column in columns]}
    if obj.get("kind") == "Pod" and (conditions := completion_conditions(obj)):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial_metadata(obj, api_version)
    return row


def _make_declared_column(column: JsonObject) -> Column:
    return Column(
        name=column.get("name", ""),
        cell=_path_cell(column.get("jsonPath", ""), column.get("type", "string")),
        type=column.get("type", "string"),
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
    )


def _path_cell(path: str, kind: str) -> Cell:
    def cell(obj: JsonObject, now: datetime) -> JsonValue:
        try:
            found = jsonpath.parse(path).find(obj)
        except jsonpath.JsonPathError:
            # Such a CRD is refused when it is applied. If one is there all the same, it must not break every list.
            return None
        return _convert(found[0], kind, now) if found else None

    return cell


def _convert(value: JsonValue, kind: str, now: datetime) -> JsonValue:
    """A cell of the column's type, or none when the value is of another one."""
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return value if isinstance(value, str) else compact(value)
        case "integer" if number:
            return int(value)
        case "number" if number:
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date":
            return age(value, now) if isinstance(value, str) and value else INVALID
    return None
