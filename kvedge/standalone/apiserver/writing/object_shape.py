"""Bringing an object that a client sent into its kind's shape: unknown fields dropped (or refused), defaults filled in.

Called by the write path before and after mutating webhooks. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject, learn
from kvedge.standalone.apiserver.kinds import builtin_shape
from kvedge.standalone.apiserver.kinds.built_in import apply_built_in_defaults
from kvedge.standalone.apiserver.kinds.custom import crd_shape
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.schema import structural_schema
from kvedge.standalone.apiserver.store.object_hub import CRDS
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.told import child, note


class _OwnerReference(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _ManagedFields(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: dict[str, object] | None = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


class _ObjectMeta(msgspec.Struct, rename="camel"):
    """The types of metadata, so that everything behind this module may rely on them."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_OwnerReference] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[_ManagedFields] | None = None


learn(_ObjectMeta)


_METADATA_FIELDS: Final = frozenset(_ObjectMeta.__struct_encode_fields__)


class Shaped(Struct, frozen=True):
    """An object in shape, and the paths of the fields that were dropped for it, as many as are told of."""

    obj: JsonObject
    unknown: tuple[str, ...] = ()


def check_metadata_types(obj: JsonObject) -> None:
    """Make sure that each field of a custom resource's metadata has its type.

    Raises:
        BadRequest: naming the first that has not.
    """
    try:
        msgspec.convert(obj["metadata"], _ObjectMeta, strict=True)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        raise BadRequest(f"metadata{path.rstrip('`')}: {detail}") from error


def shape(kind: ServedKind, obj: JsonObject) -> Shaped:
    """Drop what the kind does not know, fill in what it defaults.

    Raises:
        BadRequest: metadata is malformed.
    """
    if kind.crd is None:
        decoded, dropped = builtin_shape.decode(kind, obj)
        if kind.storage == CRDS:
            crd_shape.check(decoded)
        apply_built_in_defaults(kind.storage, decoded)
        return Shaped(decoded, tuple(dropped))
    check_metadata_types(obj)
    unknown: list[str] = []
    for name in obj["metadata"]:
        if name not in _METADATA_FIELDS:
            note(unknown, child("metadata", name))
    metadata = {
        name: value for name, value in obj["metadata"].items() if name in _METADATA_FIELDS and value is not None
    }
    obj = {**obj, "metadata": metadata}
    schema = kind.schema
    if schema is not None:
        if not kind.crd["spec"].get("preserveUnknownFields"):
            pruned, dropped = structural_schema.prune(schema, obj)
            for path in dropped:
                note(unknown, path)
            obj = pruned
        obj = structural_schema.apply_defaults(schema, obj)
    return Shaped(obj, tuple(unknown))


def report_unknown(kind: ServedKind, unknown: tuple[str, ...], validation: str) -> list[str]:
    """The warnings about dropped fields.

    Raises:
        BadRequest: when the client asked for strict validation.
    """
    texts = [f'unknown field "{path}"' for path in unknown]
    if texts and validation == "Strict":
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
            + ", ".join(texts)
        )
    return texts if validation == "Warn" else []
