"""Golden images on one box: kept fresh from a real registry, and copied into another namespace by two workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.data_volume_names import BIND_IMMEDIATELY, POLL_REQUESTED
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import CdiConfig, DataSource, DataVolume, data_volume_condition
from tests.machine.storage.real_registry import registry
from tests.support.box import Box
from tests.support.small_images import file, layer, oci_archive
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]
MIB = 1 << 20
OLD, NEW = (bytes([number]) * 3 * MIB + os.urandom(MIB) + bytes(2 * MIB) for number in (1, 2))
SIZE = {"resources": {"requests": {"storage": "16Mi"}}}


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.54.0/24")
    found.data_dir.mkdir()
    found.start()
    yield found
    found.remove()


def an_archive(folder: Path, name: str, disk: bytes) -> Path:
    path = folder / name
    oci_archive(path, [layer([file("disk/disk.img", disk)])], {}, zipped=True)
    return path


def ask(box: Box, value: str) -> None:
    patch = MergePatch({"metadata": {"annotations": {POLL_REQUESTED: value}}})
    box.client.patch(DataImportCron, "golden", "nightly", patch)


def pointed_at(box: Box) -> str:
    try:
        pvc = box.client.get(DataSource, "golden", "linux").spec.source.pvc
    except NotFound:
        return ""
    return "" if pvc is None else pvc.name


def told(box: Box) -> str:
    found = data_volume_condition(box.client.get(DataImportCron, "golden", "nightly").status.conditions, "UpToDate")
    return "" if found is None else f"{found.status} {found.message}"


def disk_of(box: Box, namespace: str, name: str) -> bytes:
    def is_done() -> bool:
        said = box.client.get(DataVolume, namespace, name).status
        assert said.phase != "Failed", said
        return said.phase == "Succeeded"

    wait_until(is_done, f"{namespace}/{name} is filled", 120)
    claim = box.client.request("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
    (image,) = box.data_dir.glob(f"volumes/**/*{claim['metadata']['uid']}*/**/disk.img")
    return image.read_bytes()


def copy(box: Box, name: str) -> bytes:
    spec: dict[str, Any] = {
        "sourceRef": {"kind": "DataSource", "namespace": "golden", "name": "linux"},
        "storage": SIZE,
    }
    meta = {"name": name, "namespace": "shop", "annotations": {BIND_IMMEDIATELY: ""}}
    box.client.create(decode(DataVolume, {"metadata": meta, "spec": spec}))
    return disk_of(box, "shop", name)


def test_a_golden_image_is_kept_fresh_and_copied_into_another_namespace(box: Box, tmp_path: Path) -> None:
    for name in ("golden", "shop"):
        box.client.create(decode(Namespace, {"metadata": {"name": name}}))
    (tmp_path / "registry").mkdir()
    with registry(tmp_path / "registry", host="10.98.54.1") as shelf:
        wait_until(lambda: box.client.list(CdiConfig), "the configuration is there")
        insecure = MergePatch({"spec": {"insecureRegistries": [shelf.address]}})
        box.client.patch(CdiConfig, "", "config", insecure)
        shelf.push(an_archive(tmp_path, "old.tar", OLD), "images/linux:9")
        source = {"registry": {"url": f"docker://{shelf.address}/images/linux:9"}}
        spec = {
            "template": {"spec": {"source": source, "storage": SIZE}},
            "schedule": "",
            "managedDataSource": "linux",
            "importsToKeep": 1,
        }
        meta = {"name": "nightly", "namespace": "golden", "annotations": {POLL_REQUESTED: "1"}}
        box.client.create(decode(DataImportCron, {"metadata": meta, "spec": spec}))
        first = wait_until(lambda: pointed_at(box), "the first image is there", 120)
        assert disk_of(box, "golden", first)[: len(OLD)] == OLD
        assert copy(box, "early")[: len(OLD)] == OLD
        shelf.push(an_archive(tmp_path, "new.tar", NEW), "images/linux:9")
        ask(box, "2")
        second = wait_until(lambda: pointed_at(box) if pointed_at(box) != first else "", "the next one is", 120)
        assert copy(box, "late")[: len(NEW)] == NEW
        wait_until(lambda: not _is_there(box, first), "the old one goes")
    ask(box, "3")
    wait_until(lambda: "the source was not reached" in told(box), "that the registry is away is told", 120)
    assert told(box).startswith("True")
    assert pointed_at(box) == second
    # What was sent leaves nothing behind in either namespace.
    assert [pod.metadata.name for pod in box.client.list(Pod, "shop")] == []
    assert [pod.metadata.name for pod in box.client.list(Pod, "golden")] == ["poll-nightly"]


def _is_there(box: Box, name: str) -> bool:
    return any(dv.metadata.name == name for dv in box.client.list(DataVolume, "golden"))
