"""What the object store holds: immutable snapshots of objects, and what became of them.

Shared by the store (which makes them), the cache (which keeps the current ones) and the request handlers (which read
them). An object is kept as its JSON text: a reader who wants to change something decodes its own copy, so nothing that
is cached can be altered by accident, and what goes to a client is encoded once. Pure: no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple, cast

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject, learn

# The largest object as JSON. Patches can make an object grow beyond any request.
LARGEST_OBJECT: Final = 3 << 20


class ObjectTooLarge(ValueError):
    """An object has more bytes than are stored."""


class ObjectKey(NamedTuple):
    """Where an object lives.

    `resource` is `pods` or `virtualmachines.kubevirt.io`; `namespace` is "" for cluster scope.
    """

    resource: str
    namespace: str
    name: str


class OwnerReference(msgspec.Struct, rename="camel"):
    """One entry of metadata.ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class StoredMeta(msgspec.Struct, rename="camel"):
    """A part of metadata, typed."""

    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


class _Document(msgspec.Struct):
    metadata: StoredMeta


# Threads read several at once.
learn(_Document)


@dataclass(frozen=True, eq=False)
class Stored:
    """One version of one object. `body` is its JSON text, metadata.resourceVersion included."""

    key: ObjectKey
    revision: int
    body: bytes

    def load(self) -> JsonObject:
        """A fresh copy of the object, the caller's to change."""
        return cast(JsonObject, msgspec.json.decode(self.body))

    def check(self) -> None:
        """Make sure that the body is an object whose metadata can be read.

        Raises:
            msgspec.DecodeError: it is not.
        """
        msgspec.json.decode(self.body, type=_Document)

    @cached_property
    def meta(self) -> StoredMeta:
        """What selecting and collecting need of the metadata; shared, so only to be read."""
        return msgspec.json.decode(self.body, type=_Document).metadata


class ChangeType(StrEnum):
    """As a watch names it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, eq=False)
class Change:
    """A committed write: `current` is what it left (for a deletion: the last state, with the deletion's revision)."""

    type: ChangeType
    current: Stored
    previous: Stored | None
    # The encoded watch events by (format, type): each is made once, however many watch.
    encoded: dict[tuple[object, ChangeType], bytes] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        return self.current.revision


class Write(Struct, frozen=True):
    """What a caller asks the store to do with one object.

    `expected` is the revision that the key must have now, 0 for "must not exist". `obj` is the object to store, or for
    a deletion its last state. The store sets metadata.resourceVersion in it.
    """

    key: ObjectKey
    expected: int
    obj: JsonObject
    deletes: bool = False
