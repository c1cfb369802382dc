"""VolumeSnapshots of one box, end to end: taken on disk, restored into claims, kept or taken away."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshotClass, VolumeSnapshotContent
from kvedge.standalone.volumes.snapshots.content_loop import ContentLoop
from kvedge.storage.volumes import directory_driver
from kvedge.storage.volumes.tree_copy import shares_blocks
from tests.machine.volumes.box_snapshots import CONTENTS, SNAPSHOTS, BoxSnapshots, source_of
from tests.machine.volumes.box_storage import BoxStorage, box_storage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
DISK = "disk.img"
PODS = "/api/v1/namespaces/default/pods"


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


def use(box: BoxStorage, claim: str) -> None:
    """Have a Pod `p` of VM `web` that runs on a node use a claim."""
    source = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "i"}], "volumes": [source]}
    metadata = {"name": "p", "labels": {"vm.kubevirt.io/name": "web"}}
    box.client.request("POST", PODS, {"metadata": metadata, "spec": spec})


def test_what_a_vm_writes_is_not_copied_and_is_taken_once_it_is_stopped(
    box: BoxStorage, snapshots: BoxSnapshots
) -> None:
    if shares_blocks(box.place):
        pytest.skip("this file system shares blocks")
    box.make("data", "64Mi")
    disk_of(box, "data").write_bytes(b"data")
    use(box, "data")
    snapshots.ask("first", "data")
    assert snapshots.error("first").startswith(
        "VM web writes this volume, and its place cannot keep it as it is at one"
    )
    assert not snapshots.get("first").status.ready_to_use
    assert snapshots.kept() == []
    box.client.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert snapshots.ready("first").status.error is None


def test_a_copy_during_which_a_vm_starts_is_given_up(
    box: BoxStorage, snapshots: BoxSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.make("data", "64Mi")
    disk_of(box, "data").write_bytes(b"data")
    copied = threading.Event()

    def copy(source: Path, into: Path, keep_on: Callable[[], None], **how: bool) -> None:
        keep_on()
        use(box, "data")
        copied.set()
        keep_on()

    monkeypatch.setattr(directory_driver, "copy_tree", copy)
    monkeypatch.setattr(directory_driver.DirectoryDriver, "shares_blocks", lambda self: False)
    snapshots.ask("first", "data")
    assert snapshots.error("first").startswith("VM web writes this volume")
    assert copied.is_set()
    assert [*box.place.glob("snapshot-*"), *box.place.glob(".new-*")] == []


def test_a_snapshot_that_is_deleted_while_it_is_copied_leaves_nothing(
    box: BoxStorage, snapshots: BoxSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.make("data", "64Mi")
    box.bound("data")

    def copy(source: Path, into: Path, keep_on: Callable[[], None], **how: bool) -> None:
        snapshots.delete("first")
        while True:
            keep_on()

    monkeypatch.setattr(directory_driver, "copy_tree", copy)
    snapshots.ask("first", "data")
    snapshots.gone("first")
    assert box.client.list(VolumeSnapshotContent) == []
    assert [*box.place.glob("snapshot-*"), *box.place.glob(".new-*")] == []
    wait_until(lambda: box.claim("data").metadata.finalizers == ["kubernetes.io/pvc-protection"], "the claim is free")


def test_a_kept_snapshot_comes_back_by_its_handle(box: BoxStorage, snapshots: BoxSnapshots) -> None:
    made = {"metadata": {"name": "keeping"}, "driver": "kvedge.io/box", "deletionPolicy": "Retain"}
    box.client.request("POST", VolumeSnapshotClass.KIND.path(""), made)
    box.make("data", "64Mi")
    disk_of(box, "data").write_bytes(b"data")
    snapshots.ask("first", "data", volumeSnapshotClassName="keeping")
    snapshots.ready("first")
    handle = snapshots.content("first").status.snapshot_handle
    snapshots.delete("first")
    snapshots.gone("first")
    (kept,) = box.client.list(VolumeSnapshotContent)
    box.client.delete(VolumeSnapshotContent, "", kept.metadata.name)
    wait_until(lambda: box.client.list(VolumeSnapshotContent) == [], "the content is gone")
    assert len(snapshots.kept()) == 1

    spec = {
        "driver": "kvedge.io/box",
        "deletionPolicy": "Delete",
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {"namespace": "default", "name": "again"},
    }
    box.client.request("POST", CONTENTS, {"metadata": {"name": "given"}, "spec": spec})
    again = {"metadata": {"name": "again"}, "spec": {"source": {"volumeSnapshotContentName": "given"}}}
    box.client.request("POST", SNAPSHOTS, again)
    assert snapshots.ready("again").status.restore_size == "64Mi"
    box.make("back", "64Mi", **source_of("again"))
    assert disk_of(box, "back").read_bytes() == b"data"
    snapshots.delete("again")
    snapshots.gone("again")
    wait_until(lambda: not snapshots.kept(), "its data are gone")


@pytest.mark.parametrize(
    ("handle", "text"),
    [
        ("vol-1", "spec.source.snapshotHandle: 'vol-1' is none of kvedge.io/box"),
        ("kvedge/snapshot-0f5c0000-0000-4000-8000-000000000000", "is not there: it was removed, or lies in a backup"),
        ("usb/snapshot-0f5c0000-0000-4000-8000-000000000000", 'there is no place "usb" for volumes'),
    ],
    ids=["no handle of ours", "nothing there", "another place"],
)
def test_a_given_content_that_this_box_has_not_got_is_refused(
    box: BoxStorage, snapshots: BoxSnapshots, handle: str, text: str
) -> None:
    spec = {
        "driver": "kvedge.io/box",
        "deletionPolicy": "Delete",
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {"namespace": "default", "name": "first"},
    }
    box.client.request("POST", CONTENTS, {"metadata": {"name": "given"}, "spec": spec})
    asked = {"metadata": {"name": "first"}, "spec": {"source": {"volumeSnapshotContentName": "given"}}}
    box.client.request("POST", SNAPSHOTS, asked)
    assert text in snapshots.error("first")
    snapshots.delete("first")
    if handle.startswith("usb/"):
        # What lies in a place that is away is not forgotten, unless somebody says so.
        change = MergePatch({"spec": {"deletionPolicy": "Retain"}})
        box.client.patch(VolumeSnapshotContent, "", "given", change)
    snapshots.gone("first")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"size": "32Mi"}, "requested volume size 33554432 is less than the size 67108864"),
        ({"volumeMode": "Block"}, "is of a volume of mode Filesystem"),
    ],
    ids=["too small", "another mode"],
)
def test_a_claim_that_no_snapshot_fits_says_why(
    box: BoxStorage, snapshots: BoxSnapshots, spec: dict[str, str], text: str
) -> None:
    box.make("data", "64Mi")
    snapshots.ask("first", "data")
    snapshots.ready("first")
    box.make("back", spec.pop("size", "64Mi"), **spec, **source_of("first"))
    assert text in box.says("back", "ProvisioningFailed")
    # It is being restored from: it stays until the claim is gone.
    snapshots.delete("first")
    assert "back" in box.says("first", "SnapshotDeletePending")
    box.delete_claim("back")
    snapshots.gone("first")


def test_a_device_is_snapshotted_and_restored_as_one(box: BoxStorage, snapshots: BoxSnapshots) -> None:
    box.make("raw", "8Mi", volumeMode="Block")
    local = box.bound("raw").spec.local
    assert local is not None
    Path(local.path).write_bytes(b"device")
    os.sync()
    snapshots.ask("first", "raw")
    snapshots.ready("first")
    box.make("back", "16Mi", volumeMode="Block", **source_of("first"))
    restored = box.bound("back").spec.local
    assert restored is not None
    with Path(restored.path).open("rb") as device:
        assert device.read(6) == b"device"
        assert device.seek(0, os.SEEK_END) == 16 << 20


def test_where_blocks_are_shared_a_vm_that_writes_is_snapshotted_at_one_moment(xfs: Path) -> None:
    with box_storage(xfs) as box:
        snapshots = BoxSnapshots(box)
        box.make("data", "64Mi")
        disk = disk_of(box, "data")
        disk.write_bytes(bytes(32 << 20))
        use(box, "data")
        with Writer(disk) as writer:
            for number in range(3):
                snapshots.ask(f"at-{number}", "data")
                snapshots.ready(f"at-{number}")
        assert writer.rounds > 0
        for path in box.place.glob("snapshot-*"):
            assert_of_one_moment((path / DISK).read_bytes())
        # A directory with several files is of no one moment.
        (disk.parent / "other").write_bytes(b"")
        snapshots.ask("several", "data")
        assert "VM web writes this volume" in snapshots.error("several")


def test_a_snapshot_of_which_a_kill_kept_the_word_is_found_and_not_taken_anew(
    box: BoxStorage, snapshots: BoxSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.make("data", "64Mi")
    disk = disk_of(box, "data")
    disk.write_bytes(b"before")
    with monkeypatch.context() as patched:
        patched.setattr(ContentLoop, "_write_kept", lambda *_: Again(60.0))
        snapshots.ask("first", "data")
        wait_until(snapshots.kept, "it lies in the place")
        box.stop()
    disk.write_bytes(b"after")
    box.start()
    taken = snapshots.ready("first")
    (kept,) = snapshots.kept()
    assert (box.place / kept / DISK).read_bytes() == b"before"
    assert taken.status.creation_time


def test_what_a_kill_left_of_a_copy_goes_and_the_snapshot_is_taken_at_the_next_start(
    box: BoxStorage, snapshots: BoxSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.make("data", "64Mi")
    disk_of(box, "data").write_bytes(b"data")
    box.stop()
    snapshots.ask("first", "data")
    uid = snapshots.get("first").metadata.uid
    left = box.place / f".new-snapshot-{uid}"
    left.mkdir()
    (left / DISK).write_bytes(b"da")
    box.start()
    snapshots.ready("first")
    assert (box.place / f"snapshot-{uid}" / DISK).read_bytes() == b"data"
    wait_until(lambda: not [*box.place.glob(".new-*"), *box.place.glob(".gone-*")], "what was left is gone")


class Writer:
    """Writes a growing number into the first and then into the last block of a file, again and again."""

    def __init__(self, path: Path) -> None:
        self._path, self.rounds = path, 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        with self._path.open("r+b", buffering=0) as file:
            while not self._stopped.is_set():
                self.rounds += 1
                number = self.rounds.to_bytes(8, "big")
                os.pwrite(file.fileno(), number, 0)
                os.pwrite(file.fileno(), number, (32 << 20) - 8)


def assert_of_one_moment(content: bytes) -> None:
    """What was written last is written first: the end is as old as the beginning, or one round older."""
    first, last = int.from_bytes(content[:8], "big"), int.from_bytes(content[-8:], "big")
    assert first - last in (0, 1)


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A file system whose files can share blocks."""
    image, place = tmp_path / "xfs.img", tmp_path / "xfs"
    with image.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    yield place
    subprocess.run(["umount", "--recursive", place], check=True)
