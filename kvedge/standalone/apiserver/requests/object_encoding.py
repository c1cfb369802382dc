"""Objects, lists and watch events as bytes, in the form a client asked for.

Used by the REST routes. A watch event is encoded once per form, however many watch it. Pure but for that memory, which
lives on the change itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.versions import convert_to_served, is_settled
from kvedge.standalone.apiserver.requests.table_manifest import columns_of, table
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, Stored
from kvedge.standalone.apiserver.wire.media_types import Form

_SMALL_EVENT: Final = 32 << 10
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ListFacts(Struct, frozen=True):
    """The metadata of a list."""

    revision: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> JsonObject:
        """The metav1.ListMeta."""
        metadata: JsonObject = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class Encoder(Struct, frozen=True):
    """One client's form of one kind.

    `include` is the includeObject of a Table, `version` that of meta.k8s.io in which a Table or metadata alone is made.
    """

    kind: ServedKind
    form: Form = Form.OBJECT
    include: str = "Metadata"
    version: str = "v1"

    @property
    def _meta_api(self) -> str:
        return f"meta.k8s.io/{self.version}"

    def one(self, stored: Stored, now: datetime) -> bytes:
        """One object."""
        if self.form is Form.TABLE:
            return msgspec.json.encode(self._table([stored], ListFacts(stored.revision), now))
        return self._item(stored)

    def many(self, objects: Sequence[Stored], facts: ListFacts, now: datetime) -> bytes:
        """A list."""
        if self.form is Form.TABLE:
            return msgspec.json.encode(self._table(objects, facts, now))
        if self.form is Form.PARTIAL:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": self._meta_api, "metadata": facts.metadata()}
        else:
            head = {"kind": self.kind.list_name, "apiVersion": self.kind.api_version, "metadata": facts.metadata()}
        start = msgspec.json.encode(head)[:-1]
        return b"".join((start, b',"items":[', b",".join(self._item(stored) for stored in objects), b"]}"))

    def event(self, change: Change, kind: ChangeType, now: datetime) -> bytes:
        """One event of a watch, its newline included. `kind` may differ from the change's own: a selector decides."""
        if self.form is Form.TABLE:
            # Not kept: the ages in its rows are of this moment.
            return self._event(change, kind, now)
        label = self.label(kind)
        known = change.encoded.get(label)
        if known is None:
            known = self._event(change, kind, now)
            # Of a large change two forms are kept: the plain one, which nearly all watchers ask for, and the first.
            if not change.encoded or len(known) <= _SMALL_EVENT or self._is_plain(change, kind):
                change.encoded[label] = known
        return known

    def _is_plain(self, change: Change, kind: ChangeType) -> bool:
        """Whether this is the whole object as it is stored, at a change of it."""
        is_stored = self.kind.api_version == self.kind.storage_api_version
        return self.form is Form.OBJECT and is_stored and kind is change.type

    def label(self, kind: ChangeType) -> tuple[object, ChangeType]:
        """Under what an event of this form is kept with its change."""
        return ((self.kind.api_version, self.form, self.version), kind)

    def initial(self, stored: Stored, now: datetime) -> bytes:
        """The ADDED event of an object that was there before the watch."""
        return _event_line(ChangeType.ADDED.value, self.one(stored, now))

    def bookmark(self, revision: int, ends_initial: bool = False) -> bytes:
        """A BOOKMARK event."""
        metadata: JsonObject = {"resourceVersion": str(revision), "creationTimestamp": None}
        if ends_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        head = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        if self.form is Form.TABLE:
            head = {
                "kind": "Table",
                "apiVersion": self._meta_api,
                "metadata": metadata,
                "columnDefinitions": [],
                "rows": [],
            }
        elif self.form is Form.PARTIAL:
            head = {"kind": "PartialObjectMetadata", "apiVersion": self._meta_api, "metadata": metadata}
        return _event_line("BOOKMARK", msgspec.json.encode(head))

    def _event(self, change: Change, kind: ChangeType, now: datetime) -> bytes:
        stored = change.current
        if kind is ChangeType.DELETED and change.type is not ChangeType.DELETED and change.previous is not None:
            # It left the selection: the watcher is shown what it knew, at the revision of the change.
            obj = change.previous.load()
            obj["metadata"]["resourceVersion"] = str(change.revision)
            stored = Stored(stored.key, change.revision, msgspec.json.encode(obj))
        return _event_line(kind.value, self.one(stored, now))

    def _item(self, stored: Stored) -> bytes:
        if self.form is Form.PARTIAL:
            partial = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self._meta_api,
                "metadata": stored.load()["metadata"],
            }
            return msgspec.json.encode(partial)
        if self.kind.api_version == self.kind.storage_api_version and is_settled(self.kind, stored.revision):
            return stored.body
        return msgspec.json.encode(convert_to_served(self.kind, stored.load()))

    def _table(self, objects: Sequence[Stored], facts: ListFacts, now: datetime) -> JsonObject:
        documents = (convert_to_served(self.kind, stored.load()) for stored in objects)
        return table(documents, columns_of(self.kind), now, self.include, facts.metadata(), self.version)


def _event_line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
