"""Brings VolumeSnapshotContents to their snapshots: reads, asks the content plan, and does what it says.

Run by the volumes' service. Writes contents; each write names the version that was read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field

from kvedge.kube.errors import Conflict, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import SNAPSHOT_PATH
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.runtime.clock import Clock
from kvedge.standalone.volumes.snapshot_words import CONTENT_BOUND
from kvedge.standalone.volumes.snapshots.content_plan import (
    ContentStep,
    Delete,
    Erase,
    Fail,
    Find,
    Protect,
    Release,
    Take,
    plan_content,
)
from kvedge.standalone.volumes.snapshots.snapshot_manifest import failed_status, ready_status
from kvedge.standalone.volumes.snapshots.snapshot_taker import KeptSnapshot, SnapshotTaker, StillCopied
from kvedge.storage.volumes.volume_driver import VolumeDriverError

_FIRST_WAIT: Final = 2.0
_LONGEST_WAIT: Final = 60.0
_COPY_SECONDS: Final = 0.5


class _Waits(Exception):
    """Nothing is to be done before so many seconds have passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Failure(Struct):
    """How often a content has failed, and until when it is left alone."""

    until: datetime
    count: int = 0


class ContentLoop(Struct):
    """Looks after all contents of this box's own driver."""

    client: KubeClient
    events: EventRecorder
    contents: Informer[VolumeSnapshotContent]
    snapshots: Informer[VolumeSnapshot]
    taker: SnapshotTaker
    clock: Clock
    _failures: dict[str, _Failure] = field(default_factory=dict)

    def reconcile(self, key: Key) -> Again | None:
        """One content's next steps.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        content = self.contents.get("", key.name)
        if content is None:
            return None
        uid = content.metadata.uid
        failure = self._failures.get(uid)
        ref = content.spec.volume_snapshot_ref
        try:
            for step in plan_content(content, self.snapshots.get(ref.namespace, ref.name)):
                content = self._apply(content, step)
        except NotFound:
            self._failures.pop(uid, None)
            return None
        except _Waits as wait:
            return Again(wait.seconds)
        except StillCopied:
            return Again(_COPY_SECONDS)
        except VolumeDriverError as error:
            return self._note_failure(content, str(error), failure)
        self._failures.pop(uid, None)
        return None

    def try_now(self, content: VolumeSnapshotContent) -> None:
        """What kept a content from being taken may be over: its next attempt does not wait."""
        if (failure := self._failures.get(content.metadata.uid)) is not None:
            failure.until = self.clock.now()

    def _apply(self, content: VolumeSnapshotContent, step: ContentStep) -> VolumeSnapshotContent:
        match step:
            case Protect():
                kept = [*content.metadata.finalizers, CONTENT_BOUND]
                return self._write(content, {"metadata": {"finalizers": kept}})
            case Take():
                return self._take(content)
            case Find(handle):
                return self._write_kept(content, self.taker.find(handle))
            case Fail(message):
                raise VolumeDriverError(message)
            case Erase():
                self._erase(content)
            case Delete():
                self._delete(content)
            case Release():
                kept = [name for name in content.metadata.finalizers if name != CONTENT_BOUND]
                return self._write(content, {"metadata": {"finalizers": kept}})
        return content

    def _take(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        failure = self._failures.get(content.metadata.uid)
        if failure is not None and (rest := (failure.until - self.clock.now()).total_seconds()) > 0:
            raise _Waits(rest)
        taken = self.taker.take(content)
        if taken is None:
            raise _Waits(_COPY_SECONDS)
        return self._write_kept(content, taken)

    def _write_kept(self, content: VolumeSnapshotContent, kept: KeptSnapshot) -> VolumeSnapshotContent:
        path = str(kept.facts.path)
        if content.metadata.annotations.get(SNAPSHOT_PATH) != path:
            content = self._write(content, {"metadata": {"annotations": {SNAPSHOT_PATH: path}}})
        return self._write(content, {"status": ready_status(kept.handle, kept.facts)}, "status")

    def _erase(self, content: VolumeSnapshotContent) -> None:
        live = self.client.get(VolumeSnapshotContent, "", content.metadata.name)
        was, now = content.metadata, live.metadata
        if (was.uid, was.resource_version) != (now.uid, now.resource_version):
            raise Conflict(409, "Conflict", f"content {was.name} has changed since it was judged")
        self._check_given_up(live, is_deleted_enough=True)
        self.taker.erase(live, self.client.list(VolumeSnapshotContent))

    def _delete(self, content: VolumeSnapshotContent) -> None:
        self._check_given_up(content, is_deleted_enough=False)
        meta = content.metadata
        self.client.delete(VolumeSnapshotContent, "", meta.name, Preconditions(uid=meta.uid))

    def _check_given_up(self, content: VolumeSnapshotContent, *, is_deleted_enough: bool) -> None:
        """Return when the API itself says that no VolumeSnapshot has a content any more.

        Raises:
            Conflict: one has.
        """
        ref = content.spec.volume_snapshot_ref
        if not ref.uid:
            return
        try:
            found = self.client.get(VolumeSnapshot, ref.namespace, ref.name)
        except NotFound:
            return
        is_going = is_deleted_enough and found.metadata.deletion_timestamp is not None
        if found.metadata.uid == ref.uid and not is_going:
            raise Conflict(409, "Conflict", f"content {content.metadata.name} has its snapshot")

    def _note_failure(self, content: VolumeSnapshotContent, message: str, failure: _Failure | None) -> Again:
        if failure is None:
            failure = self._failures.setdefault(content.metadata.uid, _Failure(self.clock.now()))
        failure.count += 1
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failure.count - 1, 10))
        failure.until = self.clock.now() + timedelta(seconds=wait)
        known = content.status.error
        if known is None or known.message != message:
            self._write(content, {"status": failed_status(message, self.clock.now())}, "status")
        self.events.record(content, "Warning", "SnapshotCreationFailed", message)
        return Again(wait)

    def _write(
        self, content: VolumeSnapshotContent, change: JsonObject, subresource: str = ""
    ) -> VolumeSnapshotContent:
        patch = at_version(change, content.metadata.resource_version)
        written = self.client.patch(VolumeSnapshotContent, "", content.metadata.name, patch, subresource)
        self.contents.observe(written)
        return written
