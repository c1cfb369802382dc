"""The parts of the storage service that look after snapshots: what they follow, their two loops, and what starts these.

Made by the volumes' service, which starts and stops them with its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.volume_snapshots import (
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.runtime.clock import Clock
from kvedge.runtime.role import Part, part
from kvedge.runtime.services import ServiceError
from kvedge.standalone.volumes.claim_loop import Followed
from kvedge.standalone.volumes.claim_sources import snapshot_of
from kvedge.standalone.volumes.claim_users import claims_of
from kvedge.standalone.volumes.copy_jobs import CopyJobs
from kvedge.standalone.volumes.provisioner import Provisioner
from kvedge.standalone.volumes.snapshots.content_loop import ContentLoop
from kvedge.standalone.volumes.snapshots.snapshot_keeper import SnapshotKeeper
from kvedge.standalone.volumes.snapshots.snapshot_loop import BY_CLAIM, FollowedSnapshots, SnapshotLoop
from kvedge.standalone.volumes.snapshots.snapshot_plan import is_taken
from kvedge.standalone.volumes.snapshots.snapshot_taker import SnapshotTaker

_SYNC_SECONDS: Final = 30.0


@dataclass(slots=True)
class SnapshotParts:
    """What one box does for snapshots; `copies` are those of claims, too."""

    client: KubeClient
    events: EventRecorder
    followed: Followed
    provisioner: Provisioner
    copies: CopyJobs
    clock: Clock
    seen: FollowedSnapshots = field(init=False)
    _snapshots: WorkQueue = field(init=False, default_factory=WorkQueue)
    _contents: WorkQueue = field(init=False, default_factory=WorkQueue)
    _content_loop: ContentLoop = field(init=False)

    def __post_init__(self) -> None:
        client = self.client
        self.seen = FollowedSnapshots(
            Informer(client, VolumeSnapshot),
            Informer(client, VolumeSnapshotContent),
            Informer(client, VolumeSnapshotClass),
        )
        self.seen.snapshots.add_index(
            BY_CLAIM,
            lambda item: (f"{item.metadata.namespace}/{item.spec.source.persistent_volume_claim_name or ''}",),
        )
        taker = SnapshotTaker(client, self.provisioner.places, self.copies, self.provisioner.check_space)
        self._content_loop = ContentLoop(
            client, self.events, self.seen.contents, self.seen.snapshots, taker, self.clock
        )

    def parts(self) -> list[Part]:
        """In their order, after the parts `claims` and `places` of the service."""
        seen, loop = self.seen, self._content_loop
        snapshot_loop = SnapshotLoop(self.client, self.events, self.followed, seen, self.clock)
        snapshots = ReconcileLoop("volume-snapshots", snapshot_loop.reconcile, queue=self._snapshots)
        contents = ReconcileLoop("snapshot-contents", loop.reconcile, queue=self._contents)

        keeper = SnapshotKeeper(self.provisioner.places, seen.snapshots, seen.contents)

        def begin() -> None:
            if not all(each.wait_synced(_SYNC_SECONDS) for each in (seen.snapshots, seen.contents, seen.classes)):
                text = f"the API at {self.client.host} did not list snapshots of volumes in time"
                raise ServiceError("volumes", text)
            seen.snapshots.on_change(self._on_snapshot)
            seen.contents.on_change(self._on_content)
            seen.classes.on_change(self._on_class)
            self.followed.claims.on_change(self._on_claim)
            self.followed.pods.on_change(self._on_pod)
            snapshots.start()
            contents.start()
            keeper.start()

        def stop() -> None:
            snapshots.stop()
            contents.stop()
            keeper.loop.stop()

        return [
            part("snapshot list", seen.snapshots),
            part("snapshot content list", seen.contents),
            part("snapshot class list", seen.classes),
            Part(
                "volume snapshots",
                begin,
                stop,
                lambda: snapshots.failure() or contents.failure() or keeper.loop.failure(),
                ("claims", "snapshot list", "snapshot content list", "snapshot class list"),
            ),
        ]

    def _on_snapshot(self, old: VolumeSnapshot | None, new: VolumeSnapshot | None) -> None:
        known = new or old
        assert known is not None
        self._snapshots.add(Key(known.metadata.namespace, known.metadata.name))
        bound = known.status.bound_volume_snapshot_content_name or known.spec.source.volume_snapshot_content_name
        if bound:
            self._contents.add(Key("", bound))

    def _on_content(self, old: VolumeSnapshotContent | None, new: VolumeSnapshotContent | None) -> None:
        known = new or old
        assert known is not None
        self._contents.add(Key("", known.metadata.name))
        ref = known.spec.volume_snapshot_ref
        if ref.name:
            self._snapshots.add(Key(ref.namespace, ref.name))

    def _on_class(self, old: VolumeSnapshotClass | None, new: VolumeSnapshotClass | None) -> None:
        if new is not None:
            for item in self.seen.snapshots.list():
                if not item.status.ready_to_use:
                    self._snapshots.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = new or old
        assert known is not None
        self._try_again(known.metadata.namespace, known.metadata.name)
        source = snapshot_of(known)
        if source:
            # One that waits for this claim before it goes.
            self._snapshots.add(Key(known.metadata.namespace, source))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A Pod that ends may be the last one to write a volume."""
        known = new or old
        assert known is not None
        if new is not None and old is not None and old.status.phase == new.status.phase:
            return
        for name in claims_of(known):
            self._try_again(known.metadata.namespace, name)

    def _try_again(self, namespace: str, claim: str) -> None:
        for item in self.seen.snapshots.find_indexed(BY_CLAIM, f"{namespace}/{claim}"):
            if is_taken(item):
                continue
            self._snapshots.add(Key(namespace, item.metadata.name))
            bound = item.status.bound_volume_snapshot_content_name
            content = self.seen.contents.get("", bound) if bound else None
            if content is not None:
                self._content_loop.try_now(content)
                self._contents.add(Key("", content.metadata.name))
