"""Claims of one box, end to end: bound, made on disk, found again, taken away."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import PersistentVolume, StorageClass
from kvedge.runtime.linux.loop_devices import detach_loop
from kvedge.storage.volumes import directory_driver
from kvedge.storage.volumes.tree_copy import shares_blocks
from tests.machine.volumes.box_storage import CLASSES, NODE, VOLUME_PATH, BoxStorage, box_storage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

PODS = "/api/v1/namespaces/default/pods"


def use(box: BoxStorage, claim: str) -> None:
    """Have a Pod `p` on a node that uses a claim."""
    source = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "i"}], "volumes": [source]}
    box.client.request("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxStorage]:
    with box_storage(tmp_path) as made:
        yield made


def test_the_first_start_makes_the_default_class(box: BoxStorage) -> None:
    made = box.client.get(StorageClass, "", "kvedge")
    assert made.metadata.annotations == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (made.volume_binding_mode, made.reclaim_policy, made.allow_volume_expansion) == ("Immediate", "Delete", True)


def test_a_claim_gets_a_directory_that_user_107_may_write_to(box: BoxStorage) -> None:
    claim = box.make("data", "64Mi")
    volume = box.bound("data")
    path = box.place / claim.metadata.uid
    facts = path.stat()
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (107, 107, 0o2770)
    assert volume.spec.local is not None
    assert volume.spec.local.path == str(path)
    assert box.claim("data").status.capacity == {"storage": "64Mi"}
    assert box.says("data", "ProvisioningSucceeded") == f"Successfully provisioned volume {volume.metadata.name}"


def test_a_claim_of_mode_block_gets_a_device_of_its_size_that_is_there_again_after_a_reboot(box: BoxStorage) -> None:
    box.make("raw", "64Mi", volumeMode="Block")
    volume = box.bound("raw")
    assert volume.spec.local is not None
    device = Path(volume.spec.local.path)
    assert stat.S_ISBLK(device.stat().st_mode)
    opened = os.open(device, os.O_RDONLY)
    assert os.lseek(opened, 0, os.SEEK_END) == 64 << 20
    os.close(opened)
    # What a reboot leaves: neither the loop device nor its name.
    box.stop()
    detach_loop(device.resolve())
    device.unlink()
    box.start()
    assert stat.S_ISBLK(device.stat().st_mode)


def test_a_deleted_claims_data_goes_and_a_new_claim_of_its_name_starts_empty(box: BoxStorage) -> None:
    claim = box.make("data")
    volume = box.bound("data")
    path = box.place / claim.metadata.uid
    (path / "disk.img").write_bytes(b"old")
    box.delete_claim("data")
    box.gone(volume.metadata.name)
    wait_until(lambda: not path.exists() and not list(box.place.glob(".gone-*")), "the data is gone")
    box.make("data")
    assert box.bound("data").metadata.name != volume.metadata.name


def test_a_class_that_retains_keeps_the_data_of_a_deleted_claim(box: BoxStorage) -> None:
    document = {"metadata": {"name": "kept"}, "provisioner": "kvedge.io/box", "reclaimPolicy": "Retain"}
    box.client.request("POST", CLASSES, document)
    claim = box.make("data", storageClassName="kept")
    volume = box.bound("data")
    box.delete_claim("data")
    box.volume_in(volume.metadata.name, "Released")
    assert (box.place / claim.metadata.uid).is_dir()


def test_a_static_volume_is_bound_by_its_size_and_its_own_class(box: BoxStorage) -> None:
    for name, size in (("large", "4Gi"), ("small", "2Gi")):
        spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/srv"}}
        box.client.request("POST", VOLUME_PATH, {"metadata": {"name": name}, "spec": spec})
        box.volume_in(name, "Available")
    box.make("data", "1Gi", storageClassName="")
    assert box.bound("data").metadata.name == "small"
    box.volume_in("small", "Bound")


def test_a_claim_without_a_matching_class_says_why_it_waits(box: BoxStorage) -> None:
    box.make("data", storageClassName="fast")
    assert box.says("data", "ProvisioningFailed") == 'storageclass.storage.k8s.io "fast" not found'
    assert box.claim("data").status.phase == "Pending"


def test_a_claim_whose_volume_is_gone_is_lost_and_gets_no_other(box: BoxStorage) -> None:
    box.make("data")
    volume = box.bound("data")
    name = volume.metadata.name
    box.stop()
    box.client.request("DELETE", f"{VOLUME_PATH}/{name}")
    box.client.request(
        "PATCH", f"{VOLUME_PATH}/{name}", {"metadata": {"finalizers": None}}, media_type="application/merge-patch+json"
    )
    box.start()
    wait_until(lambda: box.claim("data").status.phase == "Lost", "the claim is lost")
    assert box.says("data", "ClaimLost")


def test_another_disk_at_the_place_is_found_out_before_anything_is_written(box: BoxStorage) -> None:
    box.make("first")
    box.bound("first")
    box.place.rename(box.data / "unplugged")
    box.place.mkdir()
    box.make("second")
    assert "is not the place that holds the volumes" in box.says("second", "PlaceMissing")
    assert not list(box.place.iterdir())


def test_a_claim_grows_with_its_device_and_says_so_when_it_has_more(box: BoxStorage) -> None:
    box.make("raw", "64Mi", volumeMode="Block")
    volume = box.bound("raw")
    assert volume.spec.local is not None
    box.resize("raw", "128Mi")
    wait_until(lambda: box.claim("raw").status.capacity == {"storage": "128Mi"}, "the claim has more")
    assert box.claim("raw").status.conditions == []
    assert box.volume(volume.metadata.name).spec.capacity == {"storage": "128Mi"}
    opened = os.open(volume.spec.local.path, os.O_RDONLY)
    assert os.lseek(opened, 0, os.SEEK_END) == 128 << 20
    os.close(opened)


def test_a_growth_that_was_interrupted_is_finished_at_the_next_start(box: BoxStorage) -> None:
    box.make("data", "64Mi")
    box.bound("data")
    box.stop()
    box.resize("data", "1Gi")
    box.start()
    wait_until(lambda: box.claim("data").status.capacity == {"storage": "1Gi"}, "the claim has more")


def test_a_claim_that_a_pod_uses_stays_until_the_pod_is_over(box: BoxStorage) -> None:
    box.make("data")
    volume = box.bound("data")
    use(box, "data")
    box.delete_claim("data")
    box.make("other")
    box.bound("other")
    assert box.claim("data").metadata.deletion_timestamp is not None
    box.client.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    box.gone(volume.metadata.name)


def test_a_claim_beyond_what_the_place_may_promise_is_refused_and_bound_once_there_is_room(box: BoxStorage) -> None:
    box.make("huge", "100Ti")
    assert 'not enough space in place "kvedge"' in box.says("huge", "ProvisioningFailed")
    assert [entry.name for entry in box.place.iterdir() if not entry.name.startswith(".")] == []
    box.delete_claim("huge")


def test_the_node_tells_how_full_its_places_are(box: BoxStorage) -> None:
    def look() -> str:
        conditions = {item["type"]: item for item in box.client.get(Node, "", NODE).status.conditions}
        return str(conditions.get("VolumeSpacePressure", {}).get("status", ""))

    assert wait_until(look, "the condition") in ("True", "False")


def test_a_claim_with_the_content_of_another_one_is_bound_once_it_is_copied(box: BoxStorage) -> None:
    source = box.make("source", "64Mi")
    box.bound("source")
    (box.place / source.metadata.uid / "disk.img").write_bytes(b"golden")
    copy = box.make("copy", "128Mi", dataSource={"kind": "PersistentVolumeClaim", "name": "source"})
    box.bound("copy")
    assert (box.place / copy.metadata.uid / "disk.img").read_bytes() == b"golden"


def test_a_copy_whose_source_is_used_meanwhile_is_never_taken_for_whole(
    box: BoxStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shares_blocks(box.place):
        pytest.skip("this file system shares blocks: a clone is of one moment")
    source = box.make("source", "64Mi")
    box.bound("source")
    (box.place / source.metadata.uid / "disk.img").write_bytes(b"golden")
    copy_tree, copied = directory_driver.copy_tree, threading.Event()

    def copy(origin: Path, staged: Path, keep_on: Callable[[], None], *, by_sharing_alone: bool = False) -> None:
        copy_tree(origin, staged, lambda: None, by_sharing_alone=by_sharing_alone)
        if not copied.is_set():
            # The source's VM starts just now.
            use(box, "source")
            copied.set()

    monkeypatch.setattr(directory_driver, "copy_tree", copy)
    claim = box.make("copy", "64Mi", dataSource={"kind": "PersistentVolumeClaim", "name": "source"})
    assert copied.wait(20)
    assert "is in use by p" in box.says("copy", "ProvisioningFailed")
    assert not (box.place / claim.metadata.uid).exists()


def test_a_claim_whose_source_a_pod_writes_waits_where_blocks_cannot_be_shared(box: BoxStorage) -> None:
    if shares_blocks(box.place):
        pytest.skip("this file system shares blocks: a clone is of one moment")
    box.make("source", "64Mi")
    box.bound("source")
    use(box, "source")
    box.make("copy", "64Mi", dataSource={"kind": "PersistentVolumeClaim", "name": "source"})
    assert "is in use by p" in box.says("copy", "ProvisioningFailed")
    box.client.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    box.bound("copy")


def test_a_disk_that_comes_after_the_start_is_taken_up(box: BoxStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvedge.standalone.volumes.space_watch._PERIOD", 0.05)
    box.make("raw", "16Mi", volumeMode="Block")
    volume = box.bound("raw")
    assert volume.spec.local is not None
    device = Path(volume.spec.local.path)
    box.stop()
    detach_loop(device.resolve())
    device.unlink()
    box.place.rename(box.data / "unplugged")
    box.start()
    assert not device.exists()
    (box.data / "unplugged").rename(box.place)
    wait_until(device.exists, "the device is there")
    # Somebody had it away once more, for a repair.
    detach_loop(device.resolve())
    device.unlink()
    wait_until(device.exists, "the device is there again")


def test_a_volume_gets_a_claim_of_another_name_and_the_old_one_goes_by_its_policy(box: BoxStorage) -> None:
    """As a restore in place exchanges them."""
    claims = {name: box.make(name) for name in ("data", "filled")}
    volumes = {name: box.bound(name) for name in claims}
    for name, claim in claims.items():
        (box.place / claim.metadata.uid / "disk.img").write_text(name)
        kept = MergePatch({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        box.client.patch(PersistentVolume, "", volumes[name].metadata.name, kept)
    for name in claims:
        box.delete_claim(name)
        box.volume_in(volumes[name].metadata.name, "Released")
    new, old = volumes["filled"].metadata.name, volumes["data"].metadata.name
    ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": None}
    box.client.patch(PersistentVolume, "", new, MergePatch({"spec": {"claimRef": {**ref, "resourceVersion": None}}}))
    made = box.make("data", volumeName=new)
    assert box.bound("data").metadata.name == new
    assert made.metadata.uid != claims["data"].metadata.uid
    # No claim was made of its own: both data are as they were.
    assert [(box.place / each.metadata.uid / "disk.img").read_text() for each in claims.values()] == list(claims)
    for name in (new, old):
        box.client.patch(PersistentVolume, "", name, MergePatch({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}))
    box.gone(old)
    wait_until(lambda: not (box.place / claims["data"].metadata.uid).exists(), "the old data are gone")
    assert (box.place / claims["filled"].metadata.uid / "disk.img").read_text() == "filled"
    box.delete_claim("data")
    box.gone(new)
