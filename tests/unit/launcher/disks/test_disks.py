"""The files of a VMI's disks, made for real in a directory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.disks.disks import prepare_kernel, prepare_volumes, read_secret
from kvedge.launcher.disks.qemu_img_client import QEMU_IMG, create_qcow2
from kvedge.launcher.launcher_errors import BadRequest, LibvirtFailed
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with, with_volumes

UID = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="n", name="v", uid=UID, root=str(tmp_path))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The image of volume 0, mounted."""
    folder = tmp_path / "var/run/kubevirt-image-volume/disk_0"
    (folder / "disk").mkdir(parents=True)
    return folder


def vmi(*volumes: dict[str, Any], **domain: Any) -> VirtualMachineInstance:
    return vmi_with(with_volumes(*volumes, **domain), name="v", namespace="n", uid=UID)


ROOT = {"name": "root", "containerDisk": {"image": "x"}}


def info(path: str) -> dict[str, Any]:
    """What qemu-img says of an image."""
    told = subprocess.run([QEMU_IMG, "info", "--output=json", path], check=True, capture_output=True, text=True).stdout
    return dict(json.loads(told))


def image(path: Path, *arguments: str) -> None:
    """An image made by qemu-img."""
    subprocess.run([QEMU_IMG, "create", "-q", "-f", "qcow2", *arguments[:-1], str(path), arguments[-1]], check=True)
    path.chmod(0o644)


def test_a_container_disk_becomes_a_layer_over_the_image(options: LauncherOptions, tree: Path) -> None:
    image(tree / "disk/any.img", "24M")
    source = prepare_volumes(vmi(ROOT), options)["root"]
    told = info(source.path)
    assert (source.format, source.backing) == ("qcow2", (f"{tree}/disk/any.img", "qcow2"))
    assert told["virtual-size"] == 24 << 20
    assert (told["backing-filename"], told["backing-filename-format"]) == (f"{tree}/disk/any.img", "qcow2")


def test_a_raw_image_of_odd_length_is_rounded_up_to_a_sector(options: LauncherOptions, tree: Path) -> None:
    (tree / "disk/any.img").write_bytes(b"x" * 1000)
    source = prepare_volumes(vmi(ROOT), options)["root"]
    assert source.backing == (f"{tree}/disk/any.img", "raw")
    assert info(source.path)["virtual-size"] == 1024


def test_a_second_preparation_keeps_what_the_guest_has_written(options: LauncherOptions, tree: Path) -> None:
    image(tree / "disk/any.img", "24M")
    path = prepare_volumes(vmi(ROOT), options)["root"].path
    before = os.stat(path)
    assert prepare_volumes(vmi(ROOT), options)["root"].path == path
    assert (os.stat(path).st_ino, os.stat(path).st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_an_image_that_reaches_for_another_file_is_refused(options: LauncherOptions, tree: Path) -> None:
    image(tree / "disk/evil.qcow2", "-u", "-b", "/etc/shadow", "-F", "raw", "1M")
    with pytest.raises(BadRequest, match="backing file") as caught:
        prepare_volumes(vmi(ROOT), options)
    assert caught.value.field == "spec.volumes[0].containerDisk"
    assert not Path(options.ephemeral_directory, "disk-data/root/disk.qcow2").exists()


def test_a_link_in_the_image_is_not_followed(options: LauncherOptions, tree: Path) -> None:
    (tree / "disk/passwd").symlink_to("/etc/passwd")
    with pytest.raises(BadRequest, match="link"):
        prepare_volumes(vmi(ROOT), options)


def test_an_image_that_is_not_mounted_is_said(options: LauncherOptions) -> None:
    with pytest.raises(BadRequest, match="not mounted"):
        prepare_volumes(vmi(ROOT), options)


def test_an_empty_disk_is_sparse_and_private(options: LauncherOptions) -> None:
    source = prepare_volumes(vmi({"name": "e", "emptyDisk": {"capacity": "2Gi"}}), options)["e"]
    assert info(source.path)["virtual-size"] == 2 << 30
    assert os.stat(source.path).st_blocks * 512 < 1 << 20


def test_cloud_init_takes_its_secret_from_the_pods_volume(options: LauncherOptions, tmp_path: Path) -> None:
    mounted = tmp_path / "var/run/kubevirt-private/secret/ci-udata"
    (mounted / "..2026").mkdir(parents=True)
    (mounted / "..2026" / "userdata").write_text("#cloud-config\n# from the secret\n")
    (mounted / "..data").symlink_to("..2026")
    (mounted / "userdata").symlink_to("..data/userdata")
    volume = {"name": "ci", "cloudInitNoCloud": {"secretRef": {"name": "s"}}}
    source = prepare_volumes(vmi(volume), options)["ci"]
    assert source.format == "raw"
    # Else QEMU refuses it where O_DIRECT needs whole blocks.
    assert os.stat(source.path).st_size % 4096 == 0
    assert b"# from the secret" in Path(source.path).read_bytes()
    assert os.stat(source.path).st_mode & 0o077 == 0


def test_a_secret_that_is_not_mounted_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is not there"):
        read_secret(str(tmp_path / "none"))


def test_a_secret_larger_than_secrets_are_is_refused(tmp_path: Path) -> None:
    (tmp_path / "userdata").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(BadRequest, match="larger"):
        read_secret(str(tmp_path))


def test_a_kernel_is_taken_out_of_its_image(options: LauncherOptions, tmp_path: Path) -> None:
    boot = tmp_path / "var/run/kubevirt-image-volume/kernel-boot/boot"
    boot.mkdir(parents=True)
    (boot / "vmlinuz").write_bytes(b"k")
    container = {"image": "k", "kernelPath": "/boot/vmlinuz"}
    found = prepare_kernel(vmi(firmware={"kernelBoot": {"container": container}}), options)
    assert found is not None
    assert (found.kernel, found.initrd) == (f"{boot}/vmlinuz", None)


@pytest.mark.parametrize("path", ["/boot/missing", "/../../../etc/passwd", "/boot/link", "/boot"])
def test_a_kernel_that_is_no_file_in_the_image_is_refused(options: LauncherOptions, tmp_path: Path, path: str) -> None:
    boot = tmp_path / "var/run/kubevirt-image-volume/kernel-boot/boot"
    boot.mkdir(parents=True)
    (boot / "link").symlink_to("/etc/passwd")
    container = {"image": "k", "kernelPath": path}
    with pytest.raises(BadRequest) as caught:
        prepare_kernel(vmi(firmware={"kernelBoot": {"container": container}}), options)
    assert caught.value.field == "spec.domain.firmware.kernelBoot.container.kernelPath"


def test_an_image_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LibvirtFailed):
        create_qcow2(str(tmp_path / "x.qcow2"), 1 << 62)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_of_metrics_is_only_read_and_goes_by_the_page_cache(options: LauncherOptions) -> None:
    source = prepare_volumes(vmi({"name": "metrics", "downwardMetrics": {}}), options)["metrics"]
    assert (source.readonly, source.direct_io_ok, source.format) == (True, False, "raw")
    assert Path(source.path).read_bytes().startswith(b"mvbd\0\0\0\0")
