"""The snapshots that claims are made of: whether one can be had, and what its driver calls it.

Called by the provisioner before it copies a snapshot, and again while it does. Reads the API.
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from kvedge.resources.types.storage import FILESYSTEM, PersistentVolumeClaim
from kvedge.resources.values.quantities import format_bytes
from kvedge.standalone.volumes.claim_sources import snapshot_of
from kvedge.standalone.volumes.snapshot_words import is_bound, split_handle
from kvedge.standalone.volumes.volume_manifest import volume_size
from kvedge.standalone.volumes.volume_matching import count_requested
from kvedge.storage.volumes.volume_driver import VolumeDriver, VolumeDriverError


class SnapshotSources(Struct, frozen=True):
    """What one API knows of snapshots."""

    client: KubeClient

    def find(self, claim: PersistentVolumeClaim, place: str, driver: VolumeDriver) -> str:
        """What the driver of this place calls the snapshot that a claim is to be made of.

        Raises:
            VolumeDriverError: it cannot be, or not yet.
            KubeError: the API cannot be asked.
        """
        content, where = self._content(claim)
        facts = content.status
        parts = split_handle(facts.snapshot_handle or "")
        if not facts.ready_to_use or parts is None:
            raise VolumeDriverError(f"snapshot {where} is not ready to use")
        if parts[0] != place:
            raise VolumeDriverError(
                f'snapshot {where} lies in place "{parts[0]}": use the class of that place instead of that of "{place}"'
            )
        mode, wanted = content.spec.source_volume_mode, claim.spec.volume_mode or FILESYSTEM
        if mode is not None and mode != wanted:
            raise VolumeDriverError(
                f"spec.volumeMode: {wanted}: snapshot {where} is of a volume of mode {mode}: ask for that"
            )
        size, least = volume_size(count_requested(claim)), facts.restore_size or 0
        if size < least:
            raise VolumeDriverError(
                f"requested volume size {size} is less than the size {least} for the source snapshot {where}: ask for"
                f" {format_bytes(least)}"
            )
        if parts[1] not in driver.names():
            raise VolumeDriverError(f"snapshot {where} is not in its place: it was removed, or lies in a backup")
        return parts[1]

    def _content(self, claim: PersistentVolumeClaim) -> tuple[VolumeSnapshotContent, str]:
        namespace, name = claim.metadata.namespace, snapshot_of(claim)
        where = f"{namespace}/{name}"
        try:
            snapshot = self.client.get(VolumeSnapshot, namespace, name)
        except NotFound:
            raise VolumeDriverError(f"snapshot {where} is not there") from None
        if snapshot.metadata.deletion_timestamp is not None:
            raise VolumeDriverError(f"snapshot {where} is being deleted")
        bound = snapshot.status.bound_volume_snapshot_content_name
        if not bound or not snapshot.status.ready_to_use:
            raise VolumeDriverError(f"snapshot {where} is not ready to use")
        try:
            content = self.client.get(VolumeSnapshotContent, "", bound)
        except NotFound:
            raise VolumeDriverError(f"snapshot {where} has lost its content {bound}") from None
        if not is_bound(snapshot, content):
            raise VolumeDriverError(f"snapshot {where} is not that of content {bound}")
        return content, where
