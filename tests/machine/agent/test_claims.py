"""Pods with claims: mounted, as devices, read-only; bound at first use; and waiting with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.types.core import Container, PersistentVolumeClaimVolume, PodVolume, VolumeDevice, VolumeMount
from tests.machine.agent.box import Box, box
from tests.machine.volumes.box_storage import CLASSES, BoxStorage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[tuple[Box, BoxStorage]]:
    with box(tmp_path, busybox) as found:
        storage = BoxStorage(tmp_path, found.api)
        try:
            found.start_agent()
            yield found, storage
        finally:
            storage.close()


def using(script: str, *, block: bool = False, read_only: bool = False) -> dict[str, Any]:
    """The spec of a Pod that uses the claim `data`."""
    container = Container(name="c", image="busybox", command=["sh", "-c", script])
    if block:
        container.volume_devices = [VolumeDevice(name="v", device_path="/dev/disk")]
    else:
        container.volume_mounts = [VolumeMount(name="v", mount_path="/data")]
    source = PersistentVolumeClaimVolume(claim_name="data", read_only=read_only)
    return {"containers": [container], "volumes": [PodVolume(name="v", persistent_volume_claim=source)]}


def test_what_one_pod_writes_to_a_claim_the_next_one_reads(made: tuple[Box, BoxStorage]) -> None:
    box, storage = made
    storage.make("data")
    box.create("writer", "", **using("echo kept > /data/word"))
    box.in_phase("writer", "Succeeded")
    reader = box.create("reader", "", **using("cat /data/word; echo x > /data/word || true", read_only=True))
    box.in_phase("reader", "Succeeded")
    said = box.said(reader)
    assert "kept" in said
    assert "Read-only file system" in said


def test_a_claim_of_mode_block_is_a_device_of_the_container(made: tuple[Box, BoxStorage]) -> None:
    box, storage = made
    storage.make("data", "16Mi", volumeMode="Block")
    script = "ls -l /dev/disk; printf written | dd of=/dev/disk conv=fsync 2>/dev/null; head -c 7 /dev/disk"
    pod = box.create("p", "", **using(script, block=True))
    box.in_phase("p", "Succeeded")
    said = box.said(pod)
    assert "brw-------" in said
    assert "written" in said


def test_a_claim_that_waits_for_its_first_consumer_is_bound_when_a_pod_comes(made: tuple[Box, BoxStorage]) -> None:
    box, storage = made
    waiting = {"provisioner": "kvedge.io/box", "volumeBindingMode": "WaitForFirstConsumer"}
    storage.client.request("POST", CLASSES, {"metadata": {"name": "waits"}, **waiting})
    storage.make("data", storageClassName="waits")
    storage.says("data", "WaitForFirstConsumer")
    assert storage.claim("data").status.phase == "Pending"
    box.create("p", "", **using("echo here > /data/word"))
    box.in_phase("p", "Succeeded")
    assert storage.claim("data").metadata.annotations["volume.kubernetes.io/selected-node"] == "box"


def test_a_pod_without_its_claim_says_so_and_starts_when_it_comes(made: tuple[Box, BoxStorage]) -> None:
    box, storage = made
    box.create("p", "", **using("true"))
    text = 'persistentvolumeclaim "data" not found'
    wait_until(lambda: any(text in message for _, message in box.events("p")), "it says so")
    storage.make("data")
    box.in_phase("p", "Succeeded")
