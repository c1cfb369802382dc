"""VolumeSnapshots as sources of DataVolumes: whether one can be had, and what a claim must be to be made of it.

Called by `clone_sources` and by the plan of DataVolumes. Reads the API server.
"""

from __future__ import annotations

from kvedge.controller.datavolumes.claim_plan import ClaimProblem
from kvedge.controller.datavolumes.data_volume_status import WITHOUT_SOURCE
from kvedge.controller.datavolumes.data_volume_view import SourceSeen
from kvedge.controller.datavolumes.storage_facts.named_snapshots import find_snapshot
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.protection.volume_snapshots import (
    VOLUME_SNAPSHOT_GROUP,
    VolumeSnapshot,
    VolumeSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResources


def see_snapshot(client: KubeClient, namespace: str, name: str, into: str) -> SourceSeen:
    """A snapshot as the source of a claim in the namespace `into`.

    Raises:
        KubeError: when the server does not answer.
    """
    if namespace != into:
        # A claim is made of a snapshot of its own namespace alone, and nothing is said of what lies elsewhere.
        remedy = "make a claim of it there, and clone that with source.pvc"
        text = f"snapshot {namespace}/{name} is in another namespace: {remedy}"
        return SourceSeen(problem=ClaimProblem("CloneValidationFailed", text))
    found = find_snapshot(client, namespace, name)
    if found is None or found.metadata.deletion_timestamp is not None:
        return SourceSeen(problem=ClaimProblem(WITHOUT_SOURCE, f"The source snapshot {name} doesn't exist"))
    if not found.status.ready_to_use or found.status.restore_size is None:
        error = found.status.error
        why = f": {error.message}" if error is not None and error.message else ""
        return SourceSeen(problem=ClaimProblem("SnapshotNotReady", f"The source snapshot {name} is not ready{why}"))
    return SourceSeen(snapshot=name, like=_make_like(client, found))


def data_source(snapshot: str) -> JsonObject:
    """What has a driver make a claim of a snapshot."""
    return {"apiGroup": VOLUME_SNAPSHOT_GROUP, "kind": VolumeSnapshot.KIND.kind, "name": snapshot}


def is_made_of_snapshot(claim: PersistentVolumeClaim) -> bool:
    """Whether a driver fills a claim from a snapshot as it makes the volume."""
    source = claim.spec.data_source_ref or claim.spec.data_source or {}
    return (source.get("apiGroup"), source.get("kind")) == (VOLUME_SNAPSHOT_GROUP, VolumeSnapshot.KIND.kind)


def _make_like(client: KubeClient, snapshot: VolumeSnapshot) -> PersistentVolumeClaim:
    """A claim as large as the snapshot wants it, in the mode that its volume had where that is known."""
    size = str(snapshot.status.restore_size)
    mode = None
    if snapshot.status.bound_volume_snapshot_content_name:
        try:
            name = snapshot.status.bound_volume_snapshot_content_name
            mode = client.get(VolumeSnapshotContent, "", name).spec.source_volume_mode
        except (NotFound, Forbidden):
            # Drivers of before leave it out, too: the driver then tells what it cannot do.
            mode = None
    spec = PersistentVolumeClaimSpec(resources=VolumeResources(requests={"storage": size}), volume_mode=mode)
    metadata = ObjectMeta(
        name=snapshot.metadata.name, namespace=snapshot.metadata.namespace, labels=dict(snapshot.metadata.labels)
    )
    return PersistentVolumeClaim(metadata=metadata, spec=spec)
