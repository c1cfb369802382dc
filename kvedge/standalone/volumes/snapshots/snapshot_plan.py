"""What to do next for one VolumeSnapshot: its content, its status, and what is kept while it is used. Pure.

Called by the snapshots' loop at each pass. Order and words are those of the external-snapshotter: the content names the
snapshot by its UID, then the snapshot names the content; a snapshot that somebody makes a claim of stays that long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from kvedge.kube.events import EventType
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.volume_snapshots import (
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.volumes.snapshot_words import AS_SOURCE, BEING_DELETED, BOUND, DELETE, is_bound
from kvedge.standalone.volumes.snapshots.snapshot_manifest import content_for, is_default, mirrored_status
from kvedge.standalone.volumes.volume_matching import is_for
from kvedge.standalone.volumes.volume_plan import is_ours
from kvedge.standalone.volumes.volume_words import PROVISIONER

_PROTECTION = (AS_SOURCE, BOUND)


class SnapshotSeen(Struct, frozen=True):
    """A snapshot, and what it has to do with.

    `content` is that of its name or that which it names, `claim` its source with its volume. `restoring` are the claims
    that are being made of it.
    """

    snapshot: VolumeSnapshot
    content: VolumeSnapshotContent | None
    claim: PersistentVolumeClaim | None
    volume: PersistentVolume | None
    classes: Sequence[VolumeSnapshotClass]
    restoring: Sequence[str] = ()


class Protect(Struct, frozen=True):
    """The snapshot gets its finalizers."""

    names: tuple[str, ...]


class UseClass(Struct, frozen=True):
    """The snapshot gets the default class."""

    name: str


class ProtectClaim(Struct, frozen=True):
    """The claim stays until the snapshot is taken."""

    claim: PersistentVolumeClaim


class CreateContent(Struct, frozen=True):
    """The content is made."""

    content: VolumeSnapshotContent


class BindContent(Struct, frozen=True):
    """A content that was there already names the snapshot by its UID."""

    content: VolumeSnapshotContent


class SetStatus(Struct, frozen=True):
    """The snapshot's status gets these."""

    change: JsonObject


class Fail(Struct, frozen=True):
    """It cannot be taken now: told in the status and by an event, and tried again."""

    reason: str
    message: str


class MarkContent(Struct, frozen=True):
    """The content is told that its snapshot is being deleted."""

    content: VolumeSnapshotContent


class DeleteContent(Struct, frozen=True):
    """The content goes with the snapshot."""

    content: VolumeSnapshotContent


class Release(Struct, frozen=True):
    """Nothing keeps the snapshot any more."""

    names: tuple[str, ...]


class Tell(Struct, frozen=True):
    """An event of the snapshot."""

    type: EventType
    reason: str
    message: str


SnapshotStep: TypeAlias = (
    Protect
    | UseClass
    | ProtectClaim
    | CreateContent
    | BindContent
    | SetStatus
    | Fail
    | MarkContent
    | DeleteContent
    | Release
    | Tell
)


def plan_snapshot(seen: SnapshotSeen) -> tuple[SnapshotStep, ...]:
    """The next steps; none when the snapshot is as it should be."""
    snapshot = seen.snapshot
    if snapshot.metadata.deletion_timestamp is not None:
        return _plan_end(seen)
    missing = tuple(name for name in _PROTECTION if name not in snapshot.metadata.finalizers)
    if missing:
        return (Protect(missing),)
    if snapshot.spec.source.volume_snapshot_content_name:
        return _plan_given(seen)
    content = seen.content
    if content is None:
        if snapshot.status.bound_volume_snapshot_content_name and snapshot.status.ready_to_use:
            # Not taken anew: that would be another moment under the same name.
            return (Fail("SnapshotContentMissing", "VolumeSnapshotContent is missing: what the snapshot held is lost"),)
        return _plan_making(seen)
    if not is_bound(snapshot, content):
        text = f"VolumeSnapshotContent [{content.metadata.name}] is bound to a different snapshot"
        return (Fail("SnapshotContentMisbound", text),)
    return _mirror(seen, content)


def is_taken(snapshot: VolumeSnapshot) -> bool:
    """Whether its moment is over: the claim that it is of may go."""
    return bool(snapshot.status.creation_time)


def _plan_given(seen: SnapshotSeen) -> tuple[SnapshotStep, ...]:
    """A snapshot of a content that was there before."""
    snapshot, content = seen.snapshot, seen.content
    if content is None:
        return (Fail("SnapshotContentMissing", "VolumeSnapshotContent is missing"),)
    ref, meta = content.spec.volume_snapshot_ref, snapshot.metadata
    name = content.metadata.name
    if (ref.namespace, ref.name) != (meta.namespace, meta.name) or ref.uid not in ("", meta.uid):
        text = f"VolumeSnapshotContent [{name}] is bound to a different snapshot"
        return (Fail("SnapshotContentMisbound", text),)
    if not content.spec.source.snapshot_handle:
        text = f"VolumeSnapshotContent [{name}] was made for a claim: it is the one of another VolumeSnapshot"
        return (Fail("SnapshotContentMismatch", text),)
    if not ref.uid:
        return (BindContent(content),)
    return _mirror(seen, content)


def _plan_making(seen: SnapshotSeen) -> tuple[SnapshotStep, ...]:
    snapshot, claim, volume = seen.snapshot, seen.claim, seen.volume
    name = snapshot.spec.source.persistent_volume_claim_name or ""
    where = f"{snapshot.metadata.namespace}/{name}"
    if claim is None or claim.metadata.deletion_timestamp is not None:
        return (Fail("SnapshotContentCreationFailed", f"claim {where} is not there"),)
    if claim.status.phase != "Bound" or volume is None or not is_for(volume, claim):
        return (Fail("SnapshotContentCreationFailed", f"claim {where} is not yet bound to a volume"),)
    chosen = _choose_class(seen)
    if isinstance(chosen, Fail):
        return (chosen,)
    if chosen.driver != PROVISIONER:
        text = (
            f"VolumeSnapshotClass {chosen.metadata.name} is of driver {chosen.driver}, which this box has not got: use"
            f" a class of {PROVISIONER}"
        )
        return (Fail("SnapshotContentCreationFailed", text),)
    if not is_ours(volume):
        text = (
            f"claim {where} has a volume that {PROVISIONER} has not made: copy it by a DataVolume with source.pvc into"
            " a claim of a class of its"
        )
        return (Fail("SnapshotContentCreationFailed", text),)
    if chosen.parameters:
        text = f"VolumeSnapshotClass {chosen.metadata.name}: parameters.{min(chosen.parameters)[:64]}: there are none"
        return (Fail("SnapshotContentCreationFailed", text),)
    steps: list[SnapshotStep] = []
    if snapshot.spec.volume_snapshot_class_name is None:
        steps.append(UseClass(chosen.metadata.name))
    text = f"Waiting for a snapshot {snapshot.metadata.namespace}/{snapshot.metadata.name} to be created"
    return (
        *steps,
        ProtectClaim(claim),
        CreateContent(content_for(snapshot, chosen, volume)),
        Tell("Normal", "CreatingSnapshot", f"{text} by the CSI driver."),
    )


def _choose_class(seen: SnapshotSeen) -> VolumeSnapshotClass | Fail:
    name = seen.snapshot.spec.volume_snapshot_class_name
    if name is not None:
        found = next((item for item in seen.classes if item.metadata.name == name), None)
        return found or Fail(
            "GetSnapshotClassFailed", f'volumesnapshotclass.snapshot.storage.k8s.io "{name}" not found'
        )
    marked = sorted(item.metadata.name for item in seen.classes if item.driver == PROVISIONER and is_default(item))
    if len(marked) == 1:
        return next(item for item in seen.classes if item.metadata.name == marked[0])
    if not marked:
        return Fail("SetDefaultSnapshotClassFailed", "cannot find default snapshot class: name one in the snapshot")
    text = f"{len(marked)} default snapshot classes were found ({', '.join(marked[:5])}): name one in the snapshot"
    return Fail("SetDefaultSnapshotClassFailed", text)


def _mirror(seen: SnapshotSeen, content: VolumeSnapshotContent) -> tuple[SnapshotStep, ...]:
    snapshot, change = seen.snapshot, mirrored_status(content)
    if content.spec.driver != PROVISIONER:
        text = f"VolumeSnapshotContent [{content.metadata.name}] is of driver {content.spec.driver}: not this box's own"
        return (Fail("SnapshotContentForeign", text),)
    status = snapshot.status
    error = None if status.error is None else {"time": status.error.time, "message": status.error.message}
    known = {
        "boundVolumeSnapshotContentName": status.bound_volume_snapshot_content_name,
        "readyToUse": status.ready_to_use,
        "creationTime": status.creation_time,
        "restoreSize": status.restore_size,
        "error": error,
    }
    if known == change:
        return ()
    steps: list[SnapshotStep] = [SetStatus(change)]
    name = f"{snapshot.metadata.namespace}/{snapshot.metadata.name}"
    if change["creationTime"] and not status.creation_time:
        text = f"Snapshot {name} was successfully created by the CSI driver."
        steps.append(Tell("Normal", "SnapshotCreated", text))
    if change["readyToUse"] and not status.ready_to_use:
        steps.append(Tell("Normal", "SnapshotReady", f"Snapshot {name} is ready to use."))
    return tuple(steps)


def _plan_end(seen: SnapshotSeen) -> tuple[SnapshotStep, ...]:
    snapshot, content = seen.snapshot, seen.content
    held = tuple(name for name in _PROTECTION if name in snapshot.metadata.finalizers)
    if seen.restoring:
        text = f"Snapshot is being used to restore a PVC: {', '.join(seen.restoring[:5])}"
        return (Tell("Warning", "SnapshotDeletePending", text),) if held else ()
    if content is None or not is_bound(snapshot, content):
        return (Release(held),) if held else ()
    steps: list[SnapshotStep] = []
    if BEING_DELETED not in content.metadata.annotations:
        steps.append(MarkContent(content))
    if content.spec.deletion_policy != DELETE:
        return (*steps, *((Release(held),) if held else ()))
    if content.metadata.deletion_timestamp is None:
        steps.append(DeleteContent(content))
    # Its data go first: the content's end brings the snapshot here again.
    return tuple(steps)
