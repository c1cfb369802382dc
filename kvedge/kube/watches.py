"""What watches bring, line by line: objects of one kind, and what does not fit their type.

Made by `kube_client`, read by informers. The reader of an object serves lists, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from kvedge.kube.errors import KubeError, error_from_status
from kvedge.kube.rest_edge import LineStream
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta


class KubeObject(Protocol):
    """Any resource with a kind: what the client can read and write."""

    KIND: ClassVar[Kind]
    metadata: ObjectMeta


T = TypeVar("T", bound=KubeObject)


class Unreadable(Struct, frozen=True):
    """An object that does not fit its type; the rest of a list is served without it."""

    namespace: str
    name: str
    resource_version: str
    detail: str


class _Identity(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class _WatchEnvelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class WatchEvent(Struct, Generic[T], frozen=True):
    """One change; `object` is None for a bookmark, and :class:`Unreadable` for one that does not fit its type."""

    type: str
    object: T | Unreadable | None
    resource_version: str


class Watch(Generic[T]):
    """One watch of one kind; iterate it in one thread, :meth:`close` it from any."""

    def __init__(self, cls: type[T], stream: LineStream) -> None:
        self._cls = cls
        self._stream = stream

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """Each change, until the server ends the watch or it is closed.

        Raises:
            Gone: when the version has become too old.
            KubeError: for any other error the server reports.
            Unavailable: when the connection breaks.
        """
        for line in self._stream.lines():
            try:
                envelope = decode_json(_WatchEnvelope, line)
            except DecodeError as error:
                raise KubeError(0, "Unreadable", f"watch of {self._cls.KIND.plural}: {error}") from error
            if envelope.type == "ERROR":
                raise error_from_status(msgspec.json.decode(envelope.object), what="watch")
            if envelope.type == "BOOKMARK":
                version = decode_json(_Identity, envelope.object).metadata.resource_version
                yield WatchEvent("BOOKMARK", None, version)
                continue
            item = read_object(self._cls, envelope.object)
            version = item.resource_version if isinstance(item, Unreadable) else item.metadata.resource_version
            yield WatchEvent(envelope.type, item, version)

    def close(self) -> None:
        """End the iteration at once."""
        self._stream.close()


def read_object(cls: type[T], raw: msgspec.Raw) -> T | Unreadable:
    """An object of a list or a watch."""
    try:
        return decode_json(cls, raw)
    except DecodeError as error:
        meta = decode_json(_Identity, raw).metadata
        return Unreadable(meta.namespace, meta.name, meta.resource_version, str(error))
