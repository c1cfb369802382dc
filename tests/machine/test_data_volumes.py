"""DataVolumes on one box: their claims, their workers, the disks that are there in the end, and a snapshot of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.data_volume_names import BIND_IMMEDIATELY
from kvedge.resources.disks.snapshot_names import volume_copy_name
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.box import Box
from tests.support.builders import small_vmi, vm_of
from tests.support.kvedge_cli import KvedgeCli
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.52.0/24")
    found.data_dir.mkdir()
    found.start()
    yield found
    found.remove()


def test_a_blank_disk_is_made_in_a_claim(box: Box) -> None:
    box.apply(
        {
            "apiVersion": "cdi.kubevirt.io/v1beta1",
            "kind": "DataVolume",
            "metadata": {"name": "disk", "annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}},
            "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "64Mi"}}}},
        }
    )

    def is_done() -> bool:
        said = box.client.get(DataVolume, "default", "disk").status
        assert said.phase != "Failed", said
        assert said.restart_count == 0, said
        return said.phase == "Succeeded"

    wait_until(is_done, "the disk is made", 90)
    assert image_of(box, "disk").stat().st_size == 64 << 20


def image_of(box: Box, claim: str) -> Path:
    found = box.client.get(PersistentVolumeClaim, "default", claim)
    (image,) = box.data_dir.glob(f"volumes/**/*{found.metadata.uid}*/**/disk.img")
    return image


def claim_of_vm(box: Box) -> str:
    template = box.client.get(VirtualMachine, "default", "web").spec.template
    assert template is not None
    source = template.spec.volumes[0].data_volume
    assert source is not None
    return source.name


def test_the_data_of_a_stopped_vm_come_back_from_its_snapshot(box: Box) -> None:
    template = {
        "metadata": {"name": "root", "annotations": {BIND_IMMEDIATELY: ""}},
        "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "64Mi"}}}},
    }
    vm = vm_of(small_vmi(volumes=[{"name": "root", "dataVolume": {"name": "root"}}]))
    vm["metadata"]["name"] = "web"
    box.apply({**vm, "spec": {**vm["spec"], "runStrategy": "Halted", "dataVolumeTemplates": [template]}})
    wait_until(lambda: is_filled(box, "root"), "the disk is made", 90)
    good, bad = os.urandom(1 << 20), os.urandom(1 << 20)
    write(image_of(box, "root"), good)
    cli = KvedgeCli(box.kubeconfig)
    assert "snapshot before is ready" in cli.run("snapshot", "create", "web", "before", "--wait", "--timeout", "120")
    write(image_of(box, "root"), bad)
    assert "has the disks" in cli.run("snapshot", "restore", "web", "before", "--wait", "--timeout", "120")
    restored = claim_of_vm(box)
    assert restored.startswith("restore-")
    assert image_of(box, restored).stat().st_size == 64 << 20
    assert read(image_of(box, restored)) == good
    # The old disk goes with its claim, and so does what the snapshot holds when that is deleted.
    wait_until(lambda: claims(box) == {"disk", restored, copy_of(box)}, "the old disk goes", 60)
    cli.run("snapshot", "delete", "web", "before")
    wait_until(lambda: claims(box) == {"disk", restored}, "the copy goes", 60)
    assert read(image_of(box, restored)) == good


def is_filled(box: Box, name: str) -> bool:
    return any(
        dv.metadata.name == name and dv.status.phase == "Succeeded" for dv in box.client.list(DataVolume, "default")
    )


def claims(box: Box) -> set[str]:
    return {claim.metadata.name for claim in box.client.list(PersistentVolumeClaim, "default")}


def copy_of(box: Box) -> str:
    found = box.client.get(VirtualMachineSnapshot, "default", "before")
    return volume_copy_name(found.metadata.uid, "root")


def write(image: Path, data: bytes) -> None:
    with image.open("r+b") as opened:
        opened.seek(3 << 20)
        opened.write(data)


def read(image: Path) -> bytes:
    with image.open("rb") as opened:
        opened.seek(3 << 20)
        return opened.read(1 << 20)
