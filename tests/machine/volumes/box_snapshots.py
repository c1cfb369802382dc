"""VolumeSnapshots of the storage of one box, as tests make and look at them."""

from __future__ import annotations

from typing import Any

from kvedge.kube.errors import NotFound
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot, VolumeSnapshotContent
from tests.machine.volumes.box_storage import BoxStorage
from tests.support.waiting import wait_until

SNAPSHOTS = VolumeSnapshot.KIND.path("default")
CONTENTS = VolumeSnapshotContent.KIND.path("")
GROUP = "snapshot.storage.k8s.io"


def source_of(snapshot: str) -> dict[str, Any]:
    """The data source of a claim that is made of a snapshot."""
    return {"dataSource": {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": snapshot}}


class BoxSnapshots:
    """The snapshots of one box."""

    def __init__(self, box: BoxStorage) -> None:
        self.box, self.client = box, box.client

    def ask(self, name: str, claim: str, **spec: Any) -> None:
        """A VolumeSnapshot of a claim."""
        wanted = {"source": {"persistentVolumeClaimName": claim}, **spec}
        self.client.request("POST", SNAPSHOTS, {"metadata": {"name": name}, "spec": wanted})

    def get(self, name: str) -> VolumeSnapshot:
        """The VolumeSnapshot as it is."""
        return self.client.get(VolumeSnapshot, "default", name)

    def ready(self, name: str) -> VolumeSnapshot:
        """The VolumeSnapshot, once claims can be made of it."""
        wait_until(lambda: self.get(name).status.ready_to_use, f"snapshot {name} ready")
        return self.get(name)

    def error(self, name: str) -> str:
        """What its status says is wrong, once it says so."""

        def look() -> str:
            error = self.get(name).status.error
            return (error.message or "") if error is not None else ""

        return wait_until(look, f"an error of {name}")

    def content(self, name: str) -> VolumeSnapshotContent:
        """The content of a VolumeSnapshot that has one."""
        bound = self.get(name).status.bound_volume_snapshot_content_name
        return self.client.get(VolumeSnapshotContent, "", bound or "-")

    def delete(self, name: str) -> None:
        """Delete a VolumeSnapshot."""
        self.client.delete(VolumeSnapshot, "default", name)

    def is_gone(self, name: str) -> bool:
        """Whether there is no such VolumeSnapshot."""
        try:
            self.get(name)
        except NotFound:
            return True
        return False

    def gone(self, name: str) -> None:
        """Until there is no such VolumeSnapshot."""
        wait_until(lambda: self.is_gone(name), f"snapshot {name} gone")

    def kept(self) -> list[str]:
        """What lies in the place besides volumes."""
        return sorted(path.name for path in self.box.place.glob("snapshot-*"))
