"""A VM's claim on a real box: snapshotted when the VM has stopped, and restored for another VM that finds its data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import METHOD
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from tests.machine.volumes.test_vms_on_claims import IMAGE, a_claim, vm_on
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

# Writes its word to the second disk, says so, and stays.
WRITER = """#!/bin/sh
printf 'written before' | dd of=/dev/vdb bs=4096 conv=sync,fsync 2>/dev/null && echo "acked 1" >/dev/ttyS0
"""
READER = """#!/bin/sh
echo "found $(dd if=/dev/vdb bs=14 count=1 2>/dev/null)." >/dev/ttyS0
"""
GROUP = "snapshot.storage.k8s.io"
SNAPSHOTS = VolumeSnapshot.KIND.path("default")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.181.0/24", IMAGE) as found:
        yield found


def serial_of(box: Box, name: str) -> Path:
    """What the guest says on its serial console."""
    vmi = box.wait_phase(name, "Running")
    pod = box.data_dir / "kubelet/pods" / box.pods(vmi)[0].metadata.uid
    (serial,) = wait_until(lambda: list(pod.rglob("virt-serial0-log")), "the guest's console is logged")
    return serial


def snapshot(box: Box, name: str) -> VolumeSnapshot:
    return box.client.get(VolumeSnapshot, "default", name)


def error_of(box: Box, name: str) -> str:
    error = snapshot(box, name).status.error
    return "" if error is None else error.message or ""


def image_of(box: Box, claim: str) -> Path:
    found = box.client.request("GET", f"/api/v1/namespaces/default/persistentvolumeclaims/{claim}")
    return box.data_dir / "volumes" / found["metadata"]["uid"] / "disk.img"


def is_done(box: Box, name: str) -> bool:
    return box.client.get(DataVolume, "default", name).status.phase == "Succeeded"


def data_volume(name: str, source: str) -> JsonObject:
    """A DataVolume of a snapshot, which says how large its claim is to be."""
    spec: Any = {"source": {"snapshot": {"name": source}}, "storage": {}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": metadata, "spec": spec}


def test_a_vm_boots_with_what_another_one_had_when_it_was_snapshotted(box: Box) -> None:
    box.apply(a_claim("data", "64Mi"))
    box.apply(vm_on("writer", "data", WRITER))
    serial = serial_of(box, "writer")
    wait_until(lambda: b"acked 1" in serial.read_bytes(), "the guest has written", 120)

    source = {"source": {"persistentVolumeClaimName": "data"}}
    box.client.request("POST", SNAPSHOTS, {"metadata": {"name": "first"}, "spec": source})
    wait_until(lambda: "VM writer writes this volume" in error_of(box, "first"), "who writes is told")
    box.cli("stop", "writer")
    wait_until(lambda: snapshot(box, "first").status.ready_to_use, "it is taken once the VM has stopped", 120)
    assert error_of(box, "first") == ""
    with image_of(box, "data").open("r+b") as image:
        image.write(b"written after.")

    box.apply(data_volume("back", "first"))
    wait_until(lambda: is_done(box, "back"), "the claim is restored", 60)
    box.apply(vm_on("reader", "back", READER))
    serial = serial_of(box, "reader")
    wait_until(lambda: b"found written before." in serial.read_bytes(), "the guest finds its data", 120)
    assert image_of(box, "data").read_bytes()[:14] == b"written after."
    assert "first" in box.cli("volume", "list").stdout
    assert "volumesnapshot/first" in box.cli("volume", "usage").stdout
    box.remove_vm("reader")


def test_a_snapshot_of_a_vm_is_taken_as_ever_and_makes_no_volume_snapshots(box: Box) -> None:
    box.cli("snapshot", "create", "writer", "whole", "--wait")
    found = box.client.get(VirtualMachineSnapshot, "default", "whole")
    name = found.status.virtual_machine_snapshot_content_name
    content = box.client.get(VirtualMachineSnapshotContent, "default", name or "-")
    assert content.metadata.annotations.get(METHOD) != "volume-snapshots"
    assert [item.metadata.name for item in box.client.list(VolumeSnapshot, "default")] == ["first"]
