"""Uploads into claims of one box, by an unmodified virtctl."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_servers import Kubectl
from tests.support.box import Box
from tests.support.live_folders import find_named

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]
SIZE = 3 << 20


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.53.0/24")
    found.start()
    yield found
    forbidden = [line for line in found.log.read_text().splitlines() if "is forbidden" in line]
    found.remove()
    assert forbidden == []


@pytest.fixture(scope="module")
def virtctl(box: Box) -> Kubectl:
    return Kubectl(box.kubeconfig, "virtctl")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A qcow2 with something in it."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "raw").write_bytes(os.urandom(SIZE))
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", str(folder / "raw"), str(folder / "disk.qcow2")], check=True)
    return folder / "disk.qcow2"


def disks(box: Box) -> list[bytes]:
    """The beginnings of all disks in claims."""
    return [path.read_bytes()[:SIZE] for path in find_named(box.data_dir, "disk.img") if "volumes" in path.parts]


def test_virtctl_uploads_an_image_into_a_new_data_volume(box: Box, virtctl: Kubectl, image: Path) -> None:
    told = virtctl.run(
        "image-upload", "dv", "first", "--size=64Mi", f"--image-path={image}", "--insecure", "--force-bind"
    )
    assert "completed successfully" in told
    assert image.with_name("raw").read_bytes() in disks(box)
    again = virtctl.try_run("image-upload", "dv", "first", "--size=64Mi", f"--image-path={image}", "--insecure")
    assert again.returncode == 1
    assert "PVC first already successfully imported/cloned/updated" in again.stderr


def test_virtctl_trusts_the_boxs_own_authority(box: Box, virtctl: Kubectl, image: Path, tmp_path: Path) -> None:
    config = box.client.request("GET", "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config")
    assert config["status"]["uploadProxyURL"] == f"https://127.0.0.1:{box.port}"
    authority = tmp_path / "ca.crt"
    authority.write_text(config["status"]["uploadProxyCA"])
    command = [str(virtctl.path), "--kubeconfig", str(box.kubeconfig), "image-upload", "dv", "second", "--size=64Mi"]
    done = subprocess.run(
        [*command, f"--image-path={image}", "--force-bind"],
        env={**os.environ, "SSL_CERT_FILE": str(authority)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_kvedge_uploads_without_being_told_whom_to_trust(box: Box, image: Path) -> None:
    done = box.cli(
        "image-upload", "dv", "third", "--size=64Mi", f"--image-path={image}", "--force-bind", "--datasource"
    )
    assert done.stdout == f"{image} is in DataVolume default/third\n"
    source = box.client.request("GET", "/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datasources/third")
    assert source["spec"]["source"]["pvc"] == {"name": "third", "namespace": "default"}
    again = box.cli("image-upload", "dv", "third", "--size=64Mi", f"--image-path={image}", check=False)
    assert again.returncode == 1
    assert "already successfully imported" in again.stderr


def test_an_image_that_is_too_large_is_told_in_words(box: Box, image: Path) -> None:
    done = box.cli("image-upload", "dv", "small", "--size=1Mi", f"--image-path={image}", "--force-bind", check=False)
    assert done.returncode == 1
    assert "larger than the reported available storage" in done.stderr


def test_virtctl_uploads_into_a_claim_that_it_makes(box: Box, virtctl: Kubectl, image: Path) -> None:
    told = virtctl.run(
        "image-upload", "pvc", "bare", "--size=64Mi", f"--image-path={image}", "--insecure", "--force-bind"
    )
    assert "completed successfully" in told
    assert image.with_name("raw").read_bytes() in disks(box)
    again = virtctl.try_run("image-upload", "pvc", "bare", "--no-create", f"--image-path={image}", "--insecure")
    assert again.returncode == 1
    assert "PVC bare already successfully imported/cloned/updated" in again.stderr


def test_kvedge_uploads_into_a_claim_that_is_there(box: Box, image: Path) -> None:
    known = disks(box).count(image.with_name("raw").read_bytes())
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    bind = {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}
    box.client.request(
        "POST",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"metadata": {"name": "there", "annotations": bind}, "spec": claim},
    )
    done = box.cli("image-upload", "pvc", "there", "--no-create", f"--image-path={image}")
    assert done.stdout == f"{image} is in PersistentVolumeClaim default/there\n"
    assert disks(box).count(image.with_name("raw").read_bytes()) == known + 1
