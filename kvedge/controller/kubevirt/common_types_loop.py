"""Writes the ready-made instance types and preferences where they are wanted, and takes them away where they are not.

Run by the controller role: on one box unless the KubeVirt object says no, in a cluster if it says yes. Nothing waits
for it. It begins a while after the role and writes a few at a time; the last one tells that all are there, so that a
controller that starts anew asks for that one alone. What a user has changed or deleted comes back with the release
that brings others.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.common_series import VENDOR, VENDOR_LABEL, common_types
from kvedge.resources.instancetypes.common_systems import common_preferences
from kvedge.resources.instancetypes.matchers import PARTS
from kvedge.resources.kinds import Kind
from kvedge.resources.types.vm_types.instancetypes import INSTANCETYPE_GROUP

log = logging.getLogger(__name__)

# What starts first is what VMs wait for.
_FIRST_SECONDS: Final = 3.0
_BATCH: Final = 8
_PAUSE_SECONDS: Final = 0.3
# The kinds come with the api role, which may be of a release before.
_NO_KIND_SECONDS: Final = 30.0
# In each object's metadata: what all of them were when it was written.
_VERSION: Final = f"{INSTANCETYPE_GROUP}/common-instancetypes-version"
_ALL: Final = Key("", "")
_MERGE: Final = "application/merge-patch+json"


class _Work(Struct):
    """The objects that are still to be written, the last one last."""

    version: str
    left: list[JsonObject]


class CommonTypesLoop:
    """One loop over all ready-made objects."""

    def __init__(self, client: KubeClient, is_wanted: Callable[[], bool | None]) -> None:
        """`is_wanted` says what the configuration wants; None when it says nothing, and none are there."""
        self._client = client
        self._is_wanted = is_wanted
        self._work: _Work | None = None
        self._is_begun = False
        self.loop = ReconcileLoop("common instance types", self.reconcile)

    def start(self) -> None:
        """Begin to look."""
        self.loop.add(_ALL)
        self.loop.start()

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def failure(self) -> str | None:
        """Why it no longer works, or None."""
        return self.loop.failure()

    def look_again(self) -> None:
        """The configuration may say something else now."""
        self._work = None
        self.loop.add(_ALL)

    def reconcile(self, key: Key) -> Again | None:
        """Write or delete a few."""
        if not self._is_begun:
            self._is_begun = True
            return Again(_FIRST_SECONDS)
        wanted = self._is_wanted()
        if wanted is None:
            return None
        try:
            return self._write() if wanted else self._remove()
        except NotFound:
            return Again(_NO_KIND_SECONDS)

    def _write(self) -> Again | None:
        work = self._work
        if work is None:
            objects = make_common_objects()
            version = version_of(objects)
            if self._is_there(objects[-1], version):
                return None
            work = self._work = _Work(version, objects)
        for document in work.left[:_BATCH]:
            self._put(document, work.version)
        del work.left[:_BATCH]
        if work.left:
            return Again(_PAUSE_SECONDS)
        self._work = None
        log.info("wrote the common instance types", extra={"facts": {"version": work.version}})
        return None

    def _is_there(self, document: JsonObject, version: str) -> bool:
        try:
            found = self._client.request("GET", _path(document))
        except NotFound:
            return False
        return bool(_labels(found).get(_VERSION) == version)

    def _put(self, document: JsonObject, version: str) -> None:
        metadata = document["metadata"]
        made = {**document, "metadata": {**metadata, "labels": {**metadata["labels"], _VERSION: version}}}
        path = _path(document)
        try:
            self._client.request("POST", path.rpartition("/")[0], made)
            return
        except AlreadyExists:
            found = self._client.request("GET", path)
        labels = _labels(found)
        if labels.get(VENDOR_LABEL) != VENDOR or labels.get(_VERSION) == version:
            # Somebody else's of the same name stays as it is.
            return
        gone = dict.fromkeys(set(found.get("spec") or {}) - set(made["spec"]))
        patch = {"metadata": made["metadata"], "spec": {**gone, **made["spec"]}}
        self._client.request("PATCH", path, patch, None, _MERGE)

    def _remove(self) -> Again | None:
        self._work = None
        for part in PARTS:
            path = part.in_cluster.path()
            query = {"labelSelector": f"{VENDOR_LABEL}={VENDOR}", "limit": str(_BATCH)}
            found: Sequence[JsonObject] = self._client.request("GET", path, query=query)["items"]
            for each in found:
                self._delete(part.in_cluster, str(each["metadata"]["name"]))
            if found:
                return Again(_PAUSE_SECONDS)
        return None

    def _delete(self, kind: Kind, name: str) -> None:
        try:
            self._client.request("DELETE", kind.path(name=name))
        except NotFound:
            return


def make_common_objects() -> list[JsonObject]:
    """All of them; made when they are needed, as they take a tenth of a megabyte."""
    return [*common_types(), *common_preferences()]


def version_of(objects: Sequence[JsonObject]) -> str:
    """What tells one release's objects from another's, as a label."""
    return f"kvedge-{hashlib.sha256(msgspec.json.encode(objects, order='sorted')).hexdigest()[:12]}"


def _path(document: JsonObject) -> str:
    kinds = (part.in_cluster for part in PARTS)
    kind = next(each for each in kinds if each.kind == document["kind"])
    return kind.path(name=document["metadata"]["name"])


def _labels(document: JsonObject) -> JsonObject:
    found: JsonObject = (document.get("metadata") or {}).get("labels") or {}
    return found
