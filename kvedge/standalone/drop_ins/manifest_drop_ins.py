"""Manifests that are put into `<data-dir>/manifests` are applied: the objects that this site is to have.

Called by its loop. Reads YAML and JSON files there and in directories below, and applies them by server-side apply as
`kvedge-manifests`, which takes over the fields that a file names. A file is applied once for each content: what was
applied is remembered in the ConfigMap kvedge-system/kvedge-manifests, in the same store as the objects, so that a
store that was put back is brought up to date. Removing a file deletes nothing. Images that were dropped come first: a
VM whose image is still being imported would have it looked for in a registry.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kvedge.kube.errors import Conflict, Forbidden, Gone, Invalid, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind
from kvedge.standalone.drop_ins.drop_in_loop import Teller
from kvedge.standalone.drop_ins.dropped_files import (
    DroppedFile,
    NotYet,
    SettledFiles,
    Signature,
    compute_digest,
    look_at,
    open_whole,
)
from kvedge.standalone.drop_ins.manifest_documents import (
    MOST_BYTES,
    BadManifest,
    ManifestDocument,
    manifest_documents,
)

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "kvedge-manifests"
RECORD: Final = "/api/v1/namespaces/kvedge-system/configmaps/kvedge-manifests"
_ENDINGS: Final = (".yaml", ".yml", ".json")
_FAILED, _APPLIED = "ManifestFailed", "ManifestApplied"
# A refused manifest may become right: a Namespace or a CRD comes with another file, a role is still starting.
_FIRST_RETRY_SECONDS: Final = 2.0
_LAST_RETRY_SECONDS: Final = 60.0
# An image that is copied over a slow line holds back the other manifests of the site no longer than this.
IMAGE_WAIT_SECONDS: Final = 600.0


class _Waiting(msgspec.Struct):
    """A file that could not be applied: it is tried again at `at`, by the monotonic clock."""

    signature: Signature
    at: float
    pause: float


class ManifestDropIns:
    """`<data-dir>/manifests`."""

    def __init__(
        self,
        directory: Path,
        client: KubeClient,
        teller: Teller,
        images_to_come: Callable[[], list[str]] = list,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._images_to_come = images_to_come
        self._clock = clock
        self._waiting_for: dict[str, float] = {}
        self._client = client
        self._teller = teller
        self._settled = SettledFiles()
        self._applied: dict[str, str] | None = None
        self._done: dict[str, Signature] = {}
        self._waiting: dict[str, _Waiting] = {}

    def look(self, keep_on: Callable[[], None]) -> None:
        """Apply what is whole and new, in the order of the files' names."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        look = look_at(self.directory, recursive=True)
        for name, why in look.refused.items():
            if name.endswith(_ENDINGS):
                self._teller.tell_fault(
                    self.directory / name, _FAILED, f"{self.directory / name} was not applied: {why}"
                )
        try:
            self._forget((self._load_applied().keys() | self._done.keys()) - look.files.keys())
        except KubeError as error:
            # Other parts tell of an absent API server.
            log.info("manifests wait for the API server: %s", error.message)
            return
        new = [file for file in self._settled.choose_settled(look) if self._is_new(file) and self._is_time(file)]
        if self._must_await_images(new):
            return
        for file in new:
            keep_on()
            self._take(file, keep_on)

    def _is_new(self, file: DroppedFile) -> bool:
        return file.name.endswith(_ENDINGS) and self._done.get(file.name) != file.signature

    def _must_await_images(self, new: list[DroppedFile]) -> bool:
        now = self._clock()
        self._waiting_for = {name: self._waiting_for.get(name, now) for name in self._images_to_come()}
        images = [name for name, since in self._waiting_for.items() if now - since < IMAGE_WAIT_SECONDS]
        if new and images:
            log.debug("%d manifests wait for images: %s", len(new), ", ".join(images))
        return bool(new and images)

    def _forget(self, gone: set[str]) -> None:
        # Their objects stay; the same file put back is applied again.
        for name in gone:
            self._done.pop(name, None)
            self._teller.forget(self.directory / name)
            if name in self._load_applied():
                self._remember(name, None)

    def _take(self, file: DroppedFile, keep_on: Callable[[], None]) -> None:
        path = self.directory / file.name
        try:
            with open_whole(self.directory, file) as opened:
                digest = compute_digest(opened, keep_on)
                data = _content(opened)
            if self._load_applied().get(file.name) != digest:
                documents = manifest_documents(data)
                self._apply(documents, keep_on)
                self._remember(file.name, digest)
                labels = ", ".join(document.label for document in documents)
                self._teller.tell_success(path, _APPLIED, f"{path} was applied: {labels or 'it holds no object'}")
        except NotYet:
            return
        except BadManifest as error:
            # Only another content can be right.
            self._teller.tell_fault(path, _FAILED, f"{path}:{error.line}: {error}")
            self._done[file.name] = file.signature
        except KubeError as error:
            self._put_off(file)
            self._teller.tell_fault(path, _FAILED, f"{path} was not applied yet: {error.message}")
        except _NotApplied as error:
            self._put_off(file)
            self._teller.tell_fault(path, _FAILED, f"{path}:{error.line}: {error}")
        else:
            self._waiting.pop(file.name, None)
            self._done[file.name] = file.signature

    def _apply(self, documents: list[ManifestDocument], keep_on: Callable[[], None]) -> None:
        for item in documents:
            keep_on()
            try:
                kind = self._kind(item.document)
                metadata: JsonObject = item.document["metadata"]
                if kind.namespaced:
                    metadata.setdefault("namespace", "default")
                path = _path_of(kind, str(metadata.get("namespace", "")), metadata["name"])
                query = {"fieldManager": FIELD_MANAGER, "force": "true"}
                self._client.request("PATCH", path, item.document, query, "application/apply-patch+yaml")
            except KubeError as error:
                raise _NotApplied(item, error) from error

    def _kind(self, document: JsonObject) -> Kind:
        api_version, kind = document["apiVersion"], document["kind"]
        group, _, version = api_version.rpartition("/")
        served = self._client.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
        for resource in served["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                return Kind(group, version, kind, resource["name"], resource["namespaced"])
        raise NotFound(404, "NotFound", f'no matches for kind "{kind}" in version "{api_version}"')

    def _is_time(self, file: DroppedFile) -> bool:
        waiting = self._waiting.get(file.name)
        return waiting is None or waiting.signature != file.signature or self._clock() >= waiting.at

    def _put_off(self, file: DroppedFile) -> None:
        before = self._waiting.get(file.name)
        again = before is not None and before.signature == file.signature
        pause = min(before.pause * 2, _LAST_RETRY_SECONDS) if before and again else _FIRST_RETRY_SECONDS
        self._waiting[file.name] = _Waiting(file.signature, self._clock() + pause, pause)

    def _load_applied(self) -> dict[str, str]:
        """Digest by file of what was applied."""
        if self._applied is None:
            try:
                record = self._client.request("GET", RECORD)
                self._applied = msgspec.json.decode(record["data"]["files.json"], type=dict[str, str])
            except (NotFound, KeyError, TypeError, msgspec.DecodeError):
                # Nothing yet, or somebody has emptied it: applying again changes nothing that is as it should be.
                self._applied = {}
        return self._applied

    def _remember(self, name: str, digest: str | None) -> None:
        files = {key: value for key, value in self._load_applied().items() if key != name}
        if digest is not None:
            files[name] = digest
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RECORD.rpartition("/")[2], "namespace": "kvedge-system"},
            "data": {"files.json": msgspec.json.encode(files).decode()},
        }
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        self._client.request("PATCH", RECORD, body, query, "application/apply-patch+yaml")
        self._applied = files


class _NotApplied(Exception):
    """The server did not take one of a file's objects."""

    def __init__(self, item: ManifestDocument, error: KubeError) -> None:
        super().__init__(f"{item.label} was not applied: {error.message}; {_remedy(error)}")
        self.line = item.line


def _path_of(kind: Kind, namespace: str, name: str) -> str:
    try:
        return kind.path(namespace, name)
    except ValueError as error:
        raise Invalid(422, "Invalid", f"metadata: {error}") from error


def _remedy(error: KubeError) -> str:
    if isinstance(error, Unavailable | Gone | Conflict):
        return "it is tried again"
    if isinstance(error, NotFound):
        return "it is tried again: another file may bring what is missing"
    if isinstance(error, Invalid | Forbidden):
        return "change the file"
    return "it is tried again"


def _content(opened: int) -> bytes:
    with open(f"/proc/self/fd/{opened}", "rb") as stream:
        return stream.read(MOST_BYTES + 1)
