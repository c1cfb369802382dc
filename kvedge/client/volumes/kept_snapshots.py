"""VolumeSnapshots of claims, as the verbs of volumes name them.

Called by the verbs. Reads the API server, which need not know the kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kvedge.client.session import Session
from kvedge.client.volumes.volume_usage import read_usage_of
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import SNAPSHOT_PATH
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent

Snapshots = Mapping[tuple[str, str], Sequence[str]]


def list_snapshots(session: Session, namespace: str | None) -> list[VolumeSnapshot]:
    """Those of a namespace, or of all; none where there is no such kind."""
    try:
        return session.client.list(VolumeSnapshot, namespace)
    except (NotFound, Forbidden):
        return []


def by_claim(found: Iterable[VolumeSnapshot]) -> Snapshots:
    """The names of the snapshots by namespace and claim."""
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for item in found:
        names[item.metadata.namespace, item.spec.source.persistent_volume_claim_name or ""].append(item.metadata.name)
    return {key: sorted(each) for key, each in names.items()}


def snapshot_usages(session: Session, found: Iterable[VolumeSnapshot]) -> list[JsonObject]:
    """What each takes of this host's disk; a snapshot that shares blocks is told as large as it is."""
    try:
        contents = {each.metadata.name: each for each in session.client.list(VolumeSnapshotContent)}
    except (NotFound, Forbidden):
        contents = {}
    rows = []
    for item in sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name)):
        content = contents.get(item.status.bound_volume_snapshot_content_name or "")
        path = "" if content is None else content.metadata.annotations.get(SNAPSHOT_PATH, "")
        here = read_usage_of(path) if path else None
        rows.append(
            {
                "namespace": item.metadata.namespace,
                "name": f"volumesnapshot/{item.metadata.name}",
                "size": str(item.status.restore_size or ""),
                "usedBytes": None if here is None else here.used,
                "path": path,
            }
        )
    return rows
