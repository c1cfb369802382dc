"""A disk grows under a running QEMU when its claim does, and keeps its size when the claim says less."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.launcher_pod import QEMU_USER, LauncherPod

pytestmark = pytest.mark.machine

MIB = 1 << 20


def with_claim(pod: LauncherPod, size: str, source: str = "persistentVolumeClaim") -> dict[str, Any]:
    claim = {"claimName": "web-root"}
    volume = {"name": "root", source: claim if source == "persistentVolumeClaim" else {"persistentVolumeClaim": claim}}
    domain = {"memory": {"guest": "64Mi"}, "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}}
    info = {
        "claimName": "web-root",
        "volumeMode": "Filesystem",
        "requests": {"storage": size},
        "capacity": {"storage": size},
        "filesystemOverhead": "0",
    }
    status = {"volumeStatus": [{"name": "root", "target": "", "persistentVolumeClaimInfo": info}]}
    return {**pod.vmi(domain=domain, volumes=[volume]), "status": status}


def place(pod: LauncherPod) -> Path:
    """The claim's file system, as the Pod has it mounted."""
    directory = pod.directory / "private" / "vmi-disks" / "root"
    directory.mkdir(parents=True)
    for path in (directory.parent, directory):
        os.chown(path, QEMU_USER, QEMU_USER)
    return directory


def test_a_disk_grows_with_its_claim_and_is_never_cut(pod: LauncherPod) -> None:
    image = place(pod) / "disk.img"
    pod.sync(with_claim(pod, "16Mi"))
    pod.wait_state(m.DOMAIN_STATE_RUNNING)
    assert image.stat().st_size == 16 * MIB
    pod.sync(with_claim(pod, "40Mi"))
    assert image.stat().st_size == 40 * MIB
    pod.sync(with_claim(pod, "16Mi"))
    assert image.stat().st_size == 40 * MIB


def test_growth_while_the_vm_was_stopped_is_there_at_the_start(pod: LauncherPod) -> None:
    image = place(pod) / "disk.img"
    image.write_bytes(b"\0" * MIB)
    os.chown(image, QEMU_USER, QEMU_USER)
    pod.sync(with_claim(pod, "24Mi"))
    pod.wait_state(m.DOMAIN_STATE_RUNNING)
    assert image.stat().st_size == 24 * MIB


def test_a_layer_grows_and_the_claim_below_it_stays_as_it_is(pod: LauncherPod) -> None:
    image = place(pod) / "disk.img"
    image.write_bytes(b"\0" * 8 * MIB)
    image.chmod(0o444)
    pod.sync(with_claim(pod, "8Mi", "ephemeral"))
    pod.wait_state(m.DOMAIN_STATE_RUNNING)
    pod.sync(with_claim(pod, "24Mi", "ephemeral"))
    layer = pod.directory / "ephemeral" / "disk-data" / "root" / "disk.qcow2"
    told = subprocess.run(["qemu-img", "info", "-U", "--output=json", layer], check=True, capture_output=True).stdout
    assert json.loads(told)["virtual-size"] == 24 * MIB
    assert image.stat().st_size == 8 * MIB
