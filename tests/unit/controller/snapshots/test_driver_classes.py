# Tests: kvedge/controller/snapshots/driver_classes.py, kvedge/controller/snapshots/snapshot_sights.py
"""By which class a driver takes snapshots of a claim, and what is asked of a server to find out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.controller.snapshots.driver_classes import choose_class, read_classes
from kvedge.controller.snapshots.snapshot_sights import find_classes
from kvedge.controller.snapshots.snapshot_view import DriverClasses
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import decode
from kvedge.resources.disks.snapshot_names import METHOD, SNAPSHOTS_AT_ONCE
from kvedge.resources.types.data_volumes import StorageProfile
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshotClass
from kvedge.resources.types.storage import StorageClass
from tests.support.builders import a_claim
from tests.support.scripted_api import Exchange, Script, refusing, scripted_api
from tests.unit.controller.snapshots.snapshot_world import World

DEFAULT = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
DISKS = decode(StorageClass, {"metadata": {"name": "disks"}, "provisioner": "csi.example.com"})


def a_class(name: str, driver: str = "csi.example.com", **annotations: str) -> VolumeSnapshotClass:
    metadata = {"name": name, "annotations": annotations}
    return decode(VolumeSnapshotClass, {"metadata": metadata, "driver": driver})


def a_profile(name: str, part: str = "status") -> StorageProfile:
    return decode(StorageProfile, {"metadata": {"name": "disks"}, part: {"snapshotClass": name}})


@pytest.mark.parametrize(
    ("classes", "profile", "chosen"),
    [
        ([], None, None),
        ([a_class("other", "csi.other.com")], None, None),
        ([a_class("one"), a_class("other", "csi.other.com", **DEFAULT)], None, "one"),
        ([a_class("one"), a_class("two", **DEFAULT)], None, "two"),
        ([a_class("one"), a_class("two", **DEFAULT)], a_profile("one"), "one"),
        ([a_class("one"), a_class("two", **DEFAULT)], a_profile("one", "spec"), "one"),
        ([a_class("one"), a_class("two", **DEFAULT)], a_profile("of-another-driver"), "two"),
    ],
    ids=["none", "another driver's", "the only one", "the default", "the profile's", "a user's", "a wrong profile"],
)
def test_the_class_is_the_profiles_or_the_only_one_or_the_default(
    classes: list[VolumeSnapshotClass], profile: StorageProfile | None, chosen: str | None
) -> None:
    assert choose_class(DISKS, profile, classes) == chosen


def test_of_several_without_a_default_none_is_guessed() -> None:
    text = "2 matching VolumeSnapshotClasses for disks: annotate one of one, two with"
    with pytest.raises(ValueError, match=text):
        choose_class(DISKS, None, [a_class("two"), a_class("one")])


def listing(*items: Any) -> Script:
    documents = [{"metadata": {"name": name, "resourceVersion": "1"}, "driver": driver} for name, driver in items]
    return lambda exchange: exchange.answer(200, {"metadata": {"resourceVersion": "1"}, "items": documents})


def read(tmp_path: Path, *answers: Script) -> tuple[DriverClasses, list[str]]:
    with scripted_api(*answers) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        claims = [a_claim(name, storage_class_name="disks") for name in ("web-root", "web-data")]
        found = read_classes(client, claims)
        client.close()
        return found, [request.path.rpartition("/")[2] for request in api.requests]


def answer_class(exchange: Exchange) -> None:
    exchange.answer(200, {"metadata": {"name": "disks"}, "provisioner": "csi.example.com"})


def test_one_look_at_a_storage_class_does_for_all_its_claims(tmp_path: Path) -> None:
    answers = listing(("fast", "csi.example.com")), answer_class, refusing(404, "NotFound")
    found, asked = read(tmp_path, *answers)
    assert found == DriverClasses({"web-root": "fast", "web-data": "fast"})
    assert asked == ["volumesnapshotclasses", "disks", "disks"]


@pytest.mark.parametrize(
    ("annotations", "found"),
    [({SNAPSHOTS_AT_ONCE: "true"}, {"web-root": "kvedge", "web-data": "kvedge"}), ({}, {})],
    ids=["a thin pool", "a directory"],
)
def test_one_box_takes_disks_of_a_thin_pool_alone_and_keeps_its_own_way_elsewhere(
    tmp_path: Path, annotations: dict[str, str], found: dict[str, str]
) -> None:
    def answer_own(exchange: Exchange) -> None:
        exchange.answer(200, {"metadata": {"name": "disks"}, "provisioner": "kvedge.io/box"})

    def answer_volume(exchange: Exchange) -> None:
        exchange.answer(200, {"metadata": {"name": "pvc-1", "annotations": annotations}})

    answers = listing(("kvedge", "kvedge.io/box")), answer_own, refusing(404, "NotFound"), answer_volume, answer_volume
    classes, asked = read(tmp_path, *answers)
    assert (classes.by_claim, classes.doubts) == (found, {})
    assert len(asked) == 5, "each claim's own volume says it"


@pytest.mark.parametrize("code", [404, 403])
def test_a_server_without_the_kind_or_without_the_right_has_no_classes(tmp_path: Path, code: int) -> None:
    reason = {404: "NotFound", 403: "Forbidden"}[code]
    assert read(tmp_path, refusing(code, reason)) == (DriverClasses(), ["volumesnapshotclasses"])


def test_two_classes_are_told_of(tmp_path: Path) -> None:
    answers = listing(("b", "csi.example.com"), ("a", "csi.example.com")), answer_class, refusing(404, "NotFound")
    found, asked = read(tmp_path, *answers)
    text = (
        "2 matching VolumeSnapshotClasses for disks: annotate one of a, b with"
        " snapshot.storage.kubernetes.io/is-default-class=true"
    )
    assert found == DriverClasses(doubts={"web-root": text, "web-data": text})
    assert len(asked) == 3, "one look does for all claims of the class"


def test_two_classes_of_one_driver_leave_the_claims_of_another_one_theirs(tmp_path: Path) -> None:
    classes = listing(("b", "csi.example.com"), ("a", "csi.example.com"), ("other", "csi.other.com"))

    def answer_other(exchange: Exchange) -> None:
        exchange.answer(200, {"metadata": {"name": "others"}, "provisioner": "csi.other.com"})

    answers = classes, answer_class, refusing(404, "NotFound"), answer_other, refusing(404, "NotFound")
    with scripted_api(*answers) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        kinds = {"web-root": "disks", "web-data": "others"}
        found = read_classes(client, [a_claim(name, storage_class_name=kind) for name, kind in kinds.items()])
        client.close()
    assert found.by_claim == {"web-data": "other"}
    assert list(found.doubts) == ["web-root"]


@pytest.mark.parametrize("why", ["own copies are asked for", "it is final", "it has begun", "no VM"])
def test_nobody_is_asked_for_classes_that_nobody_needs(tmp_path: Path, why: str) -> None:
    world = World()
    assert world.snapshot is not None
    match why:
        case "own copies are asked for":
            world.snapshot.metadata.annotations[METHOD] = "claim-copies"
        case "it is final":
            world.snapshot.status.phase = "Succeeded"
        case "it has begun":
            world.settle()
        case _:
            world.vm = None
    with scripted_api(refusing(500, "InternalError")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        assert find_classes(client, world.snapshot, world.content, world.vm, world.claims) == DriverClasses()
        client.close()
        assert api.requests == []
