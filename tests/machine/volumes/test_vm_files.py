"""A VM leaves one box as a file and comes out of it again, with the disk that it had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.box import Box, small_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]
SIZE = 48 << 20
_DATA = ((0, 3 << 20), (21 << 20, 200_000), (SIZE - 4096, 4096))
_EXPORTS = "/apis/export.kubevirt.io/v1/namespaces/default/virtualmachineexports"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.61.0/24")
    found.start()
    yield found
    found.remove()


@pytest.fixture(scope="module")
def content(box: Box, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What is on the disk of the stopped VM `plant`: data, holes, and data at its end."""
    image = tmp_path_factory.mktemp("image") / "disk.raw"
    with image.open("wb") as file:
        file.truncate(SIZE)
        for position, length in _DATA:
            file.seek(position)
            file.write(os.urandom(length))
    box.cli("image-upload", "dv", "plant-disk", "--size=48Mi", f"--image-path={image}", "--force-bind")
    volumes = [{"name": "root", "dataVolume": {"name": "plant-disk"}}]
    vm: dict[str, Any] = small_vm("plant", "unused", "Halted", volumes=volumes)
    vm["spec"]["template"]["spec"]["domain"]["devices"]["disks"] = [{"name": "root", "disk": {"bus": "virtio"}}]
    box.apply(vm)
    return image.read_bytes()


@pytest.fixture(scope="module")
def archive(box: Box, content: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The VM as a file."""
    path = tmp_path_factory.mktemp("archive") / "plant.kvedge"
    box.cli("export", "plant", str(path))
    return path


def disk_of(box: Box, claim: str) -> Path:
    found = box.client.get(PersistentVolumeClaim, "default", claim)
    (image,) = box.data_dir.glob(f"volumes/**/*{found.metadata.uid}*/**/disk.img")
    return image


def domain_of(name: str, disk: Path, form: str) -> str:
    """A domain of libvirt with one disk."""
    return (
        f"<domain type='kvm'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os>"
        f"<devices><disk type='file' device='disk'><driver type='{form}'/><source file='{disk}'/>"
        "<target dev='vda' bus='virtio'/></disk></devices></domain>"
    )


def exports_of(box: Box) -> Any:
    return box.client.request("GET", _EXPORTS)["items"]  # type: ignore[index,call-overload]


def test_the_file_is_no_larger_than_the_data(box: Box, archive: Path) -> None:
    assert sum(length for _, length in _DATA) < archive.stat().st_size < 4 << 20
    assert exports_of(box) == []


def test_a_vm_comes_out_of_its_file_with_its_disk(box: Box, content: bytes, archive: Path) -> None:
    told = box.cli("import", str(archive), "--name", "copy", "--new-macs").stdout
    assert told == "VM default/copy is imported: kvedge start copy\n"
    image = disk_of(box, "copy-root")
    assert image.read_bytes() == content
    # Holes are holes again.
    assert image.stat().st_blocks * 512 < 6 << 20
    vm = box.client.get(VirtualMachine, "default", "copy")
    assert vm.run_strategy == "Halted"
    refused = box.cli("import", str(archive), "--name", "copy", check=False)
    assert refused.returncode == 1
    assert "there already" in refused.stderr


def test_a_vm_that_is_gone_comes_back_and_boots_from_its_disk(box: Box, content: bytes, archive: Path) -> None:
    box.cli("delete", "vm", "plant")
    box.cli("delete", "dv", "plant-disk")

    def is_gone() -> bool:
        claims = box.client.list(PersistentVolumeClaim, "default")
        return all(claim.metadata.name != "plant-disk" for claim in claims)

    wait_until(is_gone, "the claim is gone", 60)
    box.cli("import", str(archive), "--start")
    assert disk_of(box, "plant-disk").read_bytes()[4 << 20 :] == content[4 << 20 :]
    # Nothing boots from it, but QEMU runs with it.
    box.wait_phase("plant", "Running")
    box.cli("stop", "plant", "--force", "--grace-period", "0", "--wait")


def test_an_appliance_goes_out_and_comes_back(box: Box, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "copy.ova"
    box.cli("export", "copy", str(path), "--format", "ova")
    box.cli("import", str(path), "--name", "again", "--new-macs")
    assert disk_of(box, "again-disk1").read_bytes() == content
    box.cli("delete", "vm", "again")

    def is_gone() -> bool:
        return all(found.metadata.name != "again-disk1" for found in box.client.list(DataVolume, "default"))

    wait_until(is_gone, "the disk went with its VM", 60)


def test_a_libvirt_domain_comes_in_with_its_disk(box: Box, content: bytes, tmp_path: Path) -> None:
    disk = tmp_path / "press.img"
    disk.write_bytes(content)
    document = tmp_path / "press.xml"
    document.write_text(domain_of("press", disk, "raw"))
    box.cli("import", str(document))
    assert disk_of(box, "press-disk1").read_bytes() == content


def test_an_import_of_what_the_claim_cannot_take_leaves_nothing(box: Box, tmp_path: Path) -> None:
    document, disk = tmp_path / "bad.xml", tmp_path / "bad.vmdk"
    header = b"KDMV" + (1).to_bytes(4, "little") + bytes(4) + (8192).to_bytes(8, "little") + (128).to_bytes(8, "little")
    descriptor = b'parentFileNameHint="/etc/passwd"\nRW 8192 SPARSE "x.vmdk"\n'
    head = header + (1).to_bytes(8, "little") + (20).to_bytes(8, "little")
    disk.write_bytes(head.ljust(512, b"\0") + descriptor.ljust(64 << 10, b"\0"))
    document.write_text(domain_of("bad", disk, "vmdk"))
    refused = box.cli("import", str(document), check=False)
    assert refused.returncode == 1
    assert "needs its parent" in refused.stderr

    def is_gone() -> bool:
        return all(found.metadata.name != "bad-disk1" for found in box.client.list(DataVolume, "default"))

    wait_until(is_gone, "nothing is left of the import", 60)
    assert "bad" not in [vm.metadata.name for vm in box.client.list(VirtualMachine, "default")]
