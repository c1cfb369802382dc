"""Writes down beside the snapshots of one box which VolumeSnapshot each is, whenever that changes.

Made by the parts of snapshots. Reads informers, writes the notes of places through their drivers. As with claims, a
note goes when its VolumeSnapshot is seen to go, and only then: a box whose store was lost must find them.
"""

from __future__ import annotations

import logging
from typing import Final

from kvedge.kube.informer import Informer
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.standalone.volumes.box_places import BoxPlaces
from kvedge.standalone.volumes.kept_manifests import make_snapshot_note
from kvedge.standalone.volumes.snapshot_words import handle_of, is_bound, split_handle
from kvedge.storage.volumes.volume_driver import VolumeDriverError

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 60.0


class SnapshotKeeper:
    """One loop over all VolumeSnapshots; the informers are started and stopped by others."""

    def __init__(
        self,
        places: BoxPlaces,
        snapshots: Informer[VolumeSnapshot],
        contents: Informer[VolumeSnapshotContent],
    ) -> None:
        self._places = places
        self._snapshots, self._contents = snapshots, contents
        # The handles of what was noted; a note that a kill leaves behind is that of a snapshot which is not there.
        self._noted: dict[Key, str] = {}
        self.loop = ReconcileLoop("snapshot-notes", self.reconcile)

    def start(self) -> None:
        """Follow what changes."""
        self._snapshots.on_change(self._on_snapshot)
        self.loop.start()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one VolumeSnapshot; a place that is away is tried again."""
        snapshot = self._snapshots.get(*key)
        handle = "" if snapshot is None else self._handle(snapshot)
        try:
            if snapshot is None:
                self._drop(key)
            elif (parts := split_handle(handle)) is not None:
                self._places.of_name(parts[0]).write_note(parts[1], make_snapshot_note(snapshot, parts[1]))
                self._noted[key] = handle
        except VolumeDriverError as error:
            log.warning("a snapshot is not noted", extra={"facts": {"of": "/".join(key), "why": str(error)}})
            return Again(_RETRY_SECONDS)
        return None

    def _drop(self, key: Key) -> None:
        parts = split_handle(self._noted.get(key, ""))
        if parts is not None:
            self._places.of_name(parts[0]).drop_note(parts[1])
        self._noted.pop(key, None)

    def _handle(self, snapshot: VolumeSnapshot) -> str:
        name = snapshot.status.bound_volume_snapshot_content_name
        content = self._contents.get("", name) if name and snapshot.status.ready_to_use else None
        if content is None or not is_bound(snapshot, content):
            return ""
        return handle_of(content) or ""

    def _on_snapshot(self, old: VolumeSnapshot | None, new: VolumeSnapshot | None) -> None:
        item = new or old
        assert item is not None
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))
