"""The types of everything in a CRD's versions: what the rules that look at it may rely on.

Called by the write path before the rules. Pure. The built-in types' tables have no type that contains itself, as a JSON
schema does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kvedge.resources.codec import JsonObject, learn
from kvedge.standalone.apiserver.wire.api_errors import BadRequest


def check(obj: JsonObject) -> None:
    """Make sure that each field of a CustomResourceDefinition has its type.

    Raises:
        BadRequest: naming the first that has not.
    """
    try:
        msgspec.convert(obj.get("spec") or {}, _Spec, strict=True)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        text = f"spec{path.rstrip('`')}: {detail[:1].lower()}{detail[1:]}"
        raise BadRequest(
            'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: ' + text
        ) from error


def _go_name(name: str) -> str:
    """`x_kubernetes_list_type` is x-kubernetes-list-type, `max_length` maxLength."""
    if name.startswith("x_"):
        return name.replace("_", "-")
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


class _Schema(msgspec.Struct, rename=_go_name):
    id: str | None = None
    type: str | None = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    pattern: str | None = None
    default: Any = None
    example: Any = None
    maximum: float | None = None
    minimum: float | None = None
    multiple_of: float | None = None
    exclusive_maximum: bool | None = None
    exclusive_minimum: bool | None = None
    max_length: int | None = None
    min_length: int | None = None
    max_items: int | None = None
    min_items: int | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    unique_items: bool | None = None
    nullable: bool | None = None
    enum: list[Any] | None = None
    required: list[str] | None = None
    items: _Schema | list[_Schema] | None = None
    all_of: list[_Schema] | None = None
    one_of: list[_Schema] | None = None
    any_of: list[_Schema] | None = None
    not_: _Schema | None = None
    properties: dict[str, _Schema] | None = None
    additional_properties: bool | _Schema | None = None
    pattern_properties: dict[str, _Schema] | None = None
    dependencies: dict[str, _Schema | list[str]] | None = None
    additional_items: bool | _Schema | None = None
    definitions: dict[str, _Schema] | None = None
    x_kubernetes_preserve_unknown_fields: bool | None = None
    x_kubernetes_embedded_resource: bool | None = None
    x_kubernetes_int_or_string: bool | None = None
    x_kubernetes_list_map_keys: list[str] | None = None
    x_kubernetes_list_type: str | None = None
    x_kubernetes_map_type: str | None = None
    x_kubernetes_validations: list[dict[str, Any]] | None = None


class _Validation(msgspec.Struct):
    schema: _Schema | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Scale(msgspec.Struct, rename="camel"):
    spec_replicas_path: str | None = None
    status_replicas_path: str | None = None
    label_selector_path: str | None = None


class _Subresources(msgspec.Struct):
    status: dict[str, Any] | None = None
    scale: _Scale | None = None


class _Column(msgspec.Struct, rename="camel"):
    name: str | None = None
    type: str | None = None
    format: str | None = None
    description: str | None = None
    json_path: str | None = None
    priority: int | None = None


class _Selectable(msgspec.Struct, rename="camel"):
    json_path: str | None = None


class _Version(msgspec.Struct, rename="camel"):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema: _Validation | None = None
    subresources: _Subresources | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_Selectable] | None = None


class _Names(msgspec.Struct, rename="camel"):
    plural: str | None = None
    singular: str | None = None
    kind: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    group: str | None = None
    scope: str | None = None
    names: _Names | None = None
    versions: list[_Version] | None = None
    preserve_unknown_fields: bool | None = None


learn(_Spec)
