"""Typed calls to an API server: get, list, watch, create, replace, patch and delete, for any kind of `resources`.

Called by the other files of this folder and by the roles' loops. Blocks the calling thread, with a deadline on every
call. Types drop what they do not know, so whole objects are replaced only where kvedge owns them whole (Leases);
everything else is patched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from kvedge.kube.credentials import connection_settings
from kvedge.kube.errors import Invalid, KubeError, NotFound
from kvedge.kube.inner_door import InnerDoor
from kvedge.kube.patches import ApplyPatch, Patch, content_type, document
from kvedge.kube.rest_edge import Call, LineStream, Patience, RestEdge
from kvedge.kube.watches import KubeObject, T, Unreadable, Watch, read_object
from kvedge.resources.codec import DecodeError, JsonValue, decode_json, encode
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta

# Items per page of a list, as client-go has it.
_PAGE = 500
# Of a list that is read object by object: half a MB of VMIs, as a node reports them.
_SMALL_PAGE = 100


S = TypeVar("S")


class Preconditions(Struct, frozen=True):
    """What must hold for a delete: the UID and, when given, the version that the caller saw."""

    uid: str = ""
    resource_version: str = ""


class Listing(Struct, Generic[T], frozen=True):
    """A list, the version to watch from, and what could not be read of it."""

    items: list[T]
    resource_version: str
    unreadable: list[Unreadable]


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _ListEnvelope(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] = []


class _Answer(msgspec.Struct):
    """What a delete is answered with: a metav1.Status, the object as it stays for now, or as it was at its end."""

    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    def is_kept(self, grace_seconds: int | None) -> bool:
        """Whether something still has to happen before it is gone; `grace_seconds` is what was asked for."""
        meta = self.metadata
        waits = meta.deletion_grace_period_seconds and grace_seconds != 0
        return meta.deletion_timestamp is not None and bool(meta.finalizers or waits)


class KubeClient:
    """One API server; safe for any number of threads."""

    def __init__(
        self, edge: RestEdge, patience: Patience | None = None, permit: Callable[[], bool] | None = None
    ) -> None:
        self._edge = edge
        self._patience = patience or Patience()
        self._permit = permit

    @classmethod
    def from_kubeconfig(cls, path: str | Path, program: str = "kvedge", door: InnerDoor | None = None) -> Self:
        """A client for a kubeconfig's current context; nothing is sent yet.

        `program` is the writer's name in the managedFields of objects. Where there is a `door` to the server, it stands
        for the kubeconfig, which is not read.

        Raises:
            KubeconfigError: when the file cannot be used.
        """
        if door is not None:
            return cls.from_door(door, program)
        return cls(RestEdge(connection_settings.from_kubeconfig(path), program))

    @classmethod
    def from_door(cls, door: InnerDoor, program: str = "kvedge") -> Self:
        """A client of a server of this process, for the user whose the door is."""
        return cls(RestEdge(connection_settings.from_door(door), program))

    @property
    def host(self) -> str:
        """The server's address."""
        return self._edge.host

    def hurry(self, read_seconds: float) -> KubeClient:
        """The same connections, one attempt per call, and at most that many seconds for an answer."""
        return KubeClient(self._edge, Patience(read_seconds, 1), self._permit)

    def guard_writes(self, permit: Callable[[], bool]) -> KubeClient:
        """The same connections; `permit` is asked before each single write, which it can stop."""
        return KubeClient(self._edge, self._patience, permit)

    def close(self) -> None:
        """Drop idle connections."""
        self._edge.close()

    def get(self, cls: type[T], namespace: str, name: str) -> T:
        """The object as the server has it now.

        Raises:
            NotFound: when it is not there.
        """
        return self._decode(cls, self._call("GET", _path_of(cls.KIND, namespace, name)))

    def list(
        self, cls: type[T], namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> list[T]:
        """All objects of a kind, of one namespace or of all; those that do not fit the type are left out."""
        return self.listing(cls, namespace, label_selector, field_selector).items

    def listing(
        self, cls: type[T], namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> Listing[T]:
        """All objects of a kind and the version to watch from."""
        items: list[T] = []
        unreadable: list[Unreadable] = []
        version = ""
        for page in self._pages(cls, namespace, _selectors(label_selector, field_selector), _PAGE):
            for raw in page.items:
                item = read_object(cls, raw)
                if isinstance(item, Unreadable):
                    unreadable.append(item)
                else:
                    items.append(item)
            version = page.metadata.resource_version
        return Listing(items, version, unreadable)

    def each(self, cls: type[T], namespace: str | None = None) -> Iterator[T]:
        """As `list`, object by object, for whoever keeps none: of the list no more is held than a page of 100."""
        for page in self._pages(cls, namespace, {}, _SMALL_PAGE):
            for raw in page.items:
                item = read_object(cls, raw)
                if not isinstance(item, Unreadable):
                    yield item

    def _pages(
        self, cls: type[T], namespace: str | None, selectors: dict[str, str], size: int
    ) -> Iterator[_ListEnvelope]:
        query = selectors | {"limit": str(size)}
        while True:
            page = decode_json(_ListEnvelope, self._call("GET", _collection(cls.KIND, namespace or ""), query))
            query["continue"] = page.metadata.continue_
            yield page
            if not query["continue"]:
                return

    def watch(
        self,
        cls: type[T],
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        seconds: int = 300,
    ) -> Watch[T]:
        """Changes since `resource_version`, until the server ends the watch after about `seconds`.

        Raises:
            Gone: when the version is too old.
        """
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        # The server ends it first; a server that vanished is noticed by TCP keep-alive before that.
        stream = self._edge.stream(Call("GET", _collection(cls.KIND, namespace or ""), query), seconds + 15.0)
        return Watch(cls, stream)

    def create(self, resource: T) -> T:
        """Create it; the answer has its UID and version.

        Raises:
            AlreadyExists: when the name is taken.
            Invalid: with every cause.
        """
        path = _collection(resource.KIND, resource.metadata.namespace)
        return self._decode(type(resource), self._call("POST", path, body=_encode(resource)))

    def replace(self, resource: T, subresource: str = "") -> T:
        """Write the whole object over the one with its name.

        Raises:
            Conflict: when its resource version is set and no longer the newest.
        """
        meta = resource.metadata
        path = _path_of(resource.KIND, meta.namespace, meta.name, subresource)
        return self._decode(type(resource), self._call("PUT", path, body=_encode(resource)))

    def patch(self, cls: type[T], namespace: str, name: str, patch: Patch, subresource: str = "") -> T:
        """Change a part of an object.

        Raises:
            NotFound: when it is not there.
            Conflict: when the patch names a version that is no longer the newest.
            Invalid: when the outcome is not valid, or a JSON patch's test fails.
        """
        query: dict[str, str] = {}
        if isinstance(patch, ApplyPatch):
            query = {"fieldManager": patch.field_manager, "force": "true" if patch.force else "false"}
        body = msgspec.json.encode(document(patch))
        path = _path_of(cls.KIND, namespace, name, subresource)
        return self._decode(cls, self._call("PATCH", path, query, body, content_type(patch)))

    def try_patch(self, cls: type[T], namespace: str, name: str, patch: Patch) -> T:
        """What the object would be after a patch; nothing is written. Raises as `patch` does."""
        path = _path_of(cls.KIND, namespace, name)
        body = msgspec.json.encode(document(patch))
        return self._decode(cls, self._call("PATCH", path, {"dryRun": "All"}, body, content_type(patch)))

    def delete(
        self,
        cls: type[T],
        namespace: str,
        name: str,
        preconditions: Preconditions | None = None,
        grace_seconds: int | None = None,
        propagation: str = "",
    ) -> T | None:
        """Ask for an object's end; the answer is the object when finalizers or a grace period keep it for now.

        Args:
            cls: the kind.
            namespace: empty for a cluster-scoped kind.
            name: the object's name.
            preconditions: what must hold.
            grace_seconds: overrides the object's own grace period.
            propagation: Foreground, Background or Orphan; the kind's default unless given.

        Raises:
            NotFound: when it is not there (any more).
            Conflict: when another object has that name now, or it is not of the version of the preconditions any more.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions is not None:
            wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
            options["preconditions"] = {key: value for key, value in wanted.items() if value}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        path = _path_of(cls.KIND, namespace, name)
        answer = self._call("DELETE", path, body=msgspec.json.encode(options))
        left = self._decode(_Answer, answer) if answer else _Answer()
        return self._decode(cls, answer) if left.kind == cls.KIND.kind and left.is_kept(grace_seconds) else None

    def request(
        self,
        method: str,
        path: str,
        body: JsonValue = None,
        query: dict[str, str] | None = None,
        media_type: str = "application/json",
        accept: str = "application/json",
    ) -> JsonValue:
        """A call to any path, for kinds without a type; None for an answer without a body.

        `media_type` is what the body is, `accept` what the answer should be, such as a Table.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        call = Call(method, path, query or {}, encoded, media_type, accept)
        answer = self._edge.call(call, self._patience, self._permit)
        return msgspec.json.decode(answer) if answer else None

    def content(self, path: str, query: dict[str, str] | None = None) -> bytes:
        """What is at a path, as it comes: a picture, a log."""
        return self._edge.call(Call("GET", path, query or {}, accept="*/*"), self._patience)

    def lines(
        self, path: str, query: dict[str, str], accept: str = "application/json", seconds: float = 3600.0
    ) -> LineStream:
        """The lines of a long answer, a watch or a log; `seconds` may pass between two of them."""
        return self._edge.stream(Call("GET", path, query, accept=accept), seconds)

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        media_type: str = "application/json",
    ) -> bytes:
        return self._edge.call(Call(method, path, query or {}, body, media_type), self._patience, self._permit)

    def _decode(self, cls: type[S], body: bytes) -> S:
        try:
            return decode_json(cls, body)
        except DecodeError as error:
            raise KubeError(0, "Unreadable", f"{cls.__name__} from the server: {error}") from error


def _path_of(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    """The path of one object; what no object can be called is not there, whoever has named it."""
    if not name:
        # It would be the collection, and a delete would empty it.
        raise NotFound(404, "NotFound", f"{kind.qualified_plural}: an object without a name is not there")
    try:
        return kind.path(namespace, name, subresource)
    except ValueError as error:
        raise NotFound(404, "NotFound", f"{kind.qualified_plural} not found: {error}") from error


def _collection(kind: Kind, namespace: str) -> str:
    try:
        return kind.path(namespace)
    except ValueError as error:
        raise Invalid(400, "BadRequest", f"{kind.qualified_plural}: {error}") from error


# These stand in strings only, as all of JSON's own characters are others.
_ESCAPED: Final = {
    b"&": rb"\u0026",
    b"<": rb"\u003c",
    b">": rb"\u003e",
    "\u2028".encode(): rb"\u2028",
    "\u2029".encode(): rb"\u2029",
}


def _encode(resource: KubeObject) -> bytes:
    """The JSON text as an API server writes it itself: sorted keys, and what HTML minds escaped.

    A server keeps the text of a field without a schema, such as a ControllerRevision's data. A later patch of
    another field makes it write that text anew, and it takes every other byte for a change of what may not change.
    Numbers with a fraction and the control characters that Go wrote as numbers before 1.22 are not looked at.
    """
    assert isinstance(resource, msgspec.Struct)
    text = msgspec.json.encode(encode(resource), order="sorted")
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in query.items() if value}
