"""A layer over a claim: new in each Pod, kept within one, and the claim stays as it is."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from kvedge.launcher.disks.disks import prepare_volumes
from kvedge.launcher.disks.qemu_img_client import QEMU_IMG
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with, with_volumes

UID = "11111111-1111-4111-8111-111111111111"
CLAIM = {"claimName": "golden", "volumeMode": "Filesystem", "capacity": {"storage": "24Mi"}}


def vmi() -> VirtualMachineInstance:
    volume = {"name": "root", "ephemeral": {"persistentVolumeClaim": {"claimName": "golden"}}}
    status = {"volumeStatus": [{"name": "root", "target": "", "persistentVolumeClaimInfo": CLAIM}]}
    return vmi_with(with_volumes(volume), status, name="v", namespace="n", uid=UID)


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    return LauncherOptions(namespace="n", name="v", uid=UID, root=str(tmp_path))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The disk on the claim, as the Pod has it mounted."""
    path = tmp_path / "var/run/kubevirt-private/vmi-disks/root/disk.img"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"golden" * 10_000)
    path.chmod(0o444)
    return path


def test_the_guest_writes_a_layer_whose_base_has_a_stated_format(options: LauncherOptions, image: Path) -> None:
    before = (image.read_bytes(), image.stat().st_mtime_ns)
    source = prepare_volumes(vmi(), options)["root"]
    told = json.loads(
        subprocess.run([QEMU_IMG, "info", "--output=json", source.path], check=True, capture_output=True).stdout
    )
    assert (source.format, source.backing, source.readonly) == ("qcow2", (str(image), "raw"), False)
    assert (told["backing-filename"], told["backing-filename-format"]) == (str(image), "raw")
    assert told["virtual-size"] == 60_416
    assert stat.S_IMODE(os.stat(source.path).st_mode) == 0o640
    assert (image.read_bytes(), image.stat().st_mtime_ns) == before


def test_a_launcher_that_comes_after_another_in_the_pod_keeps_the_layer(options: LauncherOptions, image: Path) -> None:
    path = prepare_volumes(vmi(), options)["root"].path
    before = os.stat(path).st_ino
    assert os.stat(prepare_volumes(vmi(), options)["root"].path).st_ino == before


def test_a_claim_without_a_disk_is_named(options: LauncherOptions, image: Path) -> None:
    image.unlink()
    with pytest.raises(ClaimUnusable, match=r"spec.volumes\[0\].ephemeral.persistentVolumeClaim: PVC golden"):
        prepare_volumes(vmi(), options)
