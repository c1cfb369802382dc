"""Brings VolumeSnapshots to their contents: reads, asks the snapshot plan, and does what it says.

Run by the volumes' service. Writes VolumeSnapshots, contents, and the finalizer of their claims.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.volume_snapshots import (
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.runtime.clock import Clock
from kvedge.standalone.volumes.claim_loop import Followed
from kvedge.standalone.volumes.claim_sources import snapshot_of
from kvedge.standalone.volumes.snapshot_words import BEING_DELETED, CLAIM_AS_SOURCE, content_name
from kvedge.standalone.volumes.snapshots.snapshot_manifest import failed_status
from kvedge.standalone.volumes.snapshots.snapshot_plan import (
    BindContent,
    CreateContent,
    DeleteContent,
    Fail,
    MarkContent,
    Protect,
    ProtectClaim,
    Release,
    SetStatus,
    SnapshotSeen,
    SnapshotStep,
    Tell,
    UseClass,
    is_taken,
    plan_snapshot,
)

_FIRST_WAIT: Final = 2.0
_LONGEST_WAIT: Final = 60.0
_PENDING: Final = ("", "Pending")
_LOOK_SECONDS: Final = 5.0
# An index of VolumeSnapshots, by namespace and name of the claim that each is of.
BY_CLAIM: Final = "snapshots-by-claim"


class FollowedSnapshots(Struct, frozen=True):
    """What the loops of snapshots see of the API besides claims and volumes."""

    snapshots: Informer[VolumeSnapshot]
    contents: Informer[VolumeSnapshotContent]
    classes: Informer[VolumeSnapshotClass]


class _Failed(Exception):
    """A snapshot cannot be taken now; it was told."""


class SnapshotLoop(Struct):
    """Looks after the VolumeSnapshots of all namespaces."""

    client: KubeClient
    events: EventRecorder
    followed: Followed
    seen: FollowedSnapshots
    clock: Clock
    _failures: dict[str, int] = field(default_factory=dict)

    def reconcile(self, key: Key) -> Again | None:
        """One snapshot's next steps.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        snapshot = self.seen.snapshots.get(*key)
        if snapshot is None:
            return None
        uid = snapshot.metadata.uid
        is_held = False
        try:
            for step in plan_snapshot(self._look(snapshot)):
                is_held = is_held or (isinstance(step, Tell) and step.reason == "SnapshotDeletePending")
                snapshot = self._apply(snapshot, step)
        except NotFound:
            # Something of it has just gone: the watch tells.
            snapshot = self.seen.snapshots.get(*key) or snapshot
        except _Failed:
            count = self._failures[uid] = self._failures.get(uid, 0) + 1
            return Again(min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(count - 1, 10)))
        self._failures.pop(uid, None)
        if is_taken(snapshot) or snapshot.metadata.deletion_timestamp is not None:
            self._release_claim(snapshot)
        return Again(_LOOK_SECONDS) if is_held else None

    def _look(self, snapshot: VolumeSnapshot) -> SnapshotSeen:
        meta, source = snapshot.metadata, snapshot.spec.source
        name = source.persistent_volume_claim_name
        claim = self.followed.claims.get(meta.namespace, name) if name else None
        volume = self.followed.volumes.get("", claim.spec.volume_name) if claim and claim.spec.volume_name else None
        restoring: list[str] = []
        if meta.deletion_timestamp is not None:
            # The API itself: a claim may have been made a moment ago.
            restoring = [
                each.metadata.name
                for each in self.client.list(PersistentVolumeClaim, meta.namespace)
                if each.status.phase in _PENDING
                and each.metadata.deletion_timestamp is None
                and snapshot_of(each) == meta.name
            ]
        return SnapshotSeen(
            snapshot,
            self.seen.contents.get("", source.volume_snapshot_content_name or content_name(meta.uid)),
            claim,
            volume,
            self.seen.classes.list(),
            restoring,
        )

    def _apply(self, snapshot: VolumeSnapshot, step: SnapshotStep) -> VolumeSnapshot:
        match step:
            case Protect(names):
                return self._write(snapshot, {"metadata": {"finalizers": [*snapshot.metadata.finalizers, *names]}})
            case UseClass(name):
                return self._write(snapshot, {"spec": {"volumeSnapshotClassName": name}})
            case ProtectClaim(claim):
                self._protect_claim(claim)
            case CreateContent(content):
                try:
                    self.seen.contents.observe(self.client.create(content))
                except AlreadyExists:
                    # The watch tells of it.
                    return snapshot
            case BindContent(content):
                meta = snapshot.metadata
                change = {"spec": {"volumeSnapshotRef": {"uid": meta.uid}}}
                self._write_content(content, change)
            case SetStatus(change):
                return self._write(snapshot, {"status": change}, "status")
            case MarkContent(content):
                self._write_content(content, {"metadata": {"annotations": {BEING_DELETED: "yes"}}})
            case DeleteContent(content):
                meta = content.metadata
                self.client.delete(VolumeSnapshotContent, "", meta.name, Preconditions(uid=meta.uid))
            case Release(names):
                kept = [name for name in snapshot.metadata.finalizers if name not in names]
                return self._write(snapshot, {"metadata": {"finalizers": kept}})
            case Tell():
                self.events.record(snapshot, step.type, step.reason, step.message)
            case Fail(reason, message):
                self._fail(snapshot, reason, message)
        return snapshot

    def _fail(self, snapshot: VolumeSnapshot, reason: str, message: str) -> None:
        text = message
        if reason == "SnapshotContentCreationFailed":
            text = f"Failed to create snapshot content with error {message}"
        known = snapshot.status.error
        if known is None or known.message != text:
            self._write(snapshot, {"status": failed_status(text, self.clock.now())}, "status")
        self.events.record(snapshot, "Warning", reason, text)
        raise _Failed

    def _protect_claim(self, claim: PersistentVolumeClaim) -> None:
        held = claim.metadata.finalizers
        if CLAIM_AS_SOURCE not in held:
            self._write_claim(claim, [*held, CLAIM_AS_SOURCE])

    def _release_claim(self, snapshot: VolumeSnapshot) -> None:
        """Let the claim go, unless another snapshot of it is still to be taken."""
        name, namespace = snapshot.spec.source.persistent_volume_claim_name, snapshot.metadata.namespace
        claim = self.followed.claims.get(namespace, name) if name else None
        if claim is None or CLAIM_AS_SOURCE not in claim.metadata.finalizers:
            return
        of_claim = self.seen.snapshots.find_indexed(BY_CLAIM, f"{namespace}/{name}")
        others = (each.metadata for each in of_claim if not is_taken(each))
        if any(each.uid != snapshot.metadata.uid and each.deletion_timestamp is None for each in others):
            return
        try:
            self._write_claim(claim, [each for each in claim.metadata.finalizers if each != CLAIM_AS_SOURCE])
        except NotFound:
            return

    def _write_claim(self, claim: PersistentVolumeClaim, finalizers: list[str]) -> None:
        meta = claim.metadata
        patch = at_version({"metadata": {"finalizers": finalizers}}, meta.resource_version)
        self.followed.claims.observe(self.client.patch(PersistentVolumeClaim, meta.namespace, meta.name, patch))

    def _write_content(self, content: VolumeSnapshotContent, change: JsonObject) -> None:
        patch = at_version(change, content.metadata.resource_version)
        self.seen.contents.observe(self.client.patch(VolumeSnapshotContent, "", content.metadata.name, patch))

    def _write(self, snapshot: VolumeSnapshot, change: JsonObject, subresource: str = "") -> VolumeSnapshot:
        meta = snapshot.metadata
        patch = at_version(change, meta.resource_version)
        written = self.client.patch(VolumeSnapshot, meta.namespace, meta.name, patch, subresource)
        self.seen.snapshots.observe(written)
        return written
