"""VolumeSnapshots of one box, end to end: taken on disk, restored into claims, kept or taken away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshotClass, VolumeSnapshotContent
from tests.machine.volumes.box_snapshots import BoxSnapshots, source_of
from tests.machine.volumes.box_storage import BoxStorage, box_storage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
DISK = "disk.img"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxStorage]:
    with box_storage(tmp_path) as made:
        yield made


@pytest.fixture
def snapshots(box: BoxStorage) -> BoxSnapshots:
    return BoxSnapshots(box)


def disk_of(box: BoxStorage, claim: str) -> Path:
    """The disk in a claim's volume."""
    local = box.bound(claim).spec.local
    assert local is not None
    return Path(local.path) / DISK


def test_a_claim_is_restored_to_what_it_held_when_it_was_snapshotted(box: BoxStorage, snapshots: BoxSnapshots) -> None:
    box.make("data", "64Mi")
    disk = disk_of(box, "data")
    disk.write_bytes(b"before")
    snapshots.ask("first", "data")
    taken = snapshots.ready("first")
    assert taken.spec.volume_snapshot_class_name == "kvedge"
    assert taken.status.restore_size == "64Mi"
    assert taken.status.creation_time
    disk.write_bytes(b"after")
    box.make("back", "64Mi", **source_of("first"))
    assert disk_of(box, "back").read_bytes() == b"before"
    assert disk.read_bytes() == b"after"
    assert (taken.status.error, snapshots.content("first").spec.deletion_policy) == (None, "Delete")
    assert box.claim("data").metadata.finalizers == ["kubernetes.io/pvc-protection"]


def test_the_first_start_makes_the_default_class(box: BoxStorage) -> None:
    made = box.client.get(VolumeSnapshotClass, "", "kvedge")
    assert made.metadata.annotations == {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    assert (made.driver, made.deletion_policy) == ("kvedge.io/box", "Delete")


def test_a_deleted_snapshots_data_go_and_a_claim_that_was_made_of_it_stays(
    box: BoxStorage, snapshots: BoxSnapshots
) -> None:
    box.make("data", "64Mi")
    disk_of(box, "data").write_bytes(b"data")
    snapshots.ask("first", "data")
    taken = snapshots.ready("first")
    assert snapshots.kept() == [f"snapshot-{taken.metadata.uid}"]
    box.make("back", "64Mi", **source_of("first"))
    restored = disk_of(box, "back")
    snapshots.delete("first")
    snapshots.gone("first")
    wait_until(lambda: not snapshots.kept(), "the data of the snapshot are gone")
    assert box.client.list(VolumeSnapshotContent) == []
    assert restored.read_bytes() == b"data"


def test_a_snapshot_outlives_the_claim_that_it_is_of(box: BoxStorage, snapshots: BoxSnapshots) -> None:
    box.make("data", "64Mi")
    volume = box.bound("data")
    disk_of(box, "data").write_bytes(b"data")
    snapshots.ask("first", "data")
    snapshots.ready("first")
    box.delete_claim("data")
    box.gone(volume.metadata.name)
    box.make("back", "64Mi", **source_of("first"))
    assert disk_of(box, "back").read_bytes() == b"data"
